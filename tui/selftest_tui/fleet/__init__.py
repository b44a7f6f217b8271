"""The fleet's screen: all agents and tmux sessions."""

"""The fleet screen: all agents and tmux sessions."""

"""What is true of the agents, and what may be done to them: no terminal UI in here."""

__version__ = "0.1.0"

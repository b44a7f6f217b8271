"""Core library: facts about agents and operations on them, without a terminal UI."""

__version__ = "0.1.0"

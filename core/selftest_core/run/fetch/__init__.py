"""Fetching results of agents: files, branches and conversations."""

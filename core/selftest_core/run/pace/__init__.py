"""Pace of a run: how many agents work at once, by what goes wrong."""

"""Polling of the sources: its schedule, and its thread."""

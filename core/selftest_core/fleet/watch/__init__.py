"""Polling: when each source is asked again, and the thread that asks."""

"""Recorder of terminals, and driver of terminals for end-to-end tests."""

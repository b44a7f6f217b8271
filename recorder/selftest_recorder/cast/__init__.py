"""Recordings as asciicast files: reading, writing and editing."""

"""Recordings as files: asciicast read, written and changed."""

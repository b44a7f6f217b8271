"""The terminal program and its command line."""

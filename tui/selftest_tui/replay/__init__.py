"""The player of recordings."""

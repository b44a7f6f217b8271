"""Indexes of recordings: keyframes, search, and fast seeking."""

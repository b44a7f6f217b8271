"""Indexes of recordings: keyframes, search, and instant seek."""

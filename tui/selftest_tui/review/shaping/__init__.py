"""Splitting, squashing and rewording on the screen of a review."""

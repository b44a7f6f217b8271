"""The screen of a review."""

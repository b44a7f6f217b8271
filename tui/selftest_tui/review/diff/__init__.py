"""Diffs on the screen."""

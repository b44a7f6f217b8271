"""Widgets: they take values and post what happened."""

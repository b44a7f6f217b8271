"""Removal of what ended runs, reviews and demos left behind."""

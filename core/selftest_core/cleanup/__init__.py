"""Removal of leftovers of ended runs, reviews and demos."""

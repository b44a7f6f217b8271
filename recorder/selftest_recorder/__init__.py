"""Terminals driven and recorded."""

"""Verification of an open review in the background, while decisions are made."""

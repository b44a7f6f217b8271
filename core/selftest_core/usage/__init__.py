"""Tokens and dollars of agents."""

"""Conversations of agents: parsing, formatting and searching their transcripts."""

"""Conversations of agents: transcripts read, made readable, and searched."""

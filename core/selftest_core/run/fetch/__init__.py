"""Fetching results: files, branches and conversations that agents leave."""

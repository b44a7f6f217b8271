"""Drafts of the tutorial: agents fill in blocks beneath its headings, a person decides about each block."""

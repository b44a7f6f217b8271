"""From many agents' commits to one linear branch: read, classify, rank, lay, decide, publish."""

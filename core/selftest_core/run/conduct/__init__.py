"""The conductor of a run and its parts: it launches, observes, fetches, stops, and writes the journal."""

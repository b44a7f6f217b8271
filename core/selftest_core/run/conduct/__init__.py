"""The conductor: launches agents, observes them, decides, stops, and writes the journal."""

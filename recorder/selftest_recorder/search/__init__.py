"""Search of everything that agents did: an index of all runs and reviews of a repository."""

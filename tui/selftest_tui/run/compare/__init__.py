"""The comparison of a run with the one before it, as a page over the run's screen."""

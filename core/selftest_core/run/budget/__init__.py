"""Budget of a day: what all runs of a repository have used since midnight, and what is left."""

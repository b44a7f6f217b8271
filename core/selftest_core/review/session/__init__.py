"""A review that a person is in: its log, its state, and the acts on it."""

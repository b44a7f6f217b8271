"""The screens of a run: its start, and its progress."""

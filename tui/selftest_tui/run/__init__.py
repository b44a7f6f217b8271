"""The screens of a run: start and progress."""

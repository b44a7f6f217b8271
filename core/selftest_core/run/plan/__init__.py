"""The plan of a run: tests, base, prompts, estimates, and the checks before it begins."""

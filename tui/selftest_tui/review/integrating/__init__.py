"""Integrators on a review's screen: the plan and the question before they start, and what came of their answers."""

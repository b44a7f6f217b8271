"""Integrators: agents that resolve conflicts of a review, and the gate that their answers pass."""

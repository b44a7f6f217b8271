"""Token usage and cost of agents."""

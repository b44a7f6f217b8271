"""One run: its plan, the prompt and the result of each agent, and the fold of its events."""

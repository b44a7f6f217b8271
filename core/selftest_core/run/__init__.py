"""One run: its plan, what an agent is told and gives back, and the fold of what happened."""

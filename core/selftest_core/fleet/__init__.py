"""The state of all agents: observations folded into rows, with the evidence of each row."""

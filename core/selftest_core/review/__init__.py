"""Review: the changes of many agents, ranked, decided one by one, and published as one branch."""

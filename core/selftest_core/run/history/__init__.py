"""Earlier runs of a repository: what they say about the next one."""

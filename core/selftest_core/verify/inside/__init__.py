"""Programs that run inside the sandbox, by the standard library alone; the host imports them for their path."""

"""Actions on agents: message, stop, start, destroy, attach, type, preview."""

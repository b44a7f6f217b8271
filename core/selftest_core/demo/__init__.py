"""The sample repository and its scripted agents, run by the real mngr."""

"""Verification on other hosts: the same jobs, run by command agents that mngr makes there."""

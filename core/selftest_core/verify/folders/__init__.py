"""Folders in which agents' code has run: our own walks through them, since no program of the host may work there."""

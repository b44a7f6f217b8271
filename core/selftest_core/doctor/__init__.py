"""Checks of this machine, with the command that repairs each problem."""

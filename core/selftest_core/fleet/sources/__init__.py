"""The sources of the fleet: mngr's list, and the files and sessions of this machine."""

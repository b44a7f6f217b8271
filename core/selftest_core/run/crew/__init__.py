"""The crew: the port through which a conductor makes and stops agents, and its implementation with mngr."""

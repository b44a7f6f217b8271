"""Commands of the project that run in slots: the set-up of an environment, and test runners other than pytest."""

"""Sync: agents that write the tests that a tutorial lacks, and mend citations that are no block any more."""

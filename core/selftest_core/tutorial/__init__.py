"""The tutorial: its blocks, the tests that cite them, and the check of both."""

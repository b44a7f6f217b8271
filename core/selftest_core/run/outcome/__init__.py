"""The outcome of a test: the report of its agent, and the end of the test."""

"""The outcome of a test: what its agent reports, and how the test ended."""

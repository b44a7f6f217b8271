"""Verification: the tests of a review run again by us, with a verdict for each change and each test."""

"""Verification: run the tests of a review again, and give a verdict for each change and each test."""

"""Verification that is kept on the disk: results of test runs, and the newest verdicts of each review."""

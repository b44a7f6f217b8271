"""Commands about the tutorial and the tests that cite it."""

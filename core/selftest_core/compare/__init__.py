"""Comparison of two runs: tests that are newly red, newly flaky, mended, slower, dearer, new or gone."""

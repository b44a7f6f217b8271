"""Measurements against the budgets: `make bench`. Printed and written to bench/results.json, never a failing build."""

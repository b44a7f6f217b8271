"""Measurements against the budgets: `make bench`. Printed and written to bench/results.json, never a failing build."""

import sys
from pathlib import Path

# The scenes and the simulated fleet of the tests are measured too.
_TESTS = str(Path(__file__).resolve().parents[1] / "tests")
if _TESTS not in sys.path:
    sys.path.insert(0, _TESTS)

"""Commands of runs: start one, also on a schedule, list and compare them, resume, answer, stop."""

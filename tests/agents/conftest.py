"""Print what the tests with real agents measured: figures, never a reason to fail."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from agents.real_agents import FIGURES

if TYPE_CHECKING:
    import pytest


def pytest_sessionstart(session: pytest.Session) -> None:
    """Forget the figures of before; the workers of xdist leave that to the process that started them."""
    if not hasattr(session.config, "workerinput"):
        FIGURES.unlink(missing_ok=True)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """One line for each figure."""
    if FIGURES.exists():
        terminalreporter.section("figures of real agents")
        for line in FIGURES.read_text(encoding="utf-8").splitlines():
            figure = json.loads(line)
            terminalreporter.write_line(f"{figure['value']:>10} {figure['unit']:<4} {figure['name']}")

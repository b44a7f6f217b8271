"""Options of pytest for end-to-end tests, for a root conftest.py: `pytest_plugins = ["selftest_recorder.e2e.options"]`.

The entry point adds none of them, since pytest loads it in every project of the same environment.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Generator

    from _pytest.terminal import TerminalReporter

KEPT = "e2e_kept"
"""Name of the property that holds the folder of an environment that was kept."""
HAS_FAILED = pytest.StashKey[bool]()
"""Key of a test's own failure, for its fixtures."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options."""
    group = parser.getgroup("e2e", "end-to-end tests")
    group.addoption(
        "--e2e-artifacts",
        metavar="DIR",
        help="folder for transcripts, cited blocks and recordings; else $SELFTEST_OUT/artifacts/e2e, as in a run of "
        "agents, else pytest's temporary folder",
    )
    group.addoption("--e2e-run-name", metavar="NAME", default="", help="folder inside of it for this run of the tests")
    group.addoption(
        "--e2e-keep-env",
        choices=("never", "on-failure", "always"),
        default="never",
        help="keep the environment of a test when it has ended: its files, agents and terminals",
    )
    group.addoption(
        "--e2e-noop",
        metavar="PROGRAM",
        help="let this program do nothing in a cited block: a test that passes all the same proves nothing",
    )
    group.addoption(
        "--e2e-noop-block",
        metavar="N",
        type=int,
        default=1,
        help="the block, as the test cites them (default: 1); tests that cite fewer are run unchanged",
    )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Note that a test failed."""
    report = yield
    if report.failed:
        item.stash[HAS_FAILED] = True
    return report


def pytest_terminal_summary(terminalreporter: TerminalReporter) -> None:
    """Print where environments were kept."""
    for reports in terminalreporter.stats.values():
        for report in reports:
            if getattr(report, "when", "") == "teardown":
                for name, value in report.user_properties:
                    if name == KEPT:
                        terminalreporter.write_line(f"kept: {value} of {report.nodeid}")

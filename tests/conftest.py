"""Every test runs as if started from a plain terminal: no signal ignored, no TMUX, none of the caller's settings."""

from __future__ import annotations

import gc
import os
import signal
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from worlds import World, a_world

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytest_plugins = ["selftest_recorder.e2e.options"]

WORLDS = {"world", "shared_world", "a_world", "e2e"}
"""Fixtures and imports of the tests that start programs in a private world."""

# A build server starts us in the background, where shells ignore SIGINT and SIGQUIT, and nohup ignores SIGHUP;
# ignored signals are inherited by every program that a test starts.
for _number in (signal.SIGHUP, signal.SIGQUIT, signal.SIGTERM, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU):
    signal.signal(_number, signal.SIG_DFL)
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.pthread_sigmask(signal.SIG_SETMASK, ())

# The same examples in every run: what is found once is found always, and nowhere a deadline that a busy machine misses.
settings.register_profile(
    "always the same", derandomize=True, deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("always the same")

_OF_THE_CALLER = (
    "TMUX", "TMUX_PANE", "TMUX_TMPDIR", "NO_COLOR", "FORCE_COLOR", "CLICOLOR", "COLORTERM", "COLUMNS", "LINES",
    "MNGR_HOST_DIR", "MNGR_PREFIX", "XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME",
    "VIRTUAL_ENV", "PYTHONPATH", "GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "TEXTUAL", "TEXTUAL_THEME", "SSH_TTY",
)  # fmt: skip
for _name in list(os.environ):
    # An agent finds the transcripts of our own tests in the folder of its results, SELFTEST_OUT.
    if _name in _OF_THE_CALLER or (_name.startswith(("SELFTEST_", "TEXTUAL_")) and _name != "SELFTEST_OUT"):
        del os.environ[_name]
os.environ.update(TERM="xterm-256color", LANG="C.UTF-8", LC_ALL="C.UTF-8", TZ="UTC")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Let garbage collection leave out what importing all tests made: it stays, and looking through it takes long."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(20_000, 20, 20)
        gc.enable()


class Failures:
    """Each failure in the output as it happens, where a run otherwise only names them at its end."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Name a failed test, with the first line of its error."""
        terminal = self._config.pluginmanager.get_plugin("terminalreporter")
        if report.failed and terminal is not None:
            crash = getattr(report.longrepr, "reprcrash", None)
            error = (crash.message if crash is not None else report.longreprtext).strip().partition("\n")[0]
            terminal.write_line(
                f"\nFAILED {report.nodeid} ({report.when}, {report.duration:.0f} s) - {error}", red=True
            )


def pytest_configure(config: pytest.Config) -> None:
    """Tell failures as they happen, in the process that the workers of xdist report to."""
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Failures(config))


@pytest.fixture
def world() -> Iterator[World]:
    """A private world for one test."""
    with a_world() as made:
        yield made


@pytest.fixture(scope="module")
def shared_world() -> Iterator[World]:
    """A private world for the tests of one module, where making agents for each would cost seconds."""
    with a_world() as made:
        yield made


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark the tests that need a private world: they start programs, and `make quick` leaves them out."""
    assert isinstance(item, pytest.Function)
    if WORLDS.intersection(item.fixturenames) or WORLDS.intersection(vars(item.module)):
        item.add_marker("world")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the slowest files first: side by side, one that began last would keep all waiting.

    Files that drive real agents are slower than others, and among them a deadline shows how long a test may take. Then
    come those that start programs or repeat one property very often, then those that drive screens.
    """
    seconds: dict[Path, float] = {}
    for item in items:
        if item.get_closest_marker("real"):
            mark = item.get_closest_marker("timeout")
            seconds[item.path] = max(seconds.get(item.path, 0.0), mark.args[0] if mark else 60.0)
        elif item.get_closest_marker("world") or item.get_closest_marker("slow"):
            seconds[item.path] = max(seconds.get(item.path, 0.0), 45.0)
        elif "tui" in item.path.parts:
            seconds.setdefault(item.path, 30.0)
    items.sort(key=lambda item: -seconds.get(item.path, 0.0))

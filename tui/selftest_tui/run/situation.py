"""Where the person stands on a run's screen when a key is pressed, and why a key cannot do its work there. Pure.

A reason is a whole sentence that says what is in the way and, where there is one, the way out. None: the key works.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from selftest_core.frozen import dataclass
from selftest_core.run.cluster_view import unreachable
from selftest_core.run.events import Phase

if TYPE_CHECKING:
    from selftest_core.fleet.view import Row
    from selftest_core.run.fold import RunRow


@dataclass(frozen=True, slots=True)
class RunSituation:
    """What the keys' reasons depend on. `targets`: the tests of the group under the cursor, or the one test.

    `row`: the test under the cursor; `agent`: its agent as the fleet sees it, None where it does not. `is_over`: every
    test has ended. `has_files`: something came back for the test.
    """

    row: RunRow | None = None
    agent: Row | None = None
    on_group: bool = False
    targets: tuple[RunRow, ...] = ()
    tests: int = 0
    shown: int = 0
    needing: int = 0
    problems: int = 0
    is_live: bool = False
    is_over: bool = False
    is_paused: bool = False
    is_halted: bool = False
    is_starting: bool = False
    to_clear: bool = False
    has_files: bool = False
    pane_is_open: bool = True
    is_filtered: bool = False


def test_here(now: RunSituation) -> str | None:
    """The cursor must be on a test."""
    if now.row is not None:
        return None
    return _none_shown(now) or "The cursor is on a group: move to a test."


test_here.__test__ = False  # type: ignore[attr-defined]  # no test of ours, whatever a collector thinks of its name


def some_target(now: RunSituation) -> str | None:
    """There must be a test to act on."""
    return None if now.targets else _none_shown(now)


def _none_shown(now: RunSituation) -> str | None:
    if now.shown:
        return None
    return "No test is shown: escape shows all again." if now.is_filtered else "There is no test here."


def can_attach(now: RunSituation) -> str | None:
    """An agent that is there; a group opens and closes."""
    if now.on_group:
        return None
    if now.row is None:
        return test_here(now)
    if now.agent is not None and (now.agent.session is not None or not now.agent.agent.host.is_local):
        return None
    return f"There is no terminal to attach to: {unreachable(now.row) or 'its agent is not seen yet'}."


def can_type(now: RunSituation) -> str | None:
    """What is typed goes to a local tmux session."""
    if now.row is None:
        return test_here(now)
    if now.agent is not None and now.agent.session is not None:
        return None
    if now.agent is not None and not now.agent.agent.host.is_local:
        return "It runs on another machine, whose tmux is out of reach from here: attach (⏎) or send a message (m)."
    return f"There is no terminal to type into: {unreachable(now.row) or 'its agent is not seen yet'}."


def can_message(now: RunSituation) -> str | None:
    """At least one agent must be there to be told something."""
    if not now.targets:
        return some_target(now)
    reasons = [unreachable(row) for row in now.targets]
    if not all(reasons):
        return None
    if len(reasons) == 1:
        return f"It can be told nothing: {reasons[0]}."
    return f"None of these {len(reasons)} can be told anything: {reasons[0]}, to begin with."


def can_pause(now: RunSituation) -> str | None:
    """Pause, go on, or take up again: there must be something left to do."""
    if now.is_starting:
        return "Its conductor is being started."
    if now.is_over and not now.is_live:
        return "The run is over: R tries tests again."
    if now.is_halted and now.is_live:
        return "It is being stopped: what runs is ended first."
    return None


def can_retry(now: RunSituation) -> str | None:
    """Only what has ended can be tried again."""
    if not now.targets:
        return some_target(now)
    if not any(row.phase in (Phase.ENDED, Phase.STOPPING) for row in now.targets):
        return _nothing(now, "has not ended yet", "of these tests has ended yet")
    return None


def can_skip(now: RunSituation) -> str | None:
    """Only what waits can be skipped."""
    if not now.targets:
        return some_target(now)
    if not any(row.phase is Phase.WAITING for row in now.targets):
        return _nothing(now, "does not wait for an agent any more: s stops it", "of these tests waits for an agent")
    return needs_conductor(now)


def can_stop(now: RunSituation) -> str | None:
    """Something must run."""
    if not now.targets:
        return some_target(now)
    if not any(row.phase in (Phase.LAUNCHING, Phase.WORKING, Phase.PULLING) for row in now.targets):
        return _nothing(now, "has no agent at work", "of these tests has an agent at work")
    return needs_conductor(now)


def _nothing(now: RunSituation, one: str, many: str) -> str:
    return f"It {one}." if len(now.targets) == 1 else f"None {many}."


def needs_conductor(now: RunSituation) -> str | None:
    """Somebody must be there to do it."""
    if now.is_live:
        return None
    return "The run is over." if now.is_over else "Nobody conducts this run: P takes it up again."


def can_end(now: RunSituation) -> str | None:
    """The run must be going on."""
    return "It is being stopped already." if now.is_live and now.is_halted else needs_conductor(now)


def someone_needs_me(now: RunSituation) -> str | None:
    """Tab needs somewhere to go."""
    return None if now.needing else "No agent of this run needs you."


def has_files(now: RunSituation) -> str | None:
    """Something must have come back."""
    return test_here(now) or (None if now.has_files else "Nothing has come back for this test yet.")


def some_problem(now: RunSituation) -> str | None:
    """There must be something to read."""
    return None if now.problems else "Nothing was said yet, and no problem is known."


def something_to_clear(now: RunSituation) -> str | None:
    """Escape always leads somewhere: back to the fleet in the end."""
    return None


def pane_open(now: RunSituation) -> str | None:
    """The right pane must be on the screen."""
    return None if now.pane_is_open else "The right pane is closed: p opens it."

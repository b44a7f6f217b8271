"""Where the person stands when a key is pressed, and why a key cannot do its work there. Pure.

A reason is a whole sentence that says what is in the way and, where there is one, the way out. None: the key works.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from selftest_core.agents import State
from selftest_core.frozen import dataclass
from selftest_tui.shared import present

if TYPE_CHECKING:
    from selftest_core.fleet.observations import TmuxSession
    from selftest_core.fleet.view import Row


@dataclass(frozen=True, slots=True)
class Situation:
    """What the keys' reasons depend on. `targets`: the marked agents, else the one under the cursor."""

    row: Row | None = None
    session: TmuxSession | None = None
    on_group: bool = False
    targets: tuple[Row, ...] = ()
    agents: int = 0
    shown: int = 0
    needing: int = 0
    problems: int = 0
    marked: int = 0
    to_clear: bool = False
    is_searchable: bool = False
    pane_is_open: bool = True
    is_filtered: bool = False


def agents_shown(now: Situation) -> str | None:
    """There must be something to act on."""
    if now.shown or now.session is not None:
        return None
    if now.agents:
        return "No agent is shown: escape clears the filter."
    return "There is no agent yet."


def agent_here(now: Situation) -> str | None:
    """The cursor must be on an agent."""
    if now.row is not None:
        return None
    if now.session is not None:
        return "This is a tmux session of your own, no agent: only attach (⏎) and preview (p) work on it."
    return agents_shown(now) or "The cursor is on a group: move to an agent."


def some_target(now: Situation) -> str | None:
    """At least one agent must be marked or under the cursor."""
    return None if now.targets else agent_here(now)


def can_attach(now: Situation) -> str | None:
    """An agent with a session, or any session; a group opens and closes."""
    if now.session is not None or now.on_group:
        return None
    if now.row is None:
        return agent_here(now)
    if now.row.agent.host.is_local and now.row.session is None:
        name, state = present.clean(now.row.agent.name), present.WORDS[now.row.category]
        return f"{name} has no tmux session to attach to (it is {state}): S starts it."
    return None


def can_type(now: Situation) -> str | None:
    """What is typed goes to a local tmux session."""
    if now.session is not None or (now.row is not None and now.row.session is not None):
        return None
    if now.row is None:
        return agent_here(now)
    if not now.row.agent.host.is_local:
        return "It runs on another machine, whose tmux is out of reach from here: attach (⏎) or send a message (m)."
    return f"{present.clean(now.row.agent.name)} has no tmux session to type into: S starts it."


def can_type_many(now: Situation) -> str | None:
    """Several agents are typed into together; one is what `i` is for."""
    if not now.targets:
        return agent_here(now)
    if not any(row.session is not None for row in now.targets):
        return "None of these agents has a tmux session that can be typed into from here."
    return None


def can_stop(now: Situation) -> str | None:
    """Something must be running."""
    if now.targets and all(row.agent.state is State.STOPPED for row in now.targets):
        return f"Already stopped: {_named(now.targets)}."
    return some_target(now)


def can_start(now: Situation) -> str | None:
    """Something must not be running."""
    running = (State.RUNNING, State.WAITING, State.RUNNING_UNKNOWN_AGENT_TYPE)
    if now.targets and all(row.agent.state in running and row.session is not None for row in now.targets):
        return f"Already running: {_named(now.targets)}."
    return some_target(now)


def has_branch(now: Situation) -> str | None:
    """There must be a branch to copy."""
    if now.row is not None and not now.row.agent.branch:
        return f"{present.clean(now.row.agent.name)} works on no branch of its own."
    return agent_here(now)


def has_work_dir(now: Situation) -> str | None:
    """There must be a folder to open a shell in."""
    if now.row is not None and not now.row.agent.work_dir:
        return f"Where {present.clean(now.row.agent.name)} works is not known."
    return agent_here(now)


def someone_needs_me(now: Situation) -> str | None:
    """Tab needs somewhere to go."""
    if now.needing:
        return None
    return "No agent that is shown needs you." if now.is_filtered else "No agent needs you."


def panes_to_search(now: Situation) -> str | None:
    """A search needs panes or conversations."""
    return None if now.is_searchable else "No tmux session and no conversation is in reach to be searched."


def something_to_clear(now: Situation) -> str | None:
    """Escape peels off the filter, the marks, the range."""
    return None if now.to_clear else "Nothing to clear: no filter, no marks."


def some_problem(now: Situation) -> str | None:
    """The list of problems and of what was said must not be empty."""
    return None if now.problems else "No problem is known: everything answers."


def pane_open(now: Situation) -> str | None:
    """The right pane must be on the screen."""
    return None if now.pane_is_open else "The right pane is closed: p opens it."


def _named(rows: tuple[Row, ...]) -> str:
    return present.clean(rows[0].agent.name) if len(rows) == 1 else f"all {len(rows)} agents"

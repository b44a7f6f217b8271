"""The plan of a run: all decisions before its first agent, as one value and as `plan.json`.

The state of a run is a fold of its plan and its journal. Flags, settings and branches may change later and are not read
again: the plan contains everything that a resume needs, the agents' ids included. It is written once.

Reading is strict, since a plan that is misread would start the wrong agents. An unknown field is refused by name: a
newer version wrote it, and this one would ignore it.
"""

from __future__ import annotations

import dataclasses
import math
import re
from typing import TYPE_CHECKING, Any, Literal, get_args

from selftest_core.config import OnCluster, Transfer
from selftest_core.errors import SelftestError
from selftest_core.frozen import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


VERSION = 1
"""The version of the format of `plan.json`."""

type Role = Literal["tester", "drafter", "writer", "integrator"]
"""The work of a run's agents: improve one test each, fill in the tutorial, write missing tests, resolve conflicts."""

NOUNS: dict[Role, str] = {"tester": "test", "drafter": "heading", "writer": "block", "integrator": "conflict"}
"""Name of the task of one agent, by role."""
COMMANDS: dict[Role, str] = {"tester": "run", "drafter": "draft", "writer": "sync", "integrator": "integrate"}
"""The name of a run on a screen, by the role of its agents."""

_RUN = re.compile(r"[0-9]{8}-[0-9]{4}-[0-9a-f]{4}")
_OID = re.compile(r"[0-9a-f]{40}")
_AGENT_ID = re.compile(r"agent-[0-9a-f]{32}")
_AGENT_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,48}[A-Za-z0-9])?")
_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_FILE_PART = r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}"
_FILE_NAME = re.compile(rf"{_FILE_PART}(?:/{_FILE_PART}){{0,9}}")


class UnreadablePlanError(SelftestError):
    """A plan.json that is invalid or of an unknown version."""


@dataclass(frozen=True, slots=True)
class TaskFile:
    """A small text that the agent finds in its copy under `.selftest/task/`. `name`: a relative path, ASCII."""

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class PlannedTest:
    """One test and its agent, or the task of an agent with another role.

    `node_id`: pytest's, parameters included; of another role: the id of its task. `agent_id`: chosen before the agent
    is made, so that a crash in between loses nothing. `blocks`: the tutorial blocks that the test cites, word for word.
    `brief`: Markdown that the role's prompt prints; `files`: what the agent finds in its copy. Testers have neither.
    """

    node_id: str
    agent_name: str
    agent_id: str
    blocks: tuple[str, ...]
    brief: str = ""
    files: tuple[TaskFile, ...] = ()


@dataclass(frozen=True, slots=True)
class RestingTest:
    """A test that gets no agent, as it rests. `until`: number of runs until it works again, 1 for the next one."""

    node_id: str
    reason: str
    until: int


@dataclass(frozen=True, slots=True)
class Deletion:
    """A test that is gone. `commit`: the one that removed it, `agent`: who made that; empty where unknown."""

    node_id: str
    commit: str = ""
    subject: str = ""
    agent: str = ""


@dataclass(frozen=True, slots=True)
class Suite:
    """The tests that were found, beyond those with an agent. `asked`: the user's TESTS, from the top of the repository.

    `unselected`: tests that a selection left out. `since`: the earlier run that `grown` (new tests) and `deleted` were
    compared with, empty without one. `unknown`: files of which it is not known which tests they have: they cannot be
    collected, or skip themselves.
    """

    asked: tuple[str, ...] = ()
    unselected: tuple[str, ...] = ()
    resting: tuple[RestingTest, ...] = ()
    since: str = ""
    grown: tuple[str, ...] = ()
    deleted: tuple[Deletion, ...] = ()
    unknown: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RunPlan:
    """The decisions of a run.

    `run`: its id, like `20261121-0931-7f3a`. `repository`: the absolute path of the user's. `base`: a full commit id.
    `env_names`: the variables that agents get from the user's environment; their values are never stored.
    `launch_rate`: agents per second. `timeout`: seconds that one agent may take. `create_args`: passed to
    `mngr create` unchanged. `pytest_command`: the project's own. `left_out`: paths that are changed or untracked
    in the user's work tree and so not in the base. `created_at`: seconds since the epoch.
    `prompt_template`: the text of the user's template, empty for the default one. `warnings`: shown before the first
    agent, such as a shallow history. `agent_env`: `NAME=value`, further variables of every agent. `agent_settings`:
    `KEY=value`, settings of mngr for these agents only. `setup_command`: a shell command that runs in each copy before
    its agent starts, empty for none. `smoke`: the places where a smoke agent runs before the others.
    `verify_on_arrival`: how the tests of claims are isolated that are verified here when they arrive (`bubblewrap`,
    `none`); empty: they are not verified. `role`: the work of its agents.
    `tutorial`: the path of the tutorial that they work on, empty for testers.
    `cluster_alike`: failures with one cause among the last `cluster_window` ended tests that pause launching.
    `launch_retries`: launches of a test after one that failed; `lost_retries`: agents after one whose host is gone;
    `retry_pause`: seconds before those, doubled with each launch that failed until `longest_retry_pause`.
    `budget_day_usd`, `budget_day_tokens`: budgets of all runs of the repository for one day, None and 0 for none.
    `adapt`: the number of agents at a time adapts, from `start_running` on (0: from `max_running` on).
    `suite`: None for agents of other roles, and in plans of older versions.
    `started_with`: the command that collected the tests here, with which they are verified; empty where nothing of the
    project was found.
    """

    run: str
    repository: str
    base: str
    provider: str
    agent_type: str
    agent_command: tuple[str, ...] | None
    transfer: Transfer
    env_names: tuple[str, ...]
    max_running: int
    launch_rate: float
    timeout: float
    budget_usd: float | None
    usd_per_agent: float | None
    create_args: tuple[str, ...]
    on_cluster: OnCluster
    pytest_command: tuple[str, ...]
    pytest_args: tuple[str, ...]
    tests: tuple[PlannedTest, ...]
    left_out: tuple[str, ...]
    created_at: float
    prompt_template: str = ""
    warnings: tuple[str, ...] = ()
    agent_env: tuple[str, ...] = ()
    agent_settings: tuple[str, ...] = ()
    setup_command: str = ""
    smoke: tuple[str, ...] = ()
    verify_on_arrival: str = ""
    role: Role = "tester"
    tutorial: str = ""
    cluster_alike: int = 5
    cluster_window: int = 10
    launch_retries: int = 2
    lost_retries: int = 1
    retry_pause: float = 5.0
    longest_retry_pause: float = 60.0
    budget_day_usd: float | None = None
    budget_day_tokens: int = 0
    adapt: bool = False
    start_running: int = 0
    suite: Suite | None = None
    started_with: tuple[str, ...] = ()

    @property
    def noun(self) -> str:
        """The thing that one agent owns, such as `test`."""
        return NOUNS[self.role]


def plan_json(plan: RunPlan) -> dict[str, Any]:
    """Convert a plan to the JSON of `plan.json`; `plan_from_json` is the inverse."""
    return {"version": VERSION, **{name: _plain(value) for name, value in dataclasses.asdict(plan).items()}}


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(one) for one in value]
    return {name: _plain(one) for name, one in value.items()} if isinstance(value, dict) else value


def plan_from_json(document: object) -> RunPlan:
    """Read a plan. Raises UnreadablePlanError with the field and the reason."""
    if not isinstance(document, dict):
        raise _unreadable("it is no object")
    if document.get("version") != VERSION:
        hint = "Use the version of selftest-tui that started this run, or start a new run."
        raise _unreadable(f"version is {document.get('version')!r:.40}, and {VERSION} is what this one reads", hint)
    fields = {name: value for name, value in document.items() if name != "version"}
    plan = RunPlan(**_values(fields, _PLAN_FIELDS, "", optional=_OPTIONAL))
    _refuse_twins(plan)
    return plan


def check_plan(plan: RunPlan) -> None:
    """Raise UnreadablePlanError if this plan could not be read back from its file."""
    plan_from_json(plan_json(plan))


def _refuse_twins(plan: RunPlan) -> None:
    for what, names in (
        ("test", [test.node_id for test in plan.tests]),
        ("agent name", [test.agent_name for test in plan.tests]),
        ("agent id", [test.agent_id for test in plan.tests]),
    ):
        twice = next((name for name in names if names.count(name) > 1), None) if len(set(names)) < len(names) else None
        if twice is not None:
            raise _unreadable(f"tests: the {what} {twice!r:.200} is there twice")


def _unreadable(reason: str, hint: str = "Restore the file, or start a new run.") -> UnreadablePlanError:
    return UnreadablePlanError("The plan of this run cannot be read", reason, hint)


def _values(
    fields: Mapping[str, object],
    readers: Mapping[str, Callable[[object, str], object]],
    where: str,
    *,
    optional: tuple[str, ...] = (),
) -> dict[str, Any]:
    unknown = sorted(str(name) for name in fields if name not in readers)
    if unknown:
        raise _unreadable(f"{where}{unknown[0]:.80} is not known to this version")
    missing = [name for name in readers if name not in fields and name not in optional]
    if missing:
        raise _unreadable(f"{where}{missing[0]} is missing")
    return {name: read(fields[name], f"{where}{name}") for name, read in readers.items() if name in fields}


def _text(value: object, where: str) -> str:
    if not isinstance(value, str) or "\0" in value:
        raise _unreadable(f"{where} is no text")
    return value


def _matching(pattern: re.Pattern[str], what: str) -> Callable[[object, str], str]:
    def read(value: object, where: str) -> str:
        text = _text(value, where)
        if not pattern.fullmatch(text):
            raise _unreadable(f"{where} is {text!r:.80}, which is no {what}")
        return text

    return read


def _filled(value: object, where: str) -> str:
    text = _text(value, where)
    if not text:
        raise _unreadable(f"{where} is empty")
    return text


def _folder(value: object, where: str) -> str:
    text = _text(value, where)
    if not text.startswith("/"):
        raise _unreadable(f"{where} is {text!r:.80}, which is no absolute path")
    return text


def _one_of(words: tuple[str, ...]) -> Callable[[object, str], str]:
    def read(value: object, where: str) -> str:
        if value not in words:
            raise _unreadable(f"{where} is {value!r:.80}, and not one of {', '.join(words)}")
        return str(value)

    return read


def _number(value: object, where: str) -> float:
    try:
        if not isinstance(value, bool) and isinstance(value, int | float) and math.isfinite(value):
            return float(value)
    except OverflowError:  # a whole number with hundreds of digits
        pass
    raise _unreadable(f"{where} is no number")


def _positive(value: object, where: str) -> float:
    number = _number(value, where)
    if number <= 0:
        raise _unreadable(f"{where} is {number:g}, and must be more than 0")
    return number


def _count(value: object, where: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise _unreadable(f"{where} is no number from 1")
    return value


def _whole(value: object, where: str) -> int:
    return 0 if value == 0 and isinstance(value, int) and not isinstance(value, bool) else _count(value, where)


def _switch(value: object, where: str) -> bool:
    if not isinstance(value, bool):
        raise _unreadable(f"{where} is neither true nor false")
    return value


def _money(value: object, where: str) -> float | None:
    if value is None:
        return None
    number = _number(value, where)
    if number < 0:
        raise _unreadable(f"{where} is {number:g}, and money cannot be less than 0")
    return number


def _list_of[T](read_one: Callable[[object, str], T]) -> Callable[[object, str], tuple[T, ...]]:
    def read(value: object, where: str) -> tuple[T, ...]:
        if not isinstance(value, list | tuple):
            raise _unreadable(f"{where} is no list")
        return tuple(read_one(one, f"{where}[{number}]") for number, one in enumerate(value))

    return read


def _command_or_none(value: object, where: str) -> tuple[str, ...] | None:
    return None if value is None else _command(value, where)


def _command(value: object, where: str) -> tuple[str, ...]:
    words = _list_of(_text)(value, where)
    if not words or not words[0]:
        raise _unreadable(f"{where} names no program")
    return words


def _test(value: object, where: str) -> PlannedTest:
    if not isinstance(value, dict):
        raise _unreadable(f"{where} is no object")
    return PlannedTest(**_values(value, _TEST_FIELDS, f"{where}.", optional=("brief", "files")))


def _file(value: object, where: str) -> TaskFile:
    return TaskFile(**_object(value, _FILE_FIELDS, where))


def _suite(value: object, where: str) -> Suite | None:
    if value is None:
        return None
    if not isinstance(value, dict):
        raise _unreadable(f"{where} is no object")
    return Suite(**_values(value, _SUITE_FIELDS, f"{where}.", optional=("unknown",)))


def _resting(value: object, where: str) -> RestingTest:
    return RestingTest(**_object(value, _RESTING_FIELDS, where))


def _deleted(value: object, where: str) -> Deletion:
    return Deletion(**_object(value, _DELETION_FIELDS, where))


def _object(value: object, readers: Mapping[str, Callable[[object, str], object]], where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _unreadable(f"{where} is no object")
    return _values(value, readers, f"{where}.")


_OPTIONAL = (
    "prompt_template",
    "warnings",
    "agent_env",
    "agent_settings",
    "setup_command",
    "smoke",
    "verify_on_arrival",
    "role",
    "tutorial",
    "cluster_alike",
    "cluster_window",
    "launch_retries",
    "lost_retries",
    "retry_pause",
    "longest_retry_pause",
    "budget_day_usd",
    "budget_day_tokens",
    "adapt",
    "start_running",
    "suite",
    "started_with",
)
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*=[^\n]*")
_TEST_FIELDS: dict[str, Callable[[object, str], object]] = {
    "node_id": _filled,
    "agent_name": _matching(_AGENT_NAME, "name for an agent"),
    "agent_id": _matching(_AGENT_ID, "id of an agent"),
    "blocks": _list_of(_text),
    "brief": _text,
    "files": _list_of(_file),
}
_FILE_FIELDS: dict[str, Callable[[object, str], object]] = {
    "name": _matching(_FILE_NAME, "name of a file of a task"),
    "text": _text,
}
_RESTING_FIELDS: dict[str, Callable[[object, str], object]] = {"node_id": _filled, "reason": _text, "until": _count}
_DELETION_FIELDS: dict[str, Callable[[object, str], object]] = {
    "node_id": _filled, "commit": _text, "subject": _text, "agent": _text,
}  # fmt: skip
_SUITE_FIELDS: dict[str, Callable[[object, str], object]] = {
    "asked": _list_of(_text),
    "unselected": _list_of(_filled),
    "resting": _list_of(_resting),
    "since": _text,
    "grown": _list_of(_filled),
    "deleted": _list_of(_deleted),
    "unknown": _list_of(_filled),
}
_PLAN_FIELDS: dict[str, Callable[[object, str], object]] = {
    "run": _matching(_RUN, "id of a run"),
    "repository": _folder,
    "base": _matching(_OID, "full commit id"),
    "provider": _filled,
    "agent_type": _filled,
    "agent_command": _command_or_none,
    "transfer": _one_of(get_args(Transfer.__value__)),
    "env_names": _list_of(_matching(_ENV_NAME, "name of an environment variable")),
    "max_running": _count,
    "launch_rate": _positive,
    "timeout": _positive,
    "budget_usd": _money,
    "usd_per_agent": _money,
    "create_args": _list_of(_text),
    "on_cluster": _one_of(get_args(OnCluster.__value__)),
    "pytest_command": _command,
    "pytest_args": _list_of(_text),
    "tests": _list_of(_test),
    "left_out": _list_of(_text),
    "created_at": _number,
    "prompt_template": _text,
    "warnings": _list_of(_text),
    "agent_env": _list_of(_matching(_ASSIGNMENT, "NAME=value")),
    "agent_settings": _list_of(_matching(_ASSIGNMENT, "KEY=value")),
    "setup_command": _text,
    "smoke": _list_of(_filled),
    "verify_on_arrival": _text,
    "role": _one_of(tuple(NOUNS)),
    "tutorial": _text,
    "cluster_alike": _count,
    "cluster_window": _count,
    "launch_retries": _whole,
    "lost_retries": _whole,
    "retry_pause": _positive,
    "longest_retry_pause": _positive,
    "budget_day_usd": _money,
    "budget_day_tokens": _whole,
    "adapt": _switch,
    "start_running": _whole,
    "suite": _suite,
    "started_with": _list_of(_text),
}

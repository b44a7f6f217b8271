"""The rows of a review of repeated work: its rows against intents, and what a scripted reviewer needs to publish it."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections import defaultdict
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from bench.fleets import a_world
from bench.measure import Result, median, result
from bench.scripted_reviewer import BRANCH, ScriptedReviewer
from scenario import make_scenario, read_scenario
from selftest_core.git.command import environment
from selftest_core.tools.process import run

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench.scripted_reviewer import Reviewing
    from scenario import Scenario

_PROGRAM = str(Path(sys.executable).parent / "selftest-tui")
_OPENINGS = 3


def scenario(seed: int, folder: Path | None = None) -> dict[str, Result]:
    """All rows, of our own scenario with this seed, or of the one in a folder with `repo` and `truth.json`."""
    with TemporaryDirectory(prefix="scenario-bench-") as made:
        told = make_scenario(Path(made), seed) if folder is None else read_scenario(folder)
        return _rows(told, f"seed {seed}" if folder is None else folder.name)


def _rows(told: Scenario, name: str) -> dict[str, Result]:
    intents_of_rows = _intents_of_rows(told)
    rows_of_intents: defaultdict[str, int] = defaultdict(int)
    for intents in intents_of_rows:
        for intent in intents:
            rows_of_intents[intent] += 1
    mixed = [sorted(intents) for intents in intents_of_rows if len(intents) > 1]
    several = {intent: count for intent, count in rows_of_intents.items() if count > 1}
    reviews = [_review(told, by_kind=bool(number % 2)) for number in range(_OPENINGS)]
    first, by_kind = reviews[0], reviews[1]
    about = f"{len(told.branches)} branches, {len(told.intents)} intents, {name}"
    return {
        "scenario_rows_per_intent": result(
            max(rows_of_intents.values()), "", 1.0, against=f"{len(told.intent_of)} branches with a commit",
            note=f"{about}: {len(intents_of_rows)} rows; the most of one intent"
            + (f"; more than one: {several}" if several else ""),
        ),
        "scenario_mixed_rows": result(
            len(mixed), "", 0.0, note=f"{about}: rows of several intents" + (f": {mixed}" if mixed else "")
        ),
        "scenario_keys_per_row": result(
            first.keys / first.rows, "", 1.2,
            against=f"tests kept on their group's title: {by_kind.keys / by_kind.rows:.2f}, {by_kind.keys} keys",
            note=f"{about}: {first.keys} keys for {first.rows} rows from the open review to the published branch, "
            "which has every intent but the mistakes; each row decided on its own, real pty",
        ),
        "scenario_seconds": result(
            first.seconds, "s", against=f"with the group's title {by_kind.seconds:.1f} s",
            note=f"{about}: the same keys, each pressed once the screen shows what the last one did; without reading",
        ),
        "scenario_open": result(
            median([one.opening for one in reviews]), "s", 3.0,
            against=f"{median([one.opening_cpu for one in reviews]):.1f} s of CPU of it and of what had ended by then",
            note=f"{about}: from the start of the program to rows on the screen, real pty, median of {_OPENINGS}; "
            "mngr lists meanwhile",
        ),
        "scenario_memory": result(
            max(one.resident for one in reviews), "MiB", 150.0, note=f"{about}: the program's most, after publishing"
        ),
    }  # fmt: skip


def _intents_of_rows(told: Scenario) -> list[set[str]]:
    """The intents of each row, as `review --batch` has it."""
    with _a_copy(told) as copy, a_world() as world:
        argv = (_PROGRAM, "review", "--batch", "--base", "main", *copy.branches)
        done = run(argv, timeout=300, cwd=copy.repository, env=world.environ)
        if done.exit_status not in (0, 1):
            raise RuntimeError(done.stderr_end)
    document: dict[str, Any] = json.loads(done.stdout)
    intents: defaultdict[str, set[str]] = defaultdict(set)
    for item in document["items"]:
        intents[item["row"]].update(told.intent_of[agent] for agent in item["agents"])
    return list(intents.values())


def _review(told: Scenario, *, by_kind: bool) -> Reviewing:
    """Let the scripted reviewer review it in a world of its own, and check what was published."""
    mistaken = _subjects(told, told.mistakes)
    with _a_copy(told) as copy, a_world() as world:
        argv = (_PROGRAM, "review", "--base", "main", *copy.branches)
        with ScriptedReviewer(argv, copy.repository, world.environ) as reviewer:
            made = reviewer.review(lambda row: any(subject in row for subject in mistaken), by_kind=by_kind)
        wrong = _wrong(copy)
    if wrong:
        raise RuntimeError(f"published, but not as the truth has it: {wrong}")
    return made


def _subjects(told: Scenario, intents: frozenset[str]) -> tuple[str, ...]:
    """The subjects of the commits with these intents, without the tags of their kinds, which the screen leaves out."""
    agents = [agent for intent in intents for agent in told.intents[intent]]
    return tuple(_git(told, "log", "-1", "--format=%s", agent).partition("] ")[2] for agent in agents)


def _wrong(told: Scenario) -> list[str]:
    """Mistakes that were published, and what was left out although nothing in its files that is published clashes."""
    published: dict[str, set[str]] = {}
    files_of: dict[str, set[str]] = {}
    present: set[str] = set()
    for intent, agents in told.intents.items():
        for agent in agents:
            added = _added(told, agent)
            files_of[intent] = set(added)
            for path in added:
                if path not in published:
                    published[path] = set(_git(told, "show", f"{BRANCH}:{path}").splitlines())
            if all(lines <= published[path] for path, lines in added.items()):
                present.add(intent)
                break
    good = set(told.intents) - told.mistakes
    taken = {path for intent in present for path in files_of[intent]}
    return sorted(present & told.mistakes) + sorted(one for one in good - present if not files_of[one] & taken)


def _added(told: Scenario, agent: str) -> dict[str, set[str]]:
    """The lines that an agent's branch adds, by path."""
    found: dict[str, set[str]] = {}
    path = ""
    for line in _git(told, "diff", "-U0", "--no-renames", told.base, agent).splitlines():
        if line.startswith("+++ b/"):
            path = line.removeprefix("+++ b/")
            found[path] = set()
        elif line.startswith("+") and path:
            found[path].add(line[1:])
    return found


@contextmanager
def _a_copy(told: Scenario) -> Iterator[Scenario]:
    """The same scenario in a repository of its own, where no review was opened yet."""
    with TemporaryDirectory(prefix="scenario-copy-") as folder:
        repository = Path(folder) / "repo"
        shutil.copytree(told.repository, repository)
        yield replace(told, repository=repository)


def _git(told: Scenario, *arguments: str) -> str:
    done = run(("git", *arguments), timeout=60, cwd=told.repository, env=environment({"PATH": os.environ["PATH"]}))
    if not done.ok:
        raise RuntimeError(f"git {arguments[0]}: {done.stderr_end}")
    return done.stdout.rstrip("\n")

"""Runs of real agents whose conductor is a process of its own that is ended by kill -9, and taken up by the next.

Each agent plays one story, told by a shell script, and notes that it began: so a test that was owned twice is seen
from the agents' side and not by asking the conductor.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from core.run.fingerprints import fingerprint
from core.run.rehearsals import a_plan, assert_told_rightly
from selftest_core.fleet.sources.probe import Probe
from selftest_core.git.command import find_place
from selftest_core.journal import read
from selftest_core.run.fetch.bundles import agent_ref
from selftest_core.run.fetch.received_files import SCREEN
from selftest_core.run.outcome.ends import End
from selftest_core.run.store import RunFolder, make_run_folder
from worlds import eventually, nudge_tmux

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator, Sequence

    from selftest_core.journal import Entry
    from selftest_core.run.fold import Run
    from worlds import World

STORIES = (
    ("fixes", End.SUCCEEDED, 1),
    ("bundles", End.SUCCEEDED, 1),
    ("leaves", End.UNCHANGED, 0),
    ("reddens", End.RED, 1),
    ("blocks", End.BLOCKED, 0),
    ("crashes", End.CRASH, 0),
    ("babbles", End.UNREADABLE, 0),
    ("dribbles", End.SUCCEEDED, 1),
    ("renames", End.SUCCEEDED, 2),
    ("lingers", End.SUCCEEDED, 1),
    ("changes", End.UNCHANGED, 0),
    ("hangs", End.TIMEOUT, 0),
)
"""What an agent does, how its test must end, and how many commits must come back."""
TIMEOUT = 100.0
"""Seconds that an agent has; only the one that hangs needs them."""
_PATIENCE = 900.0

_AGENT = """#!/bin/bash
cd "$(dirname "$SELFTEST_OUT")/.." || exit 9
echo "$SELFTEST_TEST" >> '@STARTED@'
cp "$SELFTEST_PROMPT_FILE" "$SELFTEST_OUT/prompt-as-read.md"
ln -s /etc/passwd "$SELFTEST_OUT/secrets"
report() {
    printf '{"changes": {%s}, "errored": false, "tests_passing_before": false, "tests_passing_after": %s,
             "summary_markdown": "%s", "test_runs": [], "escalations": [%s]}' "$2" "$3" "$1" "$4"
}
give() { report "$@" > "$SELFTEST_OUT/draft.json" && mv "$SELFTEST_OUT/draft.json" "$SELFTEST_OUT/outcome.json"; }
commit() {
    echo "$1 $SELFTEST_TEST" >> README
    git -c user.name=a -c user.email=a@example.org commit -qam "[FIX_IMPL] $1"
}
fixed='"FIX_IMPL": {"status": "SUCCEEDED", "summary_markdown": "x"}'
case "${SELFTEST_TEST##*::test_}" in
fixes) commit one; give Fixed "$fixed" true ;;
bundles)
    commit one; git bundle create -q "$SELFTEST_OUT/branch.bundle" "$SELFTEST_BASE..HEAD"
    give Fixed "$fixed" true ;;
leaves | changes) give Nothing "" true ;;
reddens) commit one; give Tried "$fixed" false ;;
blocks) give Which "" null '{"kind": "BLOCKER", "title": "Which one?"}' ;;
crashes) echo 'panic: no such table'; exit 3 ;;
babbles) echo 'All is well' > "$SELFTEST_OUT/outcome.json"; exit 0 ;;
dribbles)
    commit one
    report Slowly "$fixed" true > whole.json
    head -c 60 whole.json > "$SELFTEST_OUT/outcome.json"; sleep 4
    while test ! -e '@RELEASED@'; do sleep 0.2; done
    tail -c +61 whole.json >> "$SELFTEST_OUT/outcome.json"
    rm whole.json ;;
renames) git checkout -q -b a-name-of-its-own; commit one; commit two; give Fixed "$fixed" true ;;
lingers) sleep 10; commit one; give Fixed "$fixed" true ;;
esac
sleep 100000
"""


@dataclass
class KilledRun:
    """One run on the real mngr. `kills`: after how many lines of the journal each conductor was killed."""

    world: World
    folder: RunFolder
    stories: Sequence[tuple[str, End, int]]
    before: dict[str, Any]
    kills: list[int]

    @property
    def run(self) -> Run:
        """The run as its journal tells it."""
        return self.folder.read()

    def release(self) -> None:
        """Let the story end that was held back."""
        (self.world.root / "released").touch()

    def lines(self) -> int:
        """How many whole lines the journal has."""
        return len(self._entries())

    def conduct_and_kill(self, dice: random.Random, lines: int, seconds: float) -> bool:
        """Start a conductor and kill it so many lines and up to so many seconds later; False where it ended before."""
        wanted = self.lines() + lines
        with self._conductor() as process:
            while self.lines() < wanted and not _ends_within(process, 0.02):
                pass
            if _ends_within(process, dice.uniform(0.0, seconds)):
                assert process.returncode == 0, self._words()
                return False
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
        self.kills.append(self.lines())
        return True

    def conduct(self) -> None:
        """Conduct to the end."""
        with self._conductor() as process:
            waited = 0.0
            while not _ends_within(process, 2.0):
                nudge_tmux()
                waited += 2.0
                assert waited < _PATIENCE, self._words()
            assert process.returncode == 0, self._words()

    @contextlib.contextmanager
    def _conductor(self) -> Iterator[subprocess.Popen[bytes]]:
        with (self.world.root / "conductor.log").open("ab") as log:
            process = subprocess.Popen(
                (sys.executable, "-P", "-m", "selftest_core.run.conduct.conductor_process", str(self.folder.path)),
                env={**self.world.environment, "TMPDIR": str(self.world.root / "tmp")},
                cwd=self.world.root, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()

    def _words(self) -> str:
        return (self.world.root / "conductor.log").read_text(errors="replace")[-4000:]

    def _entries(self) -> Sequence[Entry]:
        path = self.folder.journal
        return read(path.read_bytes()).entries if path.is_file() else ()

    def lost(self) -> list[str]:
        """Tests without the end and the commits that their story leads to."""
        expected = {f"agent-{name}": (end, commits) for name, end, commits in self.stories}
        rows = self.run.rows
        return [
            f"{name}: {rows[name].end}, {rows[name].commits} commits: {rows[name].text}"
            for name, right in expected.items()
            if (rows[name].end, rows[name].commits) != right
        ]

    def doubled(self) -> list[str]:
        """Tests that an agent began more than once, or that were tried or fetched more than once."""
        begun = Counter((self.world.root / "started").read_text().split())
        again = {row.planned.node_id for row in self.run.rows.values() if row.attempt > 1}
        for row in self.run.rows.values():
            if row.member is not None and len(list(self.folder.attempt(row.member).parent.iterdir())) > 1:
                again.add(row.planned.node_id)
        return sorted(again | {test for test, times in begun.items() if times > 1})

    def assert_as_if_undisturbed(self) -> None:
        """The ends that the stories lead to; nobody made, begun or fetched twice; nothing and nobody left over."""
        run, world = self.run, self.world
        expected = {f"agent-{name}": (end, commits) for name, end, commits in self.stories}
        assert {name: (row.end, row.commits) for name, row in run.rows.items()} == expected, self._words()
        assert all(row.attempt == 1 and not row.retries and not row.says for row in run.rows.values())
        assert_told_rightly(run.plan, self._entries())

        started = (world.root / "started").read_text().split()
        assert Counter(started) == Counter(test.node_id for test in run.plan.tests)
        probe, stopped = Probe(world.environment), [(test.agent_id, "STOPPED", test.node_id) for test in run.plan.tests]

        def seen() -> list[tuple[str, str | None, str]]:
            agents = probe.look(time.time()).agents
            return sorted((agent.id, agent.state, agent.labels["selftest_test"]) for agent in agents)

        eventually(lambda: seen() == sorted(stopped), "all of them there, and stopped")
        script = str(world.root / "s" / "agent")
        eventually(lambda: not [pid for pid in world.processes() if script in _command(pid)], "the end of the agents")
        assert [path.name for path in (world.root / "tmp").iterdir() if "selftest" in path.name] == []

        repository = world.repository
        place = find_place(repository, world.environment)
        assert {**fingerprint(place, world.environment), "refs": None} == self.before
        assert world.run(["git", "status", "--porcelain"]).stdout.split() == ["??", "dirty"]
        told = world.run(["git", "for-each-ref", "--format=%(refname) %(objectname)"]).stdout.splitlines()
        branches = {agent_ref(run.plan.run, name): row.tip for name, row in run.rows.items() if row.commits}
        assert dict(line.split() for line in told) == {"refs/heads/main": run.plan.base, **branches}
        for tip in branches.values():
            subjects = world.run(["git", "log", "--format=%s", f"{run.plan.base}..{tip}"]).stdout.splitlines()
            assert {"[FIX_IMPL] one"} <= set(subjects) <= {"[FIX_IMPL] one", "[FIX_IMPL] two"}
        for row in run.rows.values():
            assert row.member is not None
            kept = self.folder.attempt(row.member)
            assert [path.name for path in kept.parent.iterdir()] == ["attempt-1"]
            assert row.planned.node_id in (kept / "prompt-as-read.md").read_text()
            assert not (kept / "secrets").exists()
            if row.end not in (End.CRASH, End.TIMEOUT, End.UNREADABLE):
                assert json.loads((kept / "outcome.json").read_text())["errored"] is False
            if row.end is End.CRASH:
                screen = (kept / SCREEN).read_text()
                assert "panic: no such table" in screen, (screen, self._words())
                assert "panic: no such table" in row.text, (row.text, screen)


def begin(world: World, *told: str, timeout: float = TIMEOUT, is_held: bool = False) -> KilledRun:
    """A run of these stories (all of them where none is named) in this world, that nobody conducts yet.

    `is_held`: the one that dribbles does not come to its end, and so neither does the run, before it is released.
    """
    stories = [story for story in STORIES if not told or story[0] in told]
    repository = world.make_repository()
    world.load_mngr()
    (repository / "dirty").write_text("not committed\n")
    base = world.run(["git", "rev-parse", "HEAD"]).stdout.strip()
    (world.root / "tmp").mkdir(exist_ok=True)
    text = _AGENT.replace("@STARTED@", str(world.root / "started"))
    script = world.script("agent", text.replace("@RELEASED@", str(world.root / "released")))
    named = [(f"tests/test_all.py::test_{name}", f"agent-{name}") for name, _, _ in stories]
    plan = a_plan(
        named=named, is_real=True, repository=str(repository), base=base, timeout=timeout, launch_rate=5.0,
        max_running=6, agent_command=(str(script),),
    )  # fmt: skip
    environ = world.environment
    before = {**fingerprint(find_place(repository, environ), environ), "refs": None}
    made = KilledRun(world, make_run_folder(plan, environ), stories, before, [])
    if not is_held:
        made.release()
    return made


def _ends_within(process: subprocess.Popen[bytes], seconds: float) -> bool:
    try:
        process.wait(timeout=seconds)
    except subprocess.TimeoutExpired:
        return False
    return True


def _command(pid: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    return ""

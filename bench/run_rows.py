"""The rows of a run: what a conductor costs beside mngr, a run of a thousand tests, a check of a large tutorial."""

from __future__ import annotations

import json
import os
import secrets
import stat
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.fleets import a_world, base_environ
from bench.measure import Result, Stopwatch, result
from selftest_core.run.plan.plan import PlannedTest, RunPlan
from selftest_core.run.store import make_run_folder
from selftest_core.tools.mngr import find_mngr
from selftest_core.tools.process import run

if TYPE_CHECKING:
    from collections.abc import Sequence

    from selftest_core.run.fold import Run

_ROOT = Path(__file__).resolve().parents[1]
_AGENT = """#!/bin/sh
cd "$(dirname "$SELFTEST_OUT")/.." || exit 9
sleep 5
case "$SELFTEST_TEST" in *[02468])
    echo "$SELFTEST_TEST" > README
    git -c user.name=a -c user.email=a@example.org commit -qam '[FIX_IMPL] Say it' ;;
esac
printf '%s' '{"changes": {}, "errored": false, "tests_passing_after": true, "summary_markdown": "Done."}' > draft.json
mv draft.json "$SELFTEST_OUT/outcome.json"
exec sleep 100000
"""
# Every call of mngr leaves a line: when it began and ended, what it took of a processor, and its first word.
_TIMED = """#!/bin/bash
began=$EPOCHREALTIME
@MNGR@ "$@"
status=$?
{ echo "$began $EPOCHREALTIME $1"; times; } >> "@LOG@/$$"
exit $status
"""


@dataclass(frozen=True, slots=True)
class _Call:
    word: str
    wall: float
    cpu: float


def conductor(agents: int) -> dict[str, Result]:
    """CPU of a conductor that records and of all it starts but mngr, beside its calls of mngr; real command agents."""
    with a_world() as world:
        log = world.root / "calls"
        log.mkdir()
        own_bin = world.root / "bin"
        own_bin.mkdir()
        timed = _TIMED.replace("@MNGR@", str(find_mngr(world.environ).path)).replace("@LOG@", str(log))
        _executable(own_bin / "mngr", timed)
        agent = _executable(world.root / "agent", _AGENT)
        environ = {**world.environ, "PATH": f"{own_bin}{os.pathsep}{world.environ['PATH']}"}
        repository = world.root / "r"
        base = run(("git", "rev-parse", "HEAD"), timeout=30, cwd=repository, env=environ).stdout.strip()
        folder = make_run_folder(_a_plan(agents, repository, base, agent, agents), environ)
        with Stopwatch() as watch:
            done = run(
                (sys.executable, "-P", "-m", "selftest_tui.run.conducting", str(folder.path)),
                timeout=3600, cwd=repository, env=environ,
            )  # fmt: skip
        ended = folder.read()
        if not done.ok or not ended.is_over:
            raise RuntimeError(f"the run did not end: {done.stderr_end or done.stdout[-2000:]}")
        calls = [_call(path) for path in log.iterdir()]
        by_hand = _by_hand(calls)
    mngr_cpu, mngr_wall = sum(call.cpu for call in calls), sum(call.wall for call in calls)
    own = watch.child_cpu - mngr_cpu
    return {
        f"conductor_own_cost_{agents}": result(
            own / mngr_cpu * 100, "%", 5.0,
            against=f"the same {len(calls)} calls of mngr ({by_hand}), which take {mngr_cpu:.0f} s CPU, so no less "
            f"wall time when made by hand; in this run, several at once, they took {mngr_wall:.0f} s in all",
            note=f"{agents} real command agents, a run of {watch.wall:.0f} s, {_ends(ended)}; the conductor, its "
            f"recorder, git, tmux and ps {own:.2f} s CPU, {own / watch.wall * 100:.1f} % of a core; "
            f"load {os.getloadavg()[0]:.1f}",
        ),
    }  # fmt: skip


def thousand(tests: int) -> dict[str, Result]:
    """A run of so many tests on the simulated crew, with a journal on the disk, in a process of its own."""
    done = run(
        (sys.executable, "-m", "bench.run_child", str(tests)), timeout=3600, cwd=_ROOT, env=base_environ()
    )  # fmt: skip
    if not done.ok:
        raise RuntimeError(done.stderr_end)
    said: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    minutes = said["seconds"] / 60
    about = f"{tests} simulated agents, {said['at_once']} at once, {said['lines']} lines in {minutes:.0f} minutes"
    return {
        f"run_cpu_{tests}": result(
            said["cpu"] / minutes, "s/min", against="the simulated agents' own cost is in it",
            note=f"{about}; {said['cpu']:.1f} s CPU in all, every line synced to the disk",
        ),
        f"run_memory_{tests}": result(
            said["after"] / 1024, "MiB", against=f"{said['before'] / 1024:.0f} MiB before the run began",
            note=f"{about}; largest resident size",
        ),
        f"run_journal_{tests}": result(
            said["bytes"] / 1024, "KiB", against=f"{said['bytes'] / tests:.0f} bytes for each test", note=about
        ),
        f"run_fold_{tests}": result(
            said["fold"] / said["lines"] * 1e6, "µs/line",
            against=f"reading and checking the same line: {said['read'] / said['lines'] * 1e6:.0f} µs",
            note=f"the whole journal of {said['lines']} lines read and folded in "
            f"{(said['fold'] + said['read']) * 1000:.0f} ms of CPU: what opening or resuming this run costs; "
            f"one line more {said['apply'] / said['lines'] * 1e6:.0f} µs",
        ),
    }  # fmt: skip


def large_check(blocks: int, tests: int) -> dict[str, Result]:
    """`selftest-tui check --json` on a large tutorial, as a person or CI calls it."""
    with tempfile.TemporaryDirectory() as made:
        root = Path(made)
        _lay_out_tutorial(root, blocks, tests)
        argv = (sys.executable, "-m", "selftest_tui", "check", "--json")
        walls: list[float] = []
        for _ in range(4):
            with Stopwatch() as watch:
                done = run(argv, timeout=600, cwd=root, env=base_environ())
            walls.append(watch.wall)
        said = json.loads(done.stdout)
        cited = sum(bool(block["tests"]) for block in said["blocks"])
        if not said["ok"] or cited != blocks:
            raise RuntimeError(f"{cited} of {blocks} blocks are cited: {done.stderr_end}")
        with Stopwatch() as bare:
            run((sys.executable, "-m", "selftest_tui", "--version"), timeout=60, cwd=root, env=base_environ())
    return {
        f"check_{blocks}_{tests}": result(
            min(walls), "s", 2.0, against=f"`selftest-tui --version` takes {bare.wall:.2f} s",
            note=f"{blocks} blocks, {tests} tests in {tests // 20} files, all cited; whole process, best of "
            f"{len(walls)}; load {os.getloadavg()[0]:.1f}",
        ),
    }  # fmt: skip


def simulated_plan(tests: int, repository: Path, at_once: int) -> RunPlan:
    """A plan for simulated agents."""
    return _a_plan(tests, repository, "a" * 40, Path("/agent"), at_once)


def _a_plan(agents: int, repository: Path, base: str, agent: Path, at_once: int) -> RunPlan:
    tests = tuple(
        PlannedTest(f"tests/test_all.py::test_{n:03}", f"bench-{n:03}", f"agent-{secrets.token_hex(16)}", ())
        for n in range(agents)
    )
    return RunPlan(
        run="20261121-0931-7f3a", repository=str(repository), base=base, tests=tests, left_out=(),
        created_at=time.time(), provider="local", agent_type="command", agent_command=(str(agent),),
        transfer="mirror", env_names=(), max_running=at_once, launch_rate=5.0, timeout=3600.0, budget_usd=None,
        usd_per_agent=None, create_args=(), on_cluster="go", pytest_command=("pytest",), pytest_args=(),
    )  # fmt: skip


def _executable(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def _call(path: Path) -> _Call:
    """The line, and the two lines of bash's `times`: its own, and its children's, user and system."""
    first, _, children = path.read_text(encoding="utf-8").splitlines()
    began, ended, word = first.split()
    return _Call(word, float(ended) - float(began), sum(_seconds(part) for part in children.split()))


def _seconds(text: str) -> float:
    minutes, _, seconds = text.rstrip("s").partition("m")
    return int(minutes) * 60 + float(seconds)


def _by_hand(calls: Sequence[_Call]) -> str:
    words = dict.fromkeys(sorted(call.word for call in calls))
    return ", ".join(f"{sum(call.word == word for call in calls)} {word}" for word in words)


def _ends(ended: Run) -> str:
    return ", ".join(f"{count} {end}" for end, count in ended.ends().items() if count)


def _lay_out_tutorial(root: Path, blocks: int, tests: int) -> None:
    texts = [
        f"# Step {n} of the tour.\nshop add --item {n} --count {n % 7}\nshop total --of {n}\n" for n in range(blocks)
    ]
    (root / "tutorial.sh").write_text("#!/bin/bash\nset -e\n\n" + "\n".join(texts), encoding="utf-8")
    folder = root / "tests"
    folder.mkdir()
    for start in range(0, tests, 20):
        parts = ["from shop import run\n"]
        for n in range(start, min(tests, start + 20)):
            cited = "\n".join(f"        {line}" for line in texts[n % blocks].splitlines())
            parts.append(
                f'def test_{n}(e2e):\n    e2e.write_tutorial_block("""\n{cited}\n    """)\n    assert run({n}) == {n}\n'
            )
        (folder / f"test_{start:05}.py").write_text("\n\n".join(parts), encoding="utf-8")

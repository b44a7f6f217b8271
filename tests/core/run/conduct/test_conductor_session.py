"""A conductor in a session of its own: killed and resumed, stopped, and its leftovers swept.

Real agents of the real mngr: few of them, and each run tells as much as it can.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from core.run.rehearsals import a_plan
from selftest_core.errors import RefusedError, SelftestError
from selftest_core.fleet.sources.probe import Probe
from selftest_core.journal import Journal, read
from selftest_core.run.conduct.conductor_session import ConductorError, find_conductor, last_output, start_conductor
from selftest_core.run.conduct.policy import Policy
from selftest_core.run.events import Event, Phase
from selftest_core.run.fetch.bundles import agent_ref
from selftest_core.run.outcome.ends import End
from selftest_core.run.store import make_run_folder
from tui.cli.programs import ours
from worlds import a_world, eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

    from selftest_core.run.store import RunFolder
    from worlds import World

pytestmark = [pytest.mark.real, pytest.mark.timeout(900)]

SECRET = "hush-7f3a-hush"
PATIENCE = 240.0
"""Seconds for what needs several calls of mngr on a busy machine."""

AGENT = """#!/bin/sh
cd "$(dirname "$SELFTEST_OUT")/.." || exit 9
while [ ! -e "$GATE" ]; do sleep 0.2; done
case "$SELFTEST_TEST" in
*test_00)
    test "$SECRET" = hush-7f3a-hush || exit 8
    echo fixed > README && git -c user.name=a -c user.email=a@example.org commit -qam '[FIX_IMPL] Say fixed'
    git bundle create -q "$SELFTEST_OUT/branch.bundle" "$SELFTEST_BASE..HEAD"
    printf '{"changes": {"FIX_IMPL": {"status": "SUCCEEDED", "summary_markdown": "x"}}, "errored": false,
             "tests_passing_after": true, "summary_markdown": "Fixed."}' > "$SELFTEST_OUT/draft.json"
    mv "$SELFTEST_OUT/draft.json" "$SELFTEST_OUT/outcome.json" ;;
esac
sleep 100000
"""


@pytest.fixture
def secretive() -> Iterator[World]:
    """A world with a secret in its environment, and without kept demos."""
    with a_world(SECRET=SECRET) as world:
        temporary = world.root / "d"
        temporary.mkdir()
        world.extra["TMPDIR"] = str(temporary)
        world.load_mngr()
        yield world


def a_folder(world: World, tests: int, **changes: Any) -> RunFolder:
    repository = world.make_repository()
    base = world.run(["git", "rev-parse", "HEAD"]).stdout.strip()
    world.extra["GATE"] = str(world.root / "gate")
    fields: dict[str, Any] = {"timeout": 3600.0, "launch_rate": 5.0, "env_names": ("SECRET", "GATE"), **changes}
    agent = ("/bin/sh", str(world.script("agent", AGENT)))
    return make_run_folder(
        a_plan(tests, is_real=True, repository=str(repository), base=base, agent_command=agent, **fields),
        world.environment,
    )


def conductor_pid(folder: RunFolder) -> int:
    entries = read(folder.journal.read_bytes()).entries
    return int([entry for entry in entries if entry.event == Event.CONDUCTING][-1].fields["pid"])


def documents(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_a_run_outlives_its_conductors_and_is_taken_up_stopped_and_swept(secretive: World) -> None:
    world = secretive
    folder = a_folder(world, 2)
    environ = world.environment
    session = start_conductor(folder, environ, policy=Policy(poll=2.0))
    assert folder.is_conducted()
    assert find_conductor(folder, environ) == session
    assert session.socket == str(world.socket)
    assert "HOME=" in world.tmux("show-environment", "-g")
    _no_secret_is_told(world, folder)

    with pytest.raises(RefusedError, match="already has a conductor"):
        start_conductor(folder, environ)
    refused = ours(world, "resume", "--batch")
    assert refused.returncode == 4, refused.stderr
    assert documents(refused.stdout)[-1]["title"] == f"The run {folder.run} already has a conductor"
    (listed,) = json.loads(ours(world, "runs", "--json", check=True).stdout)["runs"]
    assert (listed["run"], listed["state"], listed["tests"]) == (folder.run, "live", 2)

    eventually(lambda: folder.read().running == 2 and _all_launched(folder), "two agents", PATIENCE)
    # The person's terminal may end, a signal may end the conductor: its run goes on with the next one.
    os.kill(conductor_pid(folder), signal.SIGTERM)
    eventually(lambda: not folder.is_conducted(), "the conductor leaves", PATIENCE)
    assert folder.read().left == "interrupted"
    (listed,) = json.loads(ours(world, "runs", "--json", check=True).stdout)["runs"]
    assert (listed["state"], listed["open"]["running"]) == ("resumable", 2)

    again = start_conductor(folder, environ, policy=Policy(poll=2.0, last_looks=1))
    assert again.name == session.name
    (world.root / "gate").touch()
    eventually(lambda: End.SUCCEEDED in [row.end for row in folder.read().rows.values()], "an outcome", PATIENCE)
    stopped = ours(world, "stop", "--batch")
    assert stopped.returncode == 0, stopped.stderr
    (summary,) = documents(stopped.stdout)
    assert (summary["event"], summary["run"], summary["tests"]) == ("summary", folder.run, 2)
    assert (summary["outcomes"]["succeeded"], summary["outcomes"]["stopped"]) == (1, 1)
    assert not folder.is_conducted()
    run = folder.read()
    assert run.conductors == 2
    assert [row.attempt for row in run.rows.values()] == [1, 1]
    probe = Probe(environ)
    eventually(
        lambda: [agent.state for agent in probe.look(time.time()).agents] == ["STOPPED", "STOPPED"], "both stopped"
    )
    _no_secret_is_told(world, folder)

    _what_is_left_is_swept(world, folder)


def _all_launched(folder: RunFolder) -> bool:
    return all(row.phase is Phase.WORKING for row in folder.read().rows.values())


def _has_ended(world: World, folder: RunFolder) -> bool:
    found = find_conductor(folder, world.environment)
    return found is None or found.is_dead


def _no_secret_is_told(world: World, folder: RunFolder) -> None:
    """Assert that neither tmux nor any command line nor any file of ours has the value."""
    session = f"=selftest-{folder.run}"
    told = [world.tmux("show-environment", *which, check=False) for which in (("-g",), ("-t", session))]
    assert SECRET not in "".join(told)
    for pid in world.processes():
        with contextlib.suppress(OSError):
            assert SECRET.encode() not in Path(f"/proc/{pid}/cmdline").read_bytes()
    for path in folder.path.rglob("*"):
        if path.is_file():
            with contextlib.suppress(FileNotFoundError):  # the conductor is at work, and git has files for a moment
                assert SECRET.encode() not in path.read_bytes(), path


def _what_is_left_is_swept(world: World, folder: RunFolder) -> None:
    # The conductor has left the run; its program needs another moment to end.
    eventually(lambda: _has_ended(world, folder), "the end of the conductor's program")
    (ref,) = world.run(["git", "for-each-ref", "--format=%(refname)", "refs/selftest/"]).stdout.split()
    assert ref == agent_ref(folder.run, "agent-00")
    shown = ours(world, "sweep", "--json")
    assert shown.returncode == 1
    left = {one["kind"]: one for one in json.loads(shown.stdout)["leftovers"]}
    assert {"agents", "clone"} <= left.keys() <= {"agents", "clone", "session"}
    assert sorted(left["agents"]["names"]) == ["agent-00", "agent-01"]
    assert left["clone"]["names"] == [str(folder.clone)]
    assert not any(one["removed"] for one in left.values())
    swept = ours(world, "sweep", "--yes")
    assert swept.returncode == 0, swept.stdout + swept.stderr
    assert list((world.host_dir / "agents").iterdir()) == []
    assert not folder.clone.exists()
    assert find_conductor(folder, world.environment) is None
    assert world.run(["git", "rev-parse", ref]).returncode == 0
    assert folder.read().is_over
    assert "Nothing was left behind" in ours(world, "sweep", check=True).stdout


def test_a_conductor_that_cannot_begin_says_why_and_leaves_its_last_output(secretive: World) -> None:
    world = secretive
    folder = a_folder(world, 1, env_names=("NOT_SET",))
    with pytest.raises(ConductorError, match="Variables that this run's agents need are not set") as told:
        start_conductor(folder, world.environment)
    assert "NOT_SET" in told.value.detail
    assert not folder.is_conducted()
    assert not folder.journal.exists()

    def words_of_the_dead() -> str:
        found = find_conductor(folder, world.environment)
        return last_output(found, world.environment) if found is not None and found.is_dead else ""

    assert "NOT_SET" in eventually(words_of_the_dead, "the words in the dead pane")
    # The next one takes the dead one's place.
    folder.clone.mkdir()
    with pytest.raises(RefusedError, match="clone was changed"):
        start_conductor(folder, {**world.environment, "NOT_SET": "x"})


def test_a_conductor_that_is_just_leaving_is_waited_for(secretive: World) -> None:
    """It has released the journal, and its program needs a moment to end; then tmux's server ends too."""
    world = secretive
    folder = a_folder(world, 1, env_names=("NOT_SET",))
    session = f"selftest-{folder.run}"
    mark = os.fsencode(folder.path.resolve()).hex()
    world.tmux("new-session", "-d", "-s", session, "sleep 1", ";", "set-option", "@selftest_folder", mark)
    came = world.root / "came"
    tmux = world.script(
        "tmux",
        f'#!/bin/sh\ncase "$*" in *new-session*) test -e {came} || {{ touch {came}\n'
        f'echo "server exited unexpectedly" >&2; exit 1; }} ;; esac\nexec {shutil.which("tmux")} "$@"\n',
    )
    world.extra["PATH"] = f"{tmux.parent}:{world.environment['PATH']}"
    # It comes as far as to read its environment: the name of its session was free.
    with pytest.raises(ConductorError, match="Variables that this run's agents need are not set"):
        start_conductor(folder, world.environment)
    assert came.exists()


def test_another_session_of_the_same_name_is_left_alone(secretive: World) -> None:
    world = secretive
    folder = a_folder(world, 1)
    world.tmux("new-session", "-d", "-s", f"selftest-{folder.run}", "sleep", "1000")
    with pytest.raises(RefusedError, match="another tmux session"):
        start_conductor(folder, world.environment)
    assert find_conductor(folder, world.environment) is None
    assert f"selftest-{folder.run}" in world.tmux("ls")


def test_a_damaged_journal_is_told_and_stays_as_it_was(secretive: World) -> None:
    world = secretive
    folder = a_folder(world, 1)
    with Journal(folder.journal) as journal:
        for number in range(3):
            journal.append("paused" if number % 2 == 0 else "resumed", 1.0, reason="x", by="person", signature="")
    data = folder.journal.read_bytes()
    damaged = data.replace(b"resumed", b"resamed")
    folder.journal.write_bytes(damaged)
    with pytest.raises(SelftestError, match="was changed by another program"):
        start_conductor(folder, world.environment)
    assert folder.journal.read_bytes() == damaged

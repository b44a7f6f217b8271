"""The watch over a private world: what it sees at once, what it survives, and that it leaves nothing behind."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import shutil
import signal
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from selftest_core.agents import Agent, State
from selftest_core.fleet.observations import Listed, ListFailed
from selftest_core.fleet.view import FleetView
from selftest_core.fleet.watch.file_watch import FileWatch
from selftest_core.fleet.watch.fleet_watch import FleetWatch, observe_once
from selftest_core.fleet.watch.poll_schedule import ALL, Pace, WatchSettings
from selftest_core.fleet.watch.poller import Sources
from selftest_core.usage.tokens import Usage
from standins import EMPTY, calls, mngr_that
from worlds import PATIENCE, eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

    from selftest_core.fleet.view import Problem
    from worlds import World

QUICK = Pace(local=0.05, all=0.2, remote=0.1, probe=0.1, deadline=60.0)
SLOW = Pace(local=1000.0, all=1000.0, remote=1000.0, probe=1000.0, deadline=60.0)
"""Nothing is seen by polling: what is seen was told by a file or a process."""
FAR = (
    '{"agents": [{"id": "agent-9", "name": "far", "type": "claude", "state": "RUNNING", "command": "claude",'
    ' "work_dir": "/w", "create_time": "2026-11-21T09:00:00Z", "labels": {}, "plugin": {}, "host":'
    ' {"id": "host-9", "name": "box", "provider_name": "boxes", "state": "RUNNING"}}], "errors": []}'
)
"""A listing with one agent of a remote host."""


@dataclass
class Watched:
    """A running watch and the views that it has published."""

    watch: FleetWatch
    thread: threading.Thread
    views: list[FleetView] = field(default_factory=list)
    errors: list[BaseException] = field(default_factory=list)

    @property
    def view(self) -> FleetView:
        return self.views[-1] if self.views else FleetView(at=0.0)

    def states(self) -> dict[str, State]:
        return {row.agent.name: row.agent.state for row in self.view.rows}

    def problem(self) -> Problem:
        """The first problem that is shown, as soon as one is."""
        return eventually(lambda: self.view.problems, "a problem")[0]

    def end(self) -> None:
        self.watch.stop()
        self.thread.join(PATIENCE)
        assert not self.thread.is_alive(), "the watch does not stop"
        assert not self.errors, self.errors


@contextmanager
def watching(world: World, pace: Pace = QUICK, *, remote: bool = True, cwd: Path | None = None) -> Iterator[Watched]:
    """A watch for a block; what its thread raises fails the test."""
    views: list[FleetView] = []
    errors: list[BaseException] = []
    watch = FleetWatch(WatchSettings(cwd or world.root, pace, remote=remote), world.environment, views.append)

    def run() -> None:
        try:
            watch.run()
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run, name="watch under test")
    watched = Watched(watch, thread, views, errors)
    thread.start()
    try:
        yield watched
    finally:
        watched.end()


def open_files() -> int:
    """How many files this process has open."""
    return sum(1 for _ in Path("/dev/fd").iterdir())


def an_agent(world: World, name: str, *, session: bool = True) -> str:
    """An agent as mngr leaves it on disk and in tmux, without the second that `mngr create` takes."""
    identity = f"agent-{len(list(world.host_dir.glob('agents/*'))):032x}"
    folder = world.agent_dir(identity)
    folder.mkdir(parents=True)
    (world.host_dir / "host_id").write_text("host-" + "1" * 32)
    data = {
        "id": identity, "name": name, "type": "command", "command": "sleep 100000", "work_dir": str(world.root),
        "create_time": "2026-11-21T09:00:00Z", "labels": {},
    }  # fmt: skip
    (folder / "draft").write_text(json.dumps(data))
    if session:
        world.tmux("new-session", "-d", "-s", f"mngr-{name}", "-n", "agent", "sleep 100000")
    (folder / "draft").rename(folder / "data.json")
    return identity


def test_agents_are_seen_before_mngr_has_answered(world: World) -> None:
    an_agent(world, "early")
    mngr_that(world, "sleep 1000")

    with watching(world) as watched:
        eventually(lambda: watched.states() == {"early": State.WAITING})
        eventually(lambda: any(lane.is_running for lane in watched.view.lanes))
        assert "remote" in watched.view.expecting
        assert all(lane.answered_at is None for lane in watched.view.lanes if lane.lane != "probe")


def test_a_change_is_seen_when_a_file_or_a_process_tells_of_it(world: World) -> None:
    mngr_that(world, f"echo '{EMPTY}'; exit 1")
    one, _ = an_agent(world, "one"), an_agent(world, "two")

    with watching(world, SLOW) as watched:
        eventually(lambda: watched.states() == {"one": State.WAITING, "two": State.WAITING})
        # Watching begins just after the first look: a marker is set until one is seen.
        marker = world.agent_dir(one) / "active"

        def is_seen() -> bool:
            marker.touch()
            return watched.states()["one"] is State.RUNNING

        eventually(is_seen, "the marker")
        marker.unlink()
        eventually(lambda: watched.states()["one"] is State.WAITING, "the marker gone")

        pid = next(row.agent.pid for row in watched.view.rows if row.agent.name == "two")
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        eventually(lambda: watched.states()["two"] is not State.WAITING, "the end of a process")

        an_agent(world, "three")
        eventually(lambda: watched.states().get("three") is State.WAITING, "a new agent")
        # The newest view is there a moment before it is published.
        eventually(lambda: watched.views[-1].rows == watched.view.rows, "the newest view, published")


def test_a_hanging_mngr_is_ended_at_its_deadline_and_said(world: World) -> None:
    an_agent(world, "here")
    mngr_that(world, "sleep 1000")

    with watching(world, Pace(local=0.05, all=0.05, remote=0.1, probe=0.1, deadline=1.0)) as watched:
        problem = watched.problem()
        assert "did not answer" in problem.title + problem.detail
        # The probe looks beside mngr, and may first see a program that is just being started.
        eventually(lambda: watched.states() == {"here": State.WAITING}, "the agent")
        mngr_that(world, f"echo '{EMPTY}'")
        eventually(lambda: not watched.view.problems, "healing")


def test_stopping_ends_a_running_mngr_and_leaves_no_thread(world: World) -> None:
    before = set(threading.enumerate())
    files = open_files()
    mngr_that(world, f"sleep 1000 & echo $! > {world.root}/child; wait")

    with watching(world):
        note = world.root / "child"
        child = eventually(lambda: note.read_text().strip() if note.exists() else "")

    def has_ended() -> bool:
        try:
            os.kill(int(child), 0)
        except ProcessLookupError:
            return True
        return "Z" in (world.run(["ps", "-o", "stat=", "-p", child], check=False).stdout or "Z")

    eventually(has_ended, "the end of mngr's own child")
    eventually(lambda: set(threading.enumerate()) <= before, "the end of every thread")
    eventually(lambda: open_files() <= files, "the closing of every file")


def test_a_watch_that_was_stopped_before_it_ran_ends_at_once(world: World) -> None:
    watch = FleetWatch(WatchSettings(world.root), world.environment, lambda view: None)
    watch.stop()
    watch.run()


@pytest.mark.parametrize(
    ("listing", "says"),
    [
        ("echo '{\"agents\": [{'", "cut short"),
        ("echo Traceback", "no JSON"),
        ("kill -9 $$", "no answer"),
        ("echo 'Error: it is broken  [Mend it]' >&2; exit 1", "it is broken"),
    ],
)
def test_an_mngr_that_breaks_is_said_and_asked_again(world: World, listing: str, says: str) -> None:
    an_agent(world, "here")
    mngr_that(world, listing)

    with watching(world) as watched:
        problem = watched.problem()
        assert says in f"{problem.title} {problem.detail}"
        # The probe looks beside mngr, and may first see a program that is just being started.
        eventually(lambda: watched.states() == {"here": State.WAITING}, "the agent")
        asked = len(calls(world))
        watched.watch.refresh()
        eventually(lambda: len(calls(world)) > asked, "another question")


def test_an_mngr_that_was_installed_elsewhere_is_found(world: World) -> None:
    first = mngr_that(world, f"echo '{EMPTY}'")
    (world.root / "other").mkdir()
    shutil.copy(first, world.root / "other")
    world.extra["PATH"] = f"{first.parent}:{world.root}/other:{world.environment['PATH']}"
    sources = Sources(WatchSettings(world.root, QUICK, load_mngr_once=True), world.environment)

    def ask() -> type:
        return type(asyncio.run(sources.ask(ALL, PATIENCE)))

    assert ask() is Listed
    first.unlink()
    assert [ask(), ask(), ask()] == [ListFailed, Listed, Listed]
    sources.close()


def test_a_broken_version_is_refused(world: World) -> None:
    mngr_that(world, f"echo '{EMPTY}'", version="mngr, version 0.2.2")

    with watching(world) as watched:
        problem = watched.problem()
        assert "0.2.2" in problem.title
        assert problem.hint
    assert not calls(world)


def test_no_two_lists_run_at_once(world: World) -> None:
    mngr_that(
        world,
        f"mkdir {world.root}/busy || echo overlap >> {world.root}/overlaps\n"
        f"sleep 0.05\nrmdir {world.root}/busy\necho '{EMPTY}'",
    )

    with watching(world) as watched:
        for number in range(1, 6):
            watched.watch.refresh("local" if number % 2 else None)
            wanted = number
            eventually(lambda: len(calls(world)) >= wanted)  # noqa: B023 -- asked within this turn
    assert not (world.root / "overlaps").exists()
    assert {"--provider=local" in call for call in calls(world)} == {True, False}


def test_without_remote_providers_only_this_machine_is_asked(world: World) -> None:
    mngr_that(world, f"echo '{EMPTY}'")

    with watching(world, remote=False) as watched:
        eventually(lambda: len(calls(world)) >= 2)
        watched.watch.refresh()
        eventually(lambda: len(calls(world)) >= 3)
        assert all(not view.expecting - {"local"} for view in watched.views)
    once = observe_once(world.environment, WatchSettings(world.root, remote=False), PATIENCE, wait=False)
    assert "remote" not in once.expecting
    assert all("--provider=local" in call for call in calls(world))


def test_a_tmux_server_that_dies_stops_its_agents_and_not_the_watch(world: World) -> None:
    mngr_that(world, f"echo '{EMPTY}'; exit 1")
    an_agent(world, "one")
    an_agent(world, "two")

    with watching(world) as watched:
        eventually(lambda: watched.states() == {"one": State.WAITING, "two": State.WAITING})
        world.end_server()
        eventually(lambda: watched.states() == {"one": State.STOPPED, "two": State.STOPPED})
        world.tmux("new-session", "-d", "-s", "mngr-one", "-n", "agent", "sleep 100000")
        eventually(lambda: watched.states()["one"] is State.WAITING)


def test_a_host_folder_may_come_late_and_go(world: World) -> None:
    mngr_that(world, f"echo '{EMPTY}'; exit 1")
    shutil.rmtree(world.host_dir)

    with watching(world) as watched:
        eventually(lambda: watched.view.has_local_answer)
        assert watched.states() == {}
        an_agent(world, "late", session=False)
        eventually(lambda: "late" in watched.states())
        shutil.rmtree(world.host_dir)
        eventually(lambda: watched.states() == {})
        an_agent(world, "again", session=False)
        eventually(lambda: "again" in watched.states())


def test_an_answer_of_mngr_is_not_kept_beside_the_fleet(world: World) -> None:
    mngr_that(world, f"echo '{FAR}'")

    def answered_at() -> float:
        return max((lane.answered_at or 0.0 for lane in watched.view.lanes if lane.lane == "all"), default=0.0)

    def agents() -> list[Agent]:
        return [one for one in gc.get_objects() if isinstance(one, Agent) and one.id == "agent-9"]

    with watching(world, SLOW) as watched:
        eventually(lambda: "far" in watched.states())
        first = answered_at()
        watched.watch.refresh("all")
        eventually(lambda: answered_at() > first, "the second answer")
        eventually(lambda: len(agents()) == 1, "a single object for the agent of both answers")


def test_what_was_known_is_remembered_by_the_next_process(world: World) -> None:
    mngr_that(world, f"echo '{FAR}'")
    with watching(world) as watched:
        eventually(lambda: "far" in watched.states())

    mngr_that(world, "sleep 1000")
    with watching(world) as watched:
        eventually(lambda: "far" in watched.states())
        assert watched.view.rows[0].source == "remembered"

    once = observe_once(world.environment, WatchSettings(world.root), 60.0, wait=False)
    assert [(row.agent.name, row.source) for row in once.rows] == [("far", "remembered")]


def test_a_state_folder_that_cannot_be_written_is_no_reason_to_stop(world: World) -> None:
    mngr_that(world, f"echo '{EMPTY}'")
    (world.home / "state").write_text("a file where a folder should be")

    with watching(world) as watched:
        eventually(lambda: not watched.view.expecting)
    assert observe_once(world.environment, WatchSettings(world.root), 60.0).rows == ()


def test_what_the_reader_of_views_raises_ends_the_watch(world: World) -> None:
    mngr_that(world, f"echo '{EMPTY}'")

    def publish(view: FleetView) -> None:
        raise LookupError("nobody reads")

    with pytest.raises(LookupError):
        FleetWatch(WatchSettings(world.root, QUICK), world.environment, publish).run()


def test_a_file_watch_says_its_trouble_and_recovers(tmp_path: Path) -> None:
    changes = threading.Semaphore(0)
    troubles: list[str | None] = []
    watch = FileWatch(changes.release, troubles.append)
    (tmp_path / "file").touch()
    try:
        watch.watch([tmp_path / "file" / "below"])
        eventually(lambda: troubles and troubles[-1] is not None)
        watch.watch([tmp_path])
        eventually(lambda: troubles[-1] is None)
        while changes.acquire(blocking=False):
            pass  # what was told of the folders themselves

        def is_told() -> bool:
            (tmp_path / "file").touch()
            return changes.acquire(timeout=0.1)

        eventually(is_told)
    finally:
        watch.stop()
    assert not [thread for thread in threading.enumerate() if thread.name == "file watch"]


def test_what_agents_use_is_metered_while_they_work(world: World) -> None:
    mngr_that(world, f"echo '{EMPTY}'")
    folder = world.agent_dir(an_agent(world, "one"))
    transcript = folder / "events" / "claude" / "common_transcript" / "events.jsonl"
    transcript.parent.mkdir(parents=True)
    line = {"type": "step", "source": "agent", "event_id": "1", "model_name": "none", "metrics": {"prompt_tokens": 7}}
    transcript.write_text(json.dumps(line) + "\n")
    with watching(world, SLOW) as watched:
        eventually(lambda: [row.usage for row in watched.view.rows] == [Usage(input=7, model="none")], "a figure")
        with transcript.open("a") as file:
            file.write(json.dumps({**line, "event_id": "2"}) + "\n")
        eventually(lambda: [row.usage for row in watched.view.rows] == [Usage(input=14, model="none")], "the next one")
    once = observe_once(world.environment, WatchSettings(world.root), PATIENCE, wait=False)
    assert [row.usage for row in once.rows] == [Usage(input=14, model="none")]

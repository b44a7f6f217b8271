"""Received files are made safe: links, too large files, floods, invalid outcomes and invalid bundles."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest

from core.run.rehearsals import RUN, a_plan
from selftest_core.run.crew.mngr_commands import answer_script, bundle_script, parse_exec
from selftest_core.run.fetch import received_files
from selftest_core.run.fetch.bundles import Taken, UnusableBundleError, agent_ref, take
from selftest_core.run.fetch.received_files import LARGEST_FILE, MOST_FILES, receive

if TYPE_CHECKING:
    from pathlib import Path

    from worlds import World

GOOD = json.dumps({"changes": {}, "errored": False, "summary_markdown": "Nothing to do."})


@pytest.fixture
def staging(tmp_path: Path) -> Path:
    made = tmp_path / "staging"
    made.mkdir()
    return made


def test_a_whole_outcome_is_read_and_files_beside_it_stay(staging: Path) -> None:
    (staging / "outcome.json").write_text(GOOD)
    (staging / "shots").mkdir()
    (staging / "shots" / "one.cast").write_text("x")
    arrival = receive(staging)
    assert arrival.outcome is not None
    assert arrival.outcome.summary == "Nothing to do."
    assert (arrival.reason, arrival.left_out, arrival.bundle) == ("", (), None)
    assert (staging / "shots" / "one.cast").is_file()


def test_links_and_devices_do_not_arrive_and_are_named(staging: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("secret")
    (staging / "outcome.json").symlink_to(secret)
    (staging / "folder").symlink_to(tmp_path)
    os.mkfifo(staging / "pipe")
    arrival = receive(staging)
    assert arrival.outcome is None
    assert arrival.reason == "outcome.json: a link"
    assert sorted(arrival.left_out) == ["folder: a link", "outcome.json: a link", "pipe: no regular file"]
    assert secret.read_text() == "secret"
    assert {path.name for path in staging.iterdir()} == {received_files.LEFT_OUT}


def test_a_flood_does_not_crowd_out_the_outcome(staging: Path) -> None:
    for number in range(MOST_FILES + 5):
        (staging / f"a{number:05}").touch()
    (staging / "outcome.json").write_text(GOOD)
    arrival = receive(staging)
    assert arrival.outcome is not None
    assert len(arrival.left_out) == 6


def test_a_giant_is_left_out_and_a_giant_outcome_is_a_reason(staging: Path) -> None:
    for name, size in (("film.cast", LARGEST_FILE + 1), ("outcome.json", 50 * 1024 * 1024)):
        with (staging / name).open("wb") as file:
            file.truncate(size)
    arrival = receive(staging)
    assert arrival.outcome is None
    assert "52,428,800 bytes" in arrival.reason
    assert [line.partition(":")[0] for line in arrival.left_out] == ["film.cast"]


def test_folders_too_deep_or_closed_do_no_harm(staging: Path) -> None:
    deep = staging
    for _ in range(received_files.DEEPEST + 3):
        deep = deep / "d"
        deep.mkdir()
    (deep / "file").touch()
    closed = staging / "closed"
    closed.mkdir()
    (closed / "file").touch()
    closed.chmod(0)
    arrival = receive(staging)
    assert any("folders deep" in line for line in arrival.left_out)
    assert (closed / "file").is_file()


@pytest.mark.parametrize("text", ["", "{", '{"errored": false', "All is well!", "[]", "\0" * 9])
def test_half_a_file_and_nonsense_are_a_reason_not_an_error(staging: Path, text: str) -> None:
    (staging / "outcome.json").write_text(text)
    arrival = receive(staging)
    assert arrival.outcome is None
    assert arrival.reason


class AgentCopy:
    """An agent's copy of the world's repository."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.path = world.root / "copy"
        world.run(["git", "clone", "-q", str(world.repository), str(self.path)])

    def commit(self, text: str) -> str:
        (self.path / "README").write_text(text)
        who = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
        self._world.run(["git", *who, "commit", "-qam", text], cwd=self.path)
        return self._world.run(["git", "rev-parse", "HEAD"], cwd=self.path).stdout.strip()


def test_the_branch_of_an_earlier_attempt_is_kept_unless_the_new_one_contains_it(world: World) -> None:
    repository = world.make_repository()
    base = world.run(["git", "rev-parse", "HEAD"]).stdout.strip()
    plan = a_plan(1, repository=str(repository), base=base)
    copy, bundle = AgentCopy(world), world.root / "b"

    def taken() -> Taken:
        world.run(["git", "bundle", "create", "-q", str(bundle), f"{base}..HEAD"], cwd=copy.path)
        return take(plan, bundle, "agent-00", world.environment)

    def refs() -> dict[str, str]:
        lines = world.run(["git", "for-each-ref", "--format=%(refname) %(objectname)", "refs/selftest"]).stdout
        return dict(line.split() for line in lines.splitlines())

    ref = agent_ref(plan.run, "agent-00")
    first = copy.commit("one")
    assert taken().tip == first
    second = copy.commit("two")
    assert taken() == Taken(second, 2)
    assert refs() == {ref: second}
    world.run(["git", "reset", "-q", "--hard", base], cwd=copy.path)
    third = copy.commit("another way")
    for _ in range(2):  # a conductor that was killed takes it again
        assert taken().tip == third
    assert refs() == {ref: third, f"refs/selftest/{plan.run}/earlier/agent-00/{second}": second}


def test_results_are_away_before_an_answer_and_no_link_is_followed(world: World) -> None:
    world.make_repository()
    copy, outside = AgentCopy(world).path, world.root / "outside"
    out = copy / ".selftest" / "out"
    out.mkdir(parents=True)
    (out / "outcome.json").write_text("old")
    (out / "branch.bundle").symlink_to(world.root / "nowhere")
    outside.mkdir()
    (copy / ".selftest" / "attempt-1-outcome.json").symlink_to(outside)
    (copy / ".selftest" / "answer.md").symlink_to(outside / "written")
    for _ in range(2):  # a conductor that was killed does it again
        world.run(["/bin/sh", "-c", answer_script(2, "It's `$HOME`.\n")], cwd=copy)
        assert sorted(path.name for path in out.iterdir()) == []
        assert (copy / ".selftest" / "answer.md").read_text() == "It's `$HOME`.\n"
    assert (copy / ".selftest" / "attempt-1-outcome.json").read_text() == "old"
    assert (copy / ".selftest" / "attempt-1-branch.bundle").is_symlink()
    assert list(outside.iterdir()) == []
    # What the agent writes from then on is its own.
    (out / "outcome.json").write_text("new")
    assert (copy / ".selftest" / "attempt-1-outcome.json").read_text() == "old"


def test_only_a_branch_over_the_base_is_taken_and_only_under_our_name(world: World) -> None:
    repository = world.make_repository()
    base = world.run(["git", "rev-parse", "HEAD"]).stdout.strip()
    environ = world.environment
    plan = a_plan(1, repository=str(repository), base=base)
    bundle, other, whole = world.root / "b", world.root / "o", world.root / "w"
    copy = AgentCopy(world)
    tip = copy.commit("one")
    (copy.path / ".selftest/out").mkdir(parents=True)
    world.run(["sh", "-c", bundle_script(base)], cwd=copy.path)
    bundle.write_bytes((copy.path / ".selftest/out/branch.bundle").read_bytes())
    world.run(["git", "bundle", "create", "-q", str(whole), "--all"], cwd=copy.path)
    world.run(["git", "checkout", "-q", "--orphan", "stray"], cwd=copy.path)
    copy.commit("stray")
    world.run(["git", "bundle", "create", "-q", str(other), "HEAD"], cwd=copy.path)
    before = world.run(["git", "for-each-ref"]).stdout

    for bad in (other, repository / "README"):
        with pytest.raises(UnusableBundleError):
            take(plan, bad, "agent-00", environ)
    assert world.run(["git", "for-each-ref"]).stdout == before
    for _ in range(2):  # a conductor that was killed takes it again
        assert take(plan, bundle, "agent-00", environ) == Taken(tip, 1)
    refs = world.run(["git", "for-each-ref", "--format=%(refname) %(objectname)"]).stdout.splitlines()
    assert refs == ["refs/heads/main " + base, f"{agent_ref(RUN, 'agent-00')} {tip}"]
    assert world.run(["git", "status", "--porcelain"]).stdout == ""


def test_an_agent_that_changed_nothing_gets_no_bundle(world: World) -> None:
    repository = world.make_repository()
    base = world.run(["git", "rev-parse", "HEAD"]).stdout.strip()
    world.run(["sh", "-c", bundle_script(base)], cwd=repository)
    assert list((repository / ".selftest/out").iterdir()) == []


@pytest.mark.parametrize("text", ["", "{", "[]", '{"results": 7}', '{"results": [7]}'])
def test_an_exec_that_did_not_answer_says_nothing_of_anybody(text: str) -> None:
    assert parse_exec(text) == {}

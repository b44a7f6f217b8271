"""What ended runs left is shown with its exact names and removed by them; nothing else is, and nothing that moved."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from typing import TYPE_CHECKING

import pytest

from core.run.rehearsals import a_plan
from selftest_core.cleanup.run_leftovers import OLD, RunLeftover, remove, run_leftovers
from selftest_core.cleanup.selection import ALL, Selection, select
from selftest_core.errors import RefusedError, UsageError
from selftest_core.journal import Journal
from selftest_core.run.crew.trusted_folders import agent_ids
from selftest_core.run.fetch.bundles import agent_ref
from selftest_core.run.fold import begin
from selftest_core.run.smoke import Smoke
from selftest_core.run.store import make_run_folder, run_folders
from simulated.clock import EPOCH
from standins import EMPTY, calls, mngr_that

if TYPE_CHECKING:
    from typing import Any

    from selftest_core.run.store import RunFolder
    from worlds import World

ENDED, LIVE, DELETED = "20261001-0931-7f3a", "20261002-0931-7f3a", "20250101-0000-abcd"
OTHER = "20261003-0931-7f3a"


def a_run(world: World, run: str, *, is_over: bool, **changes: Any) -> RunFolder:
    """A run of two tests, both of which had an agent, made at the beginning of simulated time."""
    base = world.run(["git", "rev-parse", "HEAD"]).stdout.strip()
    plan = a_plan(2, run=run, repository=str(world.make_repository()), base=base, **changes)
    folder = make_run_folder(plan, world.environment)
    with Journal(folder.journal) as journal:
        journal.append("conducting", EPOCH, pid=1)
        for test in plan.tests:
            journal.append("launching", EPOCH, agent=test.agent_name, attempt=1)
            if is_over:
                journal.append("ended", EPOCH + 1.0, agent=test.agent_name, attempt=1, end="launch", stage="launch")
    (folder.path / "agents").mkdir()
    return folder


def refs(world: World) -> dict[str, str]:
    told = world.run(["git", "for-each-ref", "--format=%(refname) %(objectname)"]).stdout.splitlines()
    return {name: oid for name, _, oid in (line.partition(" ") for line in told)}


def look(world: World, after: float, selection: Selection = ALL) -> dict[tuple[str, str], RunLeftover]:
    """By kind and run, so long after the beginning of simulated time."""
    found, problems = asyncio.run(run_leftovers(world.environment, world.repository, EPOCH + after, selection))
    assert problems == ()
    return {(one.kind, one.run): one for one in found}


def removed(world: World, leftover: RunLeftover) -> tuple[str, ...]:
    return asyncio.run(remove(leftover, world.environment))


def test_old_folders_refs_of_deleted_runs_and_branches_of_agents_go_and_nothing_else(world: World) -> None:
    mngr_that(world, f"echo '{EMPTY}'")
    repository = world.make_repository()
    ended = a_run(world, ENDED, is_over=True, transfer="worktree")
    live = a_run(world, LIVE, is_over=False)
    base = world.run(["git", "rev-parse", "HEAD"]).stdout.strip()
    of_ended, of_live = agent_ref(ENDED, "agent-00"), agent_ref(LIVE, "agent-00")
    of_deleted, of_nobody = agent_ref(DELETED, "agent-00"), "refs/selftest/notes/mine"
    branch, of_person = "refs/heads/mngr/agent-00", "refs/heads/mngr/of-the-person"
    for name in (of_ended, of_live, of_deleted, of_nobody, branch, of_person):
        world.run(["git", "update-ref", name, base])

    # Soon after its end a run keeps what came of it: only what it was made with is offered.
    assert set(look(world, OLD - 10.0)) == {("branches", ENDED), ("refs", DELETED)}
    (asked,) = calls(world)
    assert asked.startswith("list ")
    assert "--provider=local" in asked
    found = look(world, OLD + 10.0)
    assert {key: one.names for key, one in found.items()} == {
        ("branches", ENDED): (branch,),
        ("run", ENDED): (str(ended.path), of_ended),
        ("refs", DELETED): (of_deleted,),
    }

    assert [removed(world, found[key]) for key in found] == [()] * 3
    assert refs(world) == {"refs/heads/main": base, of_live: base, of_nobody: base, of_person: base}
    assert not ended.path.exists()
    assert [folder.path for folder in run_folders(world.environment, repository)] == [live.path]
    assert look(world, OLD + 10.0) == {}


def test_what_moved_is_checked_out_or_goes_on_is_left_alone_and_told(world: World) -> None:
    mngr_that(world, f"echo '{EMPTY}'")
    repository = world.make_repository()
    ended = a_run(world, ENDED, is_over=True, transfer="worktree")
    base = world.run(["git", "rev-parse", "HEAD"]).stdout.strip()
    branch, of_deleted = "refs/heads/mngr/agent-00", agent_ref(DELETED, "agent-00")
    world.run(["git", "worktree", "add", "-q", "-b", "mngr/agent-00", str(world.root / "tree")])
    world.run(["git", "update-ref", of_deleted, base])
    (ended.clone / ".git" / "worktrees" / "agent-01").mkdir(parents=True)
    found = look(world, 0.0)
    assert set(found) == {("branches", ENDED), ("clone", ENDED), ("refs", DELETED)}

    (says,) = removed(world, found["branches", ENDED])
    assert "is checked out in" in says
    (says,) = removed(world, found["clone", ENDED])
    assert "agents still have work trees" in says
    identity = ("-c", "user.name=t", "-c", "user.email=t@example.org")
    world.run(["git", *identity, "commit", "-q", "--allow-empty", "-m", "Later"])
    later = world.run(["git", "rev-parse", "HEAD"]).stdout.strip()
    world.run(["git", "update-ref", of_deleted, later])
    assert removed(world, found["refs", DELETED]) != ()
    with Journal(ended.journal) as journal:
        (says,) = removed(world, found["branches", ENDED])
        assert "already has a conductor" in says
        journal.append("retrying", EPOCH, agent="agent-00", attempt=1, reason="asked", text="")
    (says,) = removed(world, found["branches", ENDED])
    assert says == f"the run {ENDED} is live again: kept"
    assert refs(world) == {"refs/heads/main": later, branch: base, of_deleted: later}
    assert repository.is_dir()
    assert ended.clone.is_dir()


def test_an_mngr_that_does_not_answer_hides_no_leftover_of_another_kind(world: World) -> None:
    mngr_that(world, "echo 'Error: no such profile' >&2; exit 1")
    world.make_repository()
    a_run(world, ENDED, is_over=True)
    found, problems = asyncio.run(run_leftovers(world.environment, world.repository, EPOCH + OLD + 10.0))
    assert [one.kind for one in found] == ["run"]
    (says,) = problems
    assert says.startswith("the agents of local were not checked")


def test_entries_of_an_ended_runs_agents_among_the_trusted_folders_are_listed_and_removed(world: World) -> None:
    mngr_that(world, f"echo '{EMPTY}'")
    world.make_repository()
    ended = a_run(world, ENDED, is_over=True, agent_type="claude", agent_command=None)
    live = a_run(world, LIVE, is_over=False, agent_type="claude", agent_command=None)
    copies = world.host_dir / "copies"
    ids = [test.agent_id for test in ended.plan().tests]
    file = world.home / ".claude.json"
    of_person = {"/home/ann/shop": {"hasTrustDialogAccepted": True}, str(copies / "agent-of-the-person"): {}}
    of_run = {str(copies / ids[0]): {"hasTrustDialogAccepted": True}, str(ended.clone): {}}
    of_live: dict[str, object] = {str(live.clone): {}}
    file.write_text(json.dumps({"projects": {**of_person, **of_run, **of_live}}))

    leftover = look(world, 0.0)["trust", ENDED]

    assert sorted(leftover.names) == sorted(of_run)
    assert "2 entries" in leftover.says
    assert removed(world, leftover) == ()
    assert json.loads(file.read_text())["projects"] == {**of_person, **of_live}
    assert ("trust", ENDED) not in look(world, 0.0)


def test_a_sweep_of_one_run_looks_at_no_other(world: World) -> None:
    mngr_that(world, f"echo '{EMPTY}'")
    repository = world.make_repository()
    for run in (ENDED, OTHER):
        a_run(world, run, is_over=True)
    for run in (ENDED, DELETED):
        world.run(["git", "update-ref", agent_ref(run, "agent-00"), "HEAD"])

    for typed, expected in (
        ([ENDED[:13]], {("run", ENDED)}),
        ([DELETED], {("refs", DELETED)}),
        ([OTHER, DELETED], {("run", OTHER), ("refs", DELETED)}),
        ([], {("run", ENDED), ("run", OTHER), ("refs", DELETED)}),
    ):
        selection = select(typed, world.environment, repository, is_here=False)
        assert set(look(world, OLD + 10.0, selection)) == expected
        assert selection.includes_demos is (not typed)


def test_a_sweep_of_this_repository_leaves_other_repositories_and_demos_alone(world: World) -> None:
    mngr_that(world, f"echo '{EMPTY}'")
    world.make_repository()
    a_run(world, ENDED, is_over=True)
    elsewhere = world.root / "elsewhere"
    world.run(["git", "clone", "-q", str(world.repository), str(elsewhere)])
    here = select([], world.environment, elsewhere, is_here=True)

    found, _ = asyncio.run(run_leftovers(world.environment, elsewhere, EPOCH + OLD + 10.0, here))
    assert found == ()
    assert not here.includes_demos
    found, _ = asyncio.run(run_leftovers(world.environment, elsewhere, EPOCH + OLD + 10.0))
    assert [one.run for one in found] == [ENDED]
    with pytest.raises(UsageError, match="There is no run or review"):
        select([ENDED], world.environment, elsewhere, is_here=True)


def test_an_id_of_a_sweep_names_one_ended_run(world: World) -> None:
    repository = world.make_repository()
    a_run(world, ENDED, is_over=True)
    a_run(world, LIVE, is_over=False)

    with pytest.raises(UsageError, match="There are several runs or reviews 202610"):
        select(["202610"], world.environment, repository, is_here=False)
    with pytest.raises(UsageError, match="There is no run or review 1999"):
        select([ENDED, "1999"], world.environment, repository, is_here=False)
    with pytest.raises(UsageError, match="There is no run or review"):
        select([""], world.environment, repository, is_here=False)
    with pytest.raises(RefusedError, match=f"The run {LIVE} has not ended"):
        select([ENDED, LIVE], world.environment, repository, is_here=False)
    with pytest.raises(UsageError, match="not in a git repository"):
        select([], world.environment, None, is_here=True)
    (world.repository / ".selftest" / "runs" / ENDED / "plan.json").write_text("{}")
    with pytest.raises(RefusedError, match=f"The run {ENDED} cannot be read"):
        select([ENDED], world.environment, repository, is_here=False)


def test_a_run_id_that_two_repositories_have_is_taken_from_one_of_them_only(world: World) -> None:
    world.make_repository()
    ended = a_run(world, ENDED, is_over=True)
    elsewhere = world.root / "elsewhere"
    world.run(["git", "clone", "-q", str(world.repository), str(elsewhere)])
    plan = dataclasses.replace(ended.plan(), repository=str(elsewhere))
    other = make_run_folder(plan, world.environment)
    other.journal.write_bytes(ended.journal.read_bytes())

    with pytest.raises(UsageError, match="Several repositories have a run"):
        select([ENDED], world.environment, world.repository, is_here=False)
    assert select([ENDED], world.environment, world.repository, is_here=True).ids == frozenset({ENDED})


def test_a_smoke_agent_is_one_of_the_run() -> None:
    run = begin(a_plan(1, agent_type="claude", agent_command=None))
    smoke = Smoke("local", "claude", 1, f"agent-{5:032x}", "smoke-local-abcd-7f3a")
    assert agent_ids(dataclasses.replace(run, smoke=(smoke,))) == {smoke.agent_id}

"""A run of agents that share one clone as worktrees: what they make comes back, and nothing of the person's moves."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from run.rehearsals import a_plan
from selftest_core.journal import Journal
from selftest_core.run.bundles import GitBundles, agent_ref
from selftest_core.run.clock import WallClock
from selftest_core.run.clone import make_clone
from selftest_core.run.conductor import Conductor
from selftest_core.run.deciding import Policy
from selftest_core.run.events import End
from selftest_core.run.mngr_crew import MngrCrew
from selftest_core.run.source import fingerprint
from selftest_core.run.store import make_run_folder
from selftest_core.tools.git import find_place
from selftest_core.tools.mngr import Mngr, find_mngr

if TYPE_CHECKING:
    from worlds import World

# A deadline for a hang, far beyond what a busy machine needs for twenty calls of mngr.
pytestmark = [pytest.mark.real, pytest.mark.timeout(600)]

# The first commits on a branch of another name and makes no bundle; the second ends with a bundle that is none.
AGENT = """#!/bin/sh
cd "$(dirname "$SELFTEST_OUT")/.." || exit 9
env > "$SELFTEST_OUT/environment.txt"
case "$SELFTEST_TEST" in
*test_00)
    git checkout -q -b a-name-of-its-own
    echo fixed > README && git -c user.name=a -c user.email=a@example.org commit -qam '[FIX_IMPL] Say fixed' ;;
*)
    echo 'no bundle at all' > "$SELFTEST_OUT/branch.bundle" ;;
esac
printf '%s' '{"changes": {"FIX_IMPL": {"status": "SUCCEEDED", "summary_markdown": "x"}}, "errored": false,
  "tests_passing_after": true, "summary_markdown": "Fixed.", "escalations": []}' > "$SELFTEST_OUT/draft"
mv "$SELFTEST_OUT/draft" "$SELFTEST_OUT/outcome.json"
case "$SELFTEST_TEST" in *test_00) exec sleep 100000 ;; esac
"""


def test_worktrees_hang_on_the_clone_and_agents_get_the_named_variables_alone(world: World) -> None:
    repository = world.make_repository()
    (repository / "staged").write_text("in the index\n")
    world.run(["git", "add", "staged"])
    base = world.run(["git", "rev-parse", "HEAD"]).stdout.strip()
    # The person's tmux server is there already, with whatever they started it with.
    of_the_person = {"API_TOKEN": "of-the-server", "NAMED": "of the server", "NOT_NAMED": "of the server"}
    world.run(["tmux", "-f", "/dev/null", "new-session", "-d", "-s", "mine", "cat"], env=of_the_person)
    world.extra.update(NAMED="of the person", SSH_AUTH_SOCK="/nowhere/agent", JUST_HERE="of the person")
    environ = world.environment
    plan = a_plan(
        2, is_real=True, repository=str(repository), base=base, timeout=1e9, launch_rate=100.0, transfer="worktree",
        env_names=("NAMED",), agent_command=("/bin/sh", str(world.script("agent", AGENT))),
    )  # fmt: skip
    before = fingerprint(find_place(repository, environ), environ)
    index = (repository / ".git" / "index").read_bytes()
    folder = make_run_folder(plan, environ)
    make_clone(repository, base, folder.clone, environ)
    crew = MngrCrew(plan, Mngr(find_mngr(environ), environ, repository), folder, WallClock())
    with Journal(folder.journal) as journal:
        policy = Policy(poll=1.0, pull_pause=0.1, last_looks=1)
        conductor = Conductor(plan, journal, crew, folder, GitBundles(plan, environ), policy=policy)
        why = asyncio.run(conductor.run())
    run = folder.read()
    fixed, broken = run.rows.values()
    assert why == "done", run

    assert (fixed.end, fixed.commits, fixed.says) == (End.SUCCEEDED, 1, ""), fixed
    assert broken.end is End.UNREADABLE, broken
    assert "bundle" in broken.text
    refs = world.run(["git", "for-each-ref", "--format=%(refname) %(objectname)"]).stdout.splitlines()
    assert sorted(refs) == sorted([f"refs/heads/main {base}", f"{agent_ref(plan.run, fixed.name)} {fixed.tip}"])
    assert fingerprint(find_place(repository, environ), environ) == before
    assert (repository / ".git" / "index").read_bytes() == index
    assert not (repository / ".git" / "worktrees").exists()

    hanging = world.run(["git", "worktree", "list", "--porcelain"], cwd=folder.clone).stdout
    work_dirs = [Path(line.removeprefix("worktree ")) for line in hanging.splitlines() if line.startswith("worktree ")]
    assert len(work_dirs) == 3  # the clone itself and one for each agent
    branches = world.run(["git", "for-each-ref", "--format=%(refname)", "refs/heads/mngr"], cwd=folder.clone).stdout
    assert branches.split() == [f"refs/heads/mngr/{row.name}" for row in (fixed, broken)]

    assert fixed.member is not None
    text = (folder.attempt(fixed.member) / "environment.txt").read_text()
    told = dict(line.partition("=")[::2] for line in text.splitlines())
    assert told["NAMED"] == "of the person"
    assert told["PATH"].startswith(environ["PATH"].partition(":")[0])
    for name in ("API_TOKEN", "NOT_NAMED", "SSH_AUTH_SOCK", "JUST_HERE"):
        assert not told.get(name), name
    assert world.tmux("show-environment", "-g", "API_TOKEN").strip() == "API_TOKEN=of-the-server"
    assert "mine" in world.tmux("list-sessions", "-F", "#{session_name}").split()

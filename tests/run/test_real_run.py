"""A run on the real mngr: a test that is fixed, one that is blocked, one whose agent dies; and the two crews agree."""

from __future__ import annotations

import json
import subprocess
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
from selftest_core.run.pulling import SCREEN
from selftest_core.run.source import fingerprint
from selftest_core.run.store import make_run_folder
from selftest_core.tools.git import find_place
from selftest_core.tools.mngr import Mngr, find_mngr

if TYPE_CHECKING:
    from worlds import World

# A deadline for a hang, far beyond what a busy machine needs for thirty calls of mngr.
pytestmark = [pytest.mark.real, pytest.mark.timeout(600)]

AGENT = """#!/bin/sh
cd "$(dirname "$SELFTEST_OUT")/.." || exit 9
report() {
    printf '%s' "$1" > "$SELFTEST_OUT/draft.json" && mv "$SELFTEST_OUT/draft.json" "$SELFTEST_OUT/outcome.json"
}
cp "$SELFTEST_PROMPT_FILE" "$SELFTEST_OUT/prompt-as-read.md"
case "$SELFTEST_TEST" in
*test_00)
    git checkout -q -b a-name-of-its-own
    echo fixed > README && git -c user.name=a -c user.email=a@example.org commit -qam '[FIX_IMPL] Say fixed'
    ln -s /etc/passwd "$SELFTEST_OUT/secrets"
    report '{"changes": {"FIX_IMPL": {"status": "SUCCEEDED", "summary_markdown": "x"}}, "errored": false,
             "tests_passing_after": true, "summary_markdown": "Fixed.", "escalations": []}'
    sleep 1000 ;;
*test_01)
    report '{"changes": {}, "errored": false, "summary_markdown": "Which one?",
             "escalations": [{"kind": "BLOCKER", "title": "Which one?"}]}'
    sleep 1000 ;;
*)
    echo 'panic: no such table' ; exit 3 ;;
esac
"""


async def test_agents_of_the_real_mngr_end_by_what_they_left(world: World) -> None:
    repository = world.make_repository()
    (repository / "dirty").write_text("not committed\n")
    base = world.run(["git", "rev-parse", "HEAD"]).stdout.strip()
    plan = a_plan(
        3, is_real=True, repository=str(repository), base=base, timeout=3600.0, launch_rate=5.0,
        agent_command=("/bin/sh", str(world.script("agent", AGENT))),
    )  # fmt: skip
    environ = world.environment
    before = fingerprint(find_place(repository, environ), environ)
    folder = make_run_folder(plan, environ)
    make_clone(repository, base, folder.clone, environ)
    crew = MngrCrew(plan, Mngr(find_mngr(environ), environ, repository), folder, WallClock())
    with Journal(folder.journal) as journal:
        conductor = Conductor(plan, journal, crew, folder, GitBundles(plan, environ), policy=Policy(poll=2.0))
        why = await conductor.run()
    run = folder.read()
    rows = list(run.rows.values())
    assert why == "done", run
    assert [row.end for row in rows] == [End.SUCCEEDED, End.BLOCKED, End.CRASH], [row.text for row in rows]
    assert [row.attempt for row in rows] == [1, 1, 1]
    assert [row.says for row in rows] == ["", "", ""]

    fixed, _, crashed = rows
    assert fixed.commits == 1
    ref = agent_ref(plan.run, fixed.name)
    assert world.run(["git", "rev-parse", ref]).stdout.strip() == fixed.tip
    assert world.run(["git", "log", "--format=%s", f"{base}..{fixed.tip}"]).stdout.strip() == "[FIX_IMPL] Say fixed"
    refs = world.run(["git", "for-each-ref", "--format=%(refname)"]).stdout.split()
    assert sorted(refs) == sorted(["refs/heads/main", ref])
    after = fingerprint(find_place(repository, environ), environ)
    assert {**after, "refs": None} == {**before, "refs": None}

    assert fixed.member is not None
    assert crashed.member is not None
    place = folder.attempt(fixed.member)
    names = {path.name for path in place.iterdir()}
    assert {"outcome.json", "branch.bundle", "prompt-as-read.md"} <= names
    assert "secrets" not in names
    assert fixed.planned.node_id in (place / "prompt-as-read.md").read_text()
    assert "panic: no such table" in (folder.attempt(crashed.member) / SCREEN).read_text()
    assert "panic: no such table" in crashed.text

    listed = world.listing()["agents"]
    assert {agent["id"] for agent in listed} == {test.agent_id for test in plan.tests}
    assert {agent["state"] for agent in listed} == {"STOPPED"}
    assert {agent["labels"]["selftest_test"] for agent in listed} == {test.node_id for test in plan.tests}
    ignored = subprocess.run(
        ["git", "status", "--porcelain"], cwd=repository, capture_output=True, text=True, check=True
    )
    assert ignored.stdout.split() == ["??", "dirty"]
    assert json.loads((folder.path / "plan.json").read_text())["run"] == plan.run

"""An answer to an agent on another machine over ssh: it goes on there, or a new one starts from its commits."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from core.run.far_hosts import far_hosts
from core.run.rehearsals import a_plan
from selftest_core.journal import Journal
from selftest_core.run.answer.answer import Answer
from selftest_core.run.clock import WallClock
from selftest_core.run.conduct.conductor import Conductor
from selftest_core.run.conduct.policy import Policy
from selftest_core.run.crew.mngr_crew import MngrCrew
from selftest_core.run.fetch.bundles import GitBundles, agent_ref
from selftest_core.run.outcome.ends import End
from selftest_core.run.plan.clone import make_clone
from selftest_core.run.providers import work_dir
from selftest_core.run.store import RequestKind, RunRequest, make_run_folder
from selftest_core.tools.mngr import Mngr, find_mngr

if TYPE_CHECKING:
    from worlds import World

# A deadline for a hang, far beyond what a busy machine needs for thirty calls of mngr over ssh.
pytestmark = [pytest.mark.real, pytest.mark.timeout(900)]
TEXT = 'It\'s `up`,\nas "the block" says: $HOME.'
AGENT = """#!/bin/sh
cd "$(dirname "$SELFTEST_OUT")/.." || exit 9
say() { git add said && git -c user.name=a -c user.email=a@example.org commit -qm "$1"; }
if [ -z "$SELFTEST_ANSWER" ]; then
    echo asked > said && say '[FIX_TEST] Ask'
    escalations='[{"kind": "BLOCKER", "title": "Up or down?"}]'
else
    printf '%s\\n' "$SELFTEST_ANSWER" >> said && say '[FIX_TEST] Do as told'
    escalations='[]'
fi
printf '{"changes": {}, "errored": false, "summary_markdown": "Read.", "escalations": %s}' "$escalations" \\
    > "$SELFTEST_OUT/draft"
mv "$SELFTEST_OUT/draft" "$SELFTEST_OUT/outcome.json"
exec sleep 100000
"""


def test_an_agent_on_another_machine_goes_on_there_or_another_from_its_commits(world: World) -> None:
    with far_hosts(world) as far:
        host = far.add("one")
        repository = world.make_repository()
        world.load_mngr()
        base = world.run(["git", "rev-parse", "HEAD"]).stdout.strip()
        plan = a_plan(
            1, is_real=True, repository=str(repository), base=base, timeout=1e9, launch_rate=100.0,
            provider=host.place, agent_command=("/bin/sh", str(world.script("agent", AGENT))),
        )  # fmt: skip
        environ = world.environment
        folder = make_run_folder(plan, environ)
        make_clone(repository, base, folder.clone, environ)
        crew = MngrCrew(plan, Mngr(find_mngr(environ), environ, repository), folder, WallClock())

        def conduct() -> None:
            with Journal(folder.journal) as journal:
                bundles, policy = GitBundles(plan, environ), Policy(screen_pause=1e6)
                assert asyncio.run(Conductor(plan, journal, crew, folder, bundles, policy=policy).run()) == "done"

        conduct()
        (row,) = folder.read().rows.values()
        assert (row.end, row.commits) == (End.BLOCKED, 1), row
        first = row.member
        assert first is not None

        # An agent that can go on is started again over there: what it left is away, and the answer is there.
        answered = replace(first, attempt=2, answer=Answer("1", TEXT, "Up or down?"), is_continued=True)
        asyncio.run(crew.restart(answered))
        there = f"{work_dir(host.place, first, world.host_dir)}/.selftest"
        assert '"BLOCKER"' in far.run(host, f"cat {there}/attempt-1-outcome.json")
        assert TEXT in far.run(host, f"cat {there}/answer.md")
        assert asyncio.run(crew.stop([first])) == {first.agent_id: ""}

        # A command cannot go on: another agent takes its place, with its commits.
        folder.add_request(RunRequest(RequestKind.ANSWER, row.name, TEXT, 1, "1"))
        conduct()
        (row,) = folder.read().rows.values()
        assert (row.end, row.attempt, row.commits) == (End.SUCCEEDED, 2, 2), row
        assert row.member is not None
        assert row.member.agent_id != first.agent_id
        said = world.run(["git", "show", f"{agent_ref(plan.run, row.name)}:said"]).stdout
        assert said == f"asked\n{TEXT}\n"

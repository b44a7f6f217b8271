"""A run on two other machines over ssh, one of which goes down meanwhile."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

from core.run.far_hosts import far_hosts
from core.run.fingerprints import fingerprint
from core.run.rehearsals import a_plan
from selftest_core.git.command import find_place
from selftest_core.journal import Journal
from selftest_core.review.batch import review
from selftest_core.review.changes.inputs import Request
from selftest_core.run.clock import WallClock
from selftest_core.run.conduct.conductor import Conductor
from selftest_core.run.conduct.policy import Policy
from selftest_core.run.crew.mngr_crew import MngrCrew
from selftest_core.run.events import Event, Phase
from selftest_core.run.fetch.bundles import GitBundles, agent_ref
from selftest_core.run.outcome.ends import End
from selftest_core.run.plan.clone import make_clone
from selftest_core.run.store import RequestKind, RunRequest, make_run_folder
from selftest_core.tools.mngr import Mngr, find_mngr

if TYPE_CHECKING:
    from pathlib import Path

    from core.run.far_hosts import FarHost, FarHosts
    from selftest_core.journal import Entry
    from selftest_core.run.fold import Run
    from selftest_core.run.store import RunFolder
    from worlds import World

# A deadline for a hang, far beyond what a busy machine needs for forty calls of mngr over ssh.
pytestmark = [pytest.mark.real, pytest.mark.timeout(900)]

# The first test's agent ends only when the other machine is down; the second's never ends there, where no file is.
AGENT = """#!/bin/sh
cd "$(dirname "$SELFTEST_OUT")/.." || exit 9
env > "$SELFTEST_OUT/environment.txt"
cp "$SELFTEST_PROMPT_FILE" "$SELFTEST_OUT/prompt-as-read.md"
while ! test -e /tmp/go; do sleep 0.2; done
git checkout -q -b a-name-of-its-own
echo "$SELFTEST_TEST" > README && git -c user.name=a -c user.email=a@example.org commit -qam '[FIX_IMPL] Say it'
case "$SELFTEST_TEST" in
*test_00)
    ln -s /etc/passwd "$SELFTEST_OUT/secrets"
    mkfifo "$SELFTEST_OUT/pipe"
    truncate -s 80M "$SELFTEST_OUT/giant" ;;
*)
    git bundle create -q "$SELFTEST_OUT/branch.bundle" "$SELFTEST_BASE..HEAD" ;;
esac
printf '%s' '{"changes": {"FIX_IMPL": {"status": "SUCCEEDED", "summary_markdown": "x"}}, "errored": false,
  "tests_passing_after": true, "summary_markdown": "Fixed over there.", "escalations": []}' > "$SELFTEST_OUT/draft"
mv "$SELFTEST_OUT/draft" "$SELFTEST_OUT/outcome.json"
exec sleep 100000
"""


class HastyClock(WallClock):
    """A clock that runs ahead by `haste` seconds with every look."""

    haste = 0.0
    ahead = 0.0

    def elapsed(self) -> float:
        """Elapsed seconds, skips included."""
        return super().elapsed() + self.ahead

    async def sleep(self, seconds: float) -> None:
        """Sleep, then skip."""
        await super().sleep(seconds)
        self.ahead += self.haste


@dataclass
class Story:
    """What happens meanwhile: the second machine goes down, then the first test may end, then time flies."""

    far: FarHosts
    stays: FarHost
    goes: FarHost
    folder: RunFolder
    clock: HastyClock
    told: list[tuple[str, str]] = field(default_factory=list)

    def follow(self, run: Run, entry: Entry) -> None:
        first, second = run.rows.values()
        row = run.rows.get(entry.fields.get("agent", ""))
        if row is not None:
            self.told.append((row.name, entry.event))
        if first.phase is Phase.WORKING and second.phase is Phase.WORKING and self.goes.server.poll() is None:
            self.goes.end()
            self.far.run(self.stays, "touch /tmp/go")
        # Who waits for nothing but a machine that is gone is given up after five minutes.
        self.clock.haste = 400.0 if first.phase is Phase.ENDED and second.end is None and second.attempt == 1 else 0.0
        if entry.event == Event.STOPPED and second.end is End.LOST:
            assert second.says  # a machine without power stops nobody
            self.folder.add_request(RunRequest(RequestKind.RETRY, second.name))


def test_a_machine_that_dies_costs_its_own_test_alone_which_goes_to_the_other_when_tried_again(world: World) -> None:
    with far_hosts(world) as far:
        stays, goes = far.add("one"), far.add("two")
        repository = world.make_repository()
        world.load_mngr()
        base = world.run(["git", "rev-parse", "HEAD"]).stdout.strip()
        plan = a_plan(
            2, is_real=True, repository=str(repository), base=base, timeout=1e9, launch_rate=100.0,
            provider=f"{stays.place},{goes.place}", env_names=("NAMED",), lost_retries=0,
            agent_command=("/bin/sh", str(world.script("agent", AGENT))),
        )  # fmt: skip
        world.extra.update(NAMED="of the person", NOT_NAMED="no business of theirs")
        environ = world.environment
        before = fingerprint(find_place(repository, environ), environ)
        folder = make_run_folder(plan, environ)
        make_clone(repository, base, folder.clone, environ)
        clock = HastyClock()
        crew = MngrCrew(plan, Mngr(find_mngr(environ), environ, repository), folder, clock)
        story = Story(far, stays, goes, folder, clock)
        with Journal(folder.journal) as journal:
            why = asyncio.run(
                Conductor(
                    plan, journal, crew, folder, GitBundles(plan, environ),
                    clock=clock, policy=Policy(poll=1.0, screen_pause=1e6), on_change=story.follow,
                ).run()
            )  # fmt: skip
        run = folder.read()
        first, second = run.rows.values()
        assert why == "done", run

        assert (first.end, first.attempt, first.commits, first.says) == (End.SUCCEEDED, 1, 1, ""), first
        ends = [name for name, event in story.told if event == Event.ENDED]
        assert ends == [first.name, second.name, second.name]
        assert [retry.reason for retry in second.retries] == ["asked"]
        assert (second.end, second.attempt, second.commits, second.says) == (End.SUCCEEDED, 2, 1, ""), second
        assert first.member is not None
        assert second.member is not None
        assert second.member.provider == first.member.provider == "one"

        refs = world.run(["git", "for-each-ref", "--format=%(refname) %(objectname)"]).stdout.splitlines()
        assert sorted(refs) == sorted(
            [f"refs/heads/main {base}", *(f"{agent_ref(plan.run, row.name)} {row.tip}" for row in (first, second))]
        )
        assert world.run(["git", "show", f"{second.tip}:README"]).stdout.strip() == second.planned.node_id
        after = fingerprint(find_place(repository, environ), environ)
        assert after == before
        assert world.run(["git", "status", "--porcelain"]).stdout == ""

        place = folder.attempt(first.member)
        names = {path.name for path in place.iterdir()}
        assert {"outcome.json", "branch.bundle", "environment.txt", "prompt-as-read.md"} <= names
        assert not names & {"secrets", "pipe", "giant"}
        assert first.planned.node_id in (place / "prompt-as-read.md").read_text()
        told = dict(line.partition("=")[::2] for line in (place / "environment.txt").read_text().splitlines())
        assert told["NAMED"] == "of the person"
        assert told["SELFTEST_RUN"] == plan.run
        assert "NOT_NAMED" not in told
        assert not _files_with(folder.path, "of the person", but=("environment.txt",))
        assert not _files_with(folder.path, "no business of theirs")

        listed = json.loads(world.mngr("list", "--provider", "one", "--format", "json"))["agents"]
        assert {agent["id"] for agent in listed} == {first.member.agent_id, second.member.agent_id}
        assert {agent["state"] for agent in listed} == {"STOPPED"}
        assert {agent["labels"]["selftest_test"] for agent in listed} == {test.node_id for test in plan.tests}
        assert not world.host_dir.joinpath("copies").exists()  # nothing of the agents is on this machine

        # A copy of the repository that never saw the run gets the branch from over there, to review it.
        copy = world.root / "copy"
        world.run(["git", "clone", "-q", "--no-local", "--branch", "main", "--", repository, copy])
        answer = review(Request(agents=(first.member.address,)), copy, environ)
        (change,) = answer.reviewed.order
        assert (change.oid, change.agents, answer.reviewed.plan.base) == (first.tip, (first.member.name,), base)
        assert (
            world.run(["git", "show", f"{answer.candidate}:README"], cwd=copy).stdout.strip() == plan.tests[0].node_id
        )


def _files_with(folder: Path, text: str, but: tuple[str, ...] = ()) -> list[Path]:
    return [
        path
        for path in folder.rglob("*")
        if path.is_file() and path.name not in but and text.encode() in path.read_bytes()
    ]

"""A run of interactive agents that share one clone as worktrees.

One forgets its outcome, is reminded once, and then needs a person; one asks at once, and ends with a bundle that is
none. What is made comes back, nothing of the person's moves, and the agents get the named variables alone.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

import pytest

from core.run.fingerprints import fingerprint
from core.run.rehearsals import a_plan
from core.run.thinkers import TYPE, teach_mngr
from selftest_core.fleet.sources.probe import Probe
from selftest_core.git.command import find_place
from selftest_core.journal import Journal
from selftest_core.run.clock import WallClock
from selftest_core.run.conduct.conductor import Conductor
from selftest_core.run.conduct.policy import TURN_ENDED, Policy
from selftest_core.run.crew.mngr_crew import MngrCrew
from selftest_core.run.events import Event
from selftest_core.run.fetch.bundles import GitBundles, agent_ref
from selftest_core.run.outcome.ends import End
from selftest_core.run.plan.clone import make_clone
from selftest_core.run.plan.prompt import PROMPT_LINE
from selftest_core.run.store import make_run_folder
from selftest_core.tools.mngr import Mngr, find_mngr
from worlds import eventually

if TYPE_CHECKING:
    from selftest_core.journal import Entry
    from selftest_core.run.fold import Run
    from worlds import World

# A deadline for a hang, far beyond what a busy machine needs for twenty calls of mngr.
pytestmark = [pytest.mark.real, pytest.mark.timeout(900)]

# One line is one message. The first agent writes its outcome only at the third, the second after an answer.
AGENT = """#!/bin/bash
cd "$(dirname "$SELFTEST_OUT")/.." || exit 9
env > "$SELFTEST_OUT/environment.txt"
cp .selftest/prompt.md "$SELFTEST_OUT/told.txt"
marks=$MNGR_AGENT_STATE_DIR
turns=0
report() {
    printf '%s' '{"changes": {"FIX_IMPL": {"status": "SUCCEEDED", "summary_markdown": "x"}}, "errored": false,
      "tests_passing_after": true, "summary_markdown": "Fixed."}' > "$SELFTEST_OUT/draft"
    mv "$SELFTEST_OUT/draft" "$SELFTEST_OUT/outcome.json"
}
while IFS= read -r line; do
    test -n "$line" || continue
    touch "$marks/active"
    printf '%s\\n' "$line" >> "$SELFTEST_OUT/heard.txt"
    turns=$((turns + 1))
    case "$SELFTEST_TEST" in
    *test_00)
        if test "$turns" -ge 3; then
            git checkout -q -b a-name-of-its-own
            echo fixed > README
            git -c user.name=a -c user.email=a@example.org commit -qam '[FIX_IMPL] Say fixed'
            report
        fi ;;
    *)
        touch "$marks/permissions_waiting"
        echo 'May I run rm -rf build? [y/n]'
        answer=
        while test -z "$answer"; do IFS= read -r answer || exit 8; done
        printf '%s\\n' "$answer" >> "$SELFTEST_OUT/heard.txt"
        rm "$marks/permissions_waiting"
        echo 'no bundle at all' > "$SELFTEST_OUT/branch.bundle"
        report
        exit 0 ;;
    esac
    rm "$marks/active"
done
"""


def test_one_that_forgets_is_reminded_once_and_then_needs_a_person_as_one_that_asks_does_at_once(world: World) -> None:
    teach_mngr(world, AGENT)
    world.load_mngr()
    repository = world.make_repository()
    (repository / "staged").write_text("in the index\n")
    world.run(["git", "add", "staged"])
    base = world.run(["git", "rev-parse", "HEAD"]).stdout.strip()
    # The person's tmux server is there already, with whatever they started it with.
    of_the_person = {"API_TOKEN": "of-the-server", "NAMED": "of the server", "NOT_NAMED": "of the server"}
    world.run(["tmux", "-f", "/dev/null", "new-session", "-d", "-s", "mine", "cat"], env=of_the_person)
    world.extra.update(NAMED="of the person", SSH_AUTH_SOCK="/nowhere/agent", JUST_HERE="of the person")
    plan = a_plan(
        2, is_real=True, repository=str(repository), base=base, timeout=1e9, launch_rate=100.0, transfer="worktree",
        agent_type=TYPE, agent_command=None, env_names=("NAMED",), prompt_template="Own {{ test }}.\n",
    )  # fmt: skip
    environ = world.environment
    before = fingerprint(find_place(repository, environ), environ)
    index = (repository / ".git" / "index").read_bytes()
    folder = make_run_folder(plan, environ)
    make_clone(repository, base, folder.clone, environ)
    told: list[tuple[str, str, str]] = []

    def answer(run: Run, entry: Entry) -> None:
        row = run.rows.get(entry.fields.get("agent", ""))
        if row is None:
            return
        reason = str(entry.fields.get("reason", ""))
        if entry.event == Event.NOTICED and reason and not any(line[1:] == ("noticed", reason) for line in told):
            says = {TURN_ENDED: "write it now", "waits for permission": "y"}[reason]
            world.tmux("send-keys", "-t", f"=mngr-{row.name}:", says, "Enter")
        told.append((row.name, entry.event, reason))

    crew = MngrCrew(plan, Mngr(find_mngr(environ), environ, repository), folder, WallClock())
    with Journal(folder.journal) as journal:
        policy = Policy(poll=1.0, reminder_patience=0.0, pull_pause=0.1, last_looks=1)
        bundles = GitBundles(plan, environ)
        why = asyncio.run(Conductor(plan, journal, crew, folder, bundles, policy=policy, on_change=answer).run())
    run = folder.read()
    forgets, asks = run.rows.values()
    assert why == "done", run
    assert (forgets.end, forgets.attempt, forgets.commits, forgets.says) == (End.SUCCEEDED, 1, 1, ""), told
    assert (asks.end, asks.attempt) == (End.UNREADABLE, 1), told
    assert "bundle" in asks.text

    of_one = [line[1:] for line in told if line[0] == forgets.name]
    assert [event for event, _ in of_one].count(Event.REMINDING) == 1
    assert of_one.index((Event.REMINDED, "")) < of_one.index((Event.NOTICED, TURN_ENDED))
    of_other = [line[1:] for line in told if line[0] == asks.name]
    assert (Event.NOTICED, "waits for permission") in of_other
    assert Event.REMINDING not in [event for event, _ in of_other]

    assert forgets.member is not None
    assert asks.member is not None
    heard = (folder.attempt(forgets.member) / "heard.txt").read_text().splitlines()
    assert [line.partition(" ")[0] for line in heard] == ["Read", "You", "write"]
    heard = (folder.attempt(asks.member) / "heard.txt").read_text().splitlines()
    assert heard == [PROMPT_LINE, "y"]  # one typed line; the prompt itself is the file that it names
    assert (folder.attempt(asks.member) / "told.txt").read_text() == f"Own {asks.planned.node_id}.\n"
    probe = Probe(environ)
    eventually(
        lambda: [agent.state for agent in probe.look(time.time()).agents] == ["STOPPED", "STOPPED"], "both stopped"
    )

    # Nothing of the person's moved: what came back is one ref of the run, and the trees hang on the clone.
    refs = world.run(["git", "for-each-ref", "--format=%(refname) %(objectname)"]).stdout.splitlines()
    assert sorted(refs) == sorted([f"refs/heads/main {base}", f"{agent_ref(plan.run, forgets.name)} {forgets.tip}"])
    assert fingerprint(find_place(repository, environ), environ) == before
    assert (repository / ".git" / "index").read_bytes() == index
    assert not (repository / ".git" / "worktrees").exists()
    hanging = world.run(["git", "worktree", "list", "--porcelain"], cwd=folder.clone).stdout
    assert hanging.count("worktree ") == 3  # the clone itself and one for each agent
    branches = world.run(["git", "for-each-ref", "--format=%(refname)", "refs/heads/mngr"], cwd=folder.clone).stdout
    assert branches.split() == [f"refs/heads/mngr/{row.name}" for row in (forgets, asks)]

    text = (folder.attempt(forgets.member) / "environment.txt").read_text()
    given = dict(line.partition("=")[::2] for line in text.splitlines())
    assert given["NAMED"] == "of the person"
    assert given["PATH"].startswith(environ["PATH"].partition(":")[0])
    for name in ("API_TOKEN", "NOT_NAMED", "SSH_AUTH_SOCK", "JUST_HERE"):
        assert not given.get(name), name
    assert world.tmux("show-environment", "-g", "API_TOKEN").strip() == "API_TOKEN=of-the-server"
    assert "mine" in world.tmux("list-sessions", "-F", "#{session_name}").split()

"""Settings of a command line reach the conductor that it starts, and no other process."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from core.run.rehearsals import a_plan
from selftest_core.journal import Journal
from selftest_core.run.store import make_run_folder
from simulated.clock import EPOCH
from standins import EMPTY, mngr_that
from tui.cli.programs import ours

if TYPE_CHECKING:
    from worlds import World


def test_the_command_for_a_run_that_rests_may_be_named_with_the_command_that_resumes_it(world: World) -> None:
    # Six of its agents crashed alike, so whoever takes it up lets it rest before another one is made.
    mngr_that(world, f"env >> {world.root}/seen; echo '{EMPTY}'")
    repository = world.make_repository()
    base = world.run(["git", "rev-parse", "HEAD"]).stdout.strip()
    folder = make_run_folder(
        a_plan(8, repository=str(repository), base=base, on_cluster="pause"), world.environment
    )  # fmt: skip
    with Journal(folder.journal) as journal:
        for number, test in enumerate(folder.plan().tests[:6]):
            whose = {"agent": test.agent_name, "attempt": 1}
            journal.append("launching", EPOCH + number, **whose)
            journal.append("launched", EPOCH + number, **whose, host_id="host-1", provider="local")
            journal.append("ended", EPOCH + number, **whose, end="crash", stage="work", text="panic: no such table")
            if number:
                journal.append("stopped", EPOCH + number, **whose, says="")
    told = world.root / "told"
    done = ours(world, "resume", "--batch", "--set", f"on_pause_command=echo \"$SELFTEST_SAYS\" > '{told}'")
    assert done.returncode == 3, done.stderr
    summary = json.loads(done.stdout.splitlines()[-1])
    assert summary["outcomes"]["not_started"] == 2, done.stderr
    assert "failed with the same error" in told.read_text()
    assert "SELFTEST_TUI_" not in (world.root / "seen").read_text()

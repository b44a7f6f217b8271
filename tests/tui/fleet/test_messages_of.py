"""The messages of an agent that has ended come from what its run has kept, where its own files are gone."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import scenes
from core.run.rehearsals import a_plan
from selftest_core.journal import Journal
from selftest_core.run.events import Event
from selftest_core.run.fetch.conversations import Conversation, keep_conversation
from selftest_core.run.plan.names import RUN_LABEL
from selftest_core.run.store import make_run_folder
from selftest_core.tools.mngr import Mngr, MngrProgram
from selftest_tui.fleet.pane.agent_messages import messages_of

if TYPE_CHECKING:
    from pathlib import Path


async def test_what_a_run_has_kept_is_shown_without_asking_mngr(tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path), "MNGR_HOST_DIR": str(tmp_path / "mngr")}
    (tmp_path / "repository").mkdir()
    plan = a_plan(1, repository=str(tmp_path / "repository"))
    folder = make_run_folder(plan, environ)
    row = scenes.few().row("st-7f-login-redirect")
    with Journal(folder.journal) as journal:
        name = plan.tests[0].agent_name
        journal.append(Event.LAUNCHING, 1.0, agent=name, attempt=1, agent_id=row.agent.id, name=name)
    attempt = folder.path / "agents" / name / "attempt-1"
    attempt.mkdir(parents=True)
    text = "person:\n  Do it.\n  \n  Now.\n\nagent:\n  > Bash: pytest -q\n\nresult:\n  | 1 passed\n"
    keep_conversation(attempt, Conversation(b"{}\n", text))
    nobody = Mngr(MngrProgram(tmp_path / "none", "PATH"), environ, tmp_path)
    row = replace(row, agent=replace(row.agent, labels={RUN_LABEL: plan.run}))
    said = await messages_of(nobody, row, 10)
    assert [one.strip() for one in said] == [one.strip() for one in text.split("\n\n")]
    assert len(await messages_of(nobody, row, 2)) == 2
    command = replace(row, agent=replace(row.agent, type="command"))
    assert await messages_of(nobody, command, 10) == ()

"""The last messages of an agent: from the files of a local one without asking mngr, and from what a run has kept."""

from __future__ import annotations

import shutil
from dataclasses import replace
from typing import TYPE_CHECKING

from core.run.rehearsals import a_plan
from selftest_core.agents import AgentKey
from selftest_core.conversation.last_messages import last_messages, read_messages, stamp_of
from selftest_core.conversation.search import search_conversations
from selftest_core.fleet.sources.mngr_list import parse_listing
from selftest_core.fleet.view import Category, Row
from selftest_core.journal import Journal
from selftest_core.run.events import Event
from selftest_core.run.fetch.conversations import Conversation, conversation_end, keep_conversation, kept_conversation
from selftest_core.run.store import make_run_folder
from selftest_core.tools.mngr import Mngr, MngrProgram
from worlds import ROOT

if TYPE_CHECKING:
    from pathlib import Path

FIXTURES = ROOT / "tests" / "fixtures"
SAMPLES = FIXTURES / "claude" / "2.1.330"
TRANSCRIPT = "events/claude/common_transcript/events.jsonl"


def give_transcript(state_folder: Path, name: str = "work") -> Path:
    path = state_folder / TRANSCRIPT
    path.parent.mkdir(parents=True)
    shutil.copy(SAMPLES / "common_transcript" / f"{name}.jsonl", path)
    return path


async def test_a_local_agents_messages_are_read_from_its_files_with_its_tool_calls(tmp_path: Path) -> None:
    captured = (FIXTURES / "mngr" / "0.3.0" / "list1_json.out").read_text()
    (agent,) = parse_listing(captured, at=1.0, provider=None).agents
    row = Row(replace(agent, type="claude"), Category.DONE, "mngr")
    give_transcript(tmp_path / "agents" / agent.id)
    environ = {"MNGR_HOST_DIR": str(tmp_path), "HOME": str(tmp_path)}
    mngr = Mngr(MngrProgram(tmp_path / "none", "PATH"), environ, tmp_path)
    said = await last_messages(mngr, row.agent, 3)
    assert [one.partition("] ")[2].partition("\n")[0] for one in said] == ["agent:", "result:", "agent:"]
    assert "  > Bash: git commit -qam " in said[0]


def test_the_stamp_changes_when_a_transcript_appears_and_grows(tmp_path: Path) -> None:
    assert stamp_of(tmp_path) == ()
    path = give_transcript(tmp_path)
    before = stamp_of(tmp_path)
    assert before
    with path.open("ab") as file:
        file.write(b'{"type": "step", "source": "agent", "message": "more"}\n')
    assert stamp_of(tmp_path) != before
    assert read_messages(tmp_path, 1) == ("agent:\n  more",)


def test_what_a_run_kept_is_found_by_the_id_of_the_agent_of_any_attempt(tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path)}
    (tmp_path / "repository").mkdir()
    plan = a_plan(1, repository=str(tmp_path / "repository"))
    folder = make_run_folder(plan, environ)
    name = plan.tests[0].agent_name
    with Journal(folder.journal) as journal:
        journal.append(Event.LAUNCHING, 1.0, agent=name, attempt=1, agent_id="agent-first", name="first")
        journal.append(Event.RETRYING, 2.0, agent=name, attempt=1, reason="lost", text="")
        journal.append(Event.LAUNCHING, 3.0, agent=name, attempt=2, agent_id="agent-second", name="second")
    for number in (1, 2):
        attempt = folder.path / "agents" / name / f"attempt-{number}"
        attempt.mkdir(parents=True)
        keep_conversation(attempt, Conversation(b"{}\n", f"agent:\n  number {number}\n"))
    assert kept_conversation(environ, plan.run, "agent-first") == "agent:\n  number 1\n"
    assert kept_conversation(environ, plan.run, "agent-second") == "agent:\n  number 2\n"
    assert kept_conversation(environ, plan.run, "agent-other") == ""
    assert kept_conversation(environ, "../x", "agent-first") == ""
    assert kept_conversation(environ, "no-run", "agent-first") == ""


def test_of_a_kept_conversation_the_end_is_shown_and_no_link_is_followed(tmp_path: Path) -> None:
    keep_conversation(tmp_path, Conversation(text="one line\n" * 1000))
    assert conversation_end(tmp_path, most=100) == "one line\n" * 11
    secret = tmp_path / "secret"
    (tmp_path / "conversation.txt").rename(secret)
    (tmp_path / "conversation.txt").symlink_to(secret)
    assert conversation_end(tmp_path) == ""


def test_commands_and_results_of_tools_are_searched(tmp_path: Path) -> None:
    folders = {}
    for name in ("work", "denied", "gone"):
        folders[AgentKey("host", name)] = tmp_path / name
        if name != "gone":
            give_transcript(tmp_path / name, name)
    (hit,) = search_conversations(folders, "NO TESTS RAN")
    assert (hit.key.agent_id, hit.lines) == ("work", ("no tests ran in 0.00s",))
    (hit,) = search_conversations(folders, "python -m pytest -q")
    assert hit.lines == ("python -m pytest -q -p no:cacheprovider",)
    (hit,) = search_conversations(folders, "key · Fix")
    assert hit.key.agent_id == "denied"
    assert search_conversations(folders, "nowhere") == ()
    assert search_conversations(folders, "") == ()

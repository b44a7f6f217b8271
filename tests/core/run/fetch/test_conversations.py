"""Conversations are kept with the files of an attempt: masked, readable, and never the agent's own file."""

from __future__ import annotations

import asyncio
import json
import subprocess
import threading
from typing import TYPE_CHECKING

import pytest

from core.run.rehearsals import a_plan
from core.run.thinkers import TYPE, teach_mngr
from selftest_core.config import Config
from selftest_core.conversation.transcript_files import LARGEST_OWN, Transcript
from selftest_core.journal import Journal
from selftest_core.run.clock import WallClock
from selftest_core.run.conduct.conductor import Conductor
from selftest_core.run.conduct.policy import Policy
from selftest_core.run.crew.mngr_crew import MngrCrew
from selftest_core.run.fetch import conversations
from selftest_core.run.fetch.bundles import GitBundles
from selftest_core.run.fetch.conversations import NO_CONVERSATION, Conversation, conversation_of, keep_conversation
from selftest_core.run.fetch.mngr_conversations import (
    LARGEST_REMOTE,
    local_transcript,
    parse_transcript_answer,
    transcript_script,
)
from selftest_core.run.outcome.ends import End
from selftest_core.run.plan.clone import make_clone
from selftest_core.run.store import RequestKind, RunFolder, RunRequest, make_run_folder
from selftest_core.tools.mngr import Mngr, find_mngr
from selftest_core.tools.mngr_files import host_dir_of
from selftest_recorder.capture.text_masking import make_mask
from worlds import ROOT, eventually

if TYPE_CHECKING:
    from pathlib import Path

    from worlds import World

SAMPLES = ROOT / "tests" / "fixtures" / "claude" / "2.1.330"
WORK = (SAMPLES / "common_transcript" / "work.jsonl").read_bytes()
POOR = (SAMPLES / "own_lines" / "poor.jsonl").read_bytes()


def said(text: str, number: int = 1) -> bytes:
    step = {"type": "step", "event_id": f"s{number}", "source": "agent", "message": text}
    return json.dumps(step).encode() + b"\n"


def stars(text: str) -> str:
    return text.replace("hunter2", "*******")


def test_lines_in_which_nothing_is_masked_stay_as_they_are() -> None:
    made = conversation_of(Transcript(WORK), stars)
    assert made.lines == WORK
    assert (made.error, made.missing) == (None, "")


def test_a_secret_is_masked_however_json_spells_it() -> None:
    spelled = said("x\nhunter2\tx").replace(b"hunter2", rb"h\u0075nter2")
    arguments = {"command": "curl -H hunter2", "hunter2": ["hunter2"]}
    call = {"type": "step", "source": "agent", "tool_calls": [{"function_name": "Bash", "arguments": arguments}]}
    broken = b'{"type": "step", "message": "hunter2\n'
    made = conversation_of(Transcript(spelled + json.dumps(call).encode() + b"\n" + broken), stars)
    for text in (made.lines.decode(), made.text, json.dumps([json.loads(one) for one in made.lines.splitlines()[:2]])):
        assert "unter2" not in text
        assert "*******" in text


def test_tokens_behind_an_escaped_line_end_are_masked(tmp_path: Path) -> None:
    folder = make_plan_folder(tmp_path)
    (tmp_path / "env").write_text("TOKEN='of the agent'\nOTHER=seen\n")
    mask = make_mask(folder, Config(mask_env=("TOKEN",)), {"TOKEN": "of-the-person"})
    secrets = ("sk-abcdefghijklmnopqrstuvwx", "of-the-person", "of the agent")
    made = conversation_of(
        Transcript(said("".join(f"\n{one}" for one in secrets) + " seen \ud800")),
        lambda text: mask(text, tmp_path / "env"),
    )
    for secret in secrets:
        assert secret not in made.text
        assert secret.encode() not in made.lines
    assert "seen" in made.text


def test_a_file_of_variables_that_is_a_link_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "real").write_text("TOKEN=of-the-agent\n")
    (tmp_path / "env").symlink_to(tmp_path / "real")
    mask = make_mask(make_plan_folder(tmp_path), Config(mask_env=("TOKEN",)), {})
    assert mask("of-the-agent", tmp_path / "env") == "of-the-agent"
    assert mask("of-the-agent", tmp_path / "real") == "************"


def test_a_pattern_that_finds_half_a_character_masks_it(tmp_path: Path) -> None:
    mask = make_mask(make_plan_folder(tmp_path), Config(mask_patterns=("key=.{3}",)), {})
    made = conversation_of(Transcript(said("key=\u043f\u0430\u0440 seen")), lambda text: mask(text, None))
    assert "*******" in made.text
    assert "seen" in made.text


def test_switches_and_models_are_words_of_every_conversation(tmp_path: Path) -> None:
    (tmp_path / "repository").mkdir()
    names = ("ANTHROPIC_API_KEY", "ANTHROPIC_MODEL", "CLAUDE_CODE_EFFORT_LEVEL")
    plan = a_plan(1, repository=str(tmp_path / "repository"), env_names=names)
    environ = {"HOME": str(tmp_path), **dict(zip(names, ("of-the-person", "claude-opus-4-1", "high"), strict=True))}
    mask = make_mask(make_run_folder(plan, environ), Config(), environ)
    assert mask("claude-opus-4-1, high, of-the-person", None) == "claude-opus-4-1, high, *************"


def test_of_a_long_conversation_the_newest_part_is_kept_and_that_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    made = conversation_of(Transcript(WORK, left_out=12_345), stars)
    assert made.text.startswith("(The first 12,345 bytes are left out.)\n\n[")
    monkeypatch.setattr(conversations, "LONGEST_TEXT", 500)
    made = conversation_of(Transcript(b"".join(said(f"message {number}", number) for number in range(100))), stars)
    assert made.text.startswith("(The beginning is left out.)\n\nagent:\n  message ")
    assert made.text.endswith("message 99\n")


def test_an_error_of_the_service_is_known(tmp_path: Path) -> None:
    made = conversation_of(Transcript(said("PLAY poor"), 0, POOR), stars)
    assert made.error is not None
    assert made.error.kind == "billing_error"
    assert "error:\n  Credit balance is too low\n" in made.text


def test_a_file_of_the_agents_never_stands_for_ours(tmp_path: Path) -> None:
    (tmp_path / "conversation.jsonl").write_text("forged\n")
    (tmp_path / "conversation.txt").symlink_to("/nowhere")
    keep_conversation(tmp_path, Conversation(b"lines\n", "text\n"))
    assert (tmp_path / "conversation.jsonl").read_bytes() == b"lines\n"
    assert (tmp_path / "conversation.txt").read_text() == "text\n"
    assert (tmp_path / "conversation.jsonl.from-agent").read_text() == "forged\n"
    keep_conversation(tmp_path, NO_CONVERSATION)
    assert not (tmp_path / "conversation.jsonl").exists()
    assert not (tmp_path / "conversation.txt").exists()


def test_a_folder_of_the_agents_in_its_place_is_moved_aside_too(tmp_path: Path) -> None:
    for name in ("conversation.txt", "conversation.txt.from-agent"):
        (tmp_path / name / "inner").mkdir(parents=True)
    keep_conversation(tmp_path, Conversation(missing="mngr has no transcript of it"))
    text = (tmp_path / "conversation.txt").read_text()
    assert text == "No conversation was kept: mngr has no transcript of it\n"


def asked(world: World, folder: Path, **limits: int) -> Transcript:
    """Run the script for remote hosts on this state folder, and parse its answer."""
    done = world.run(["sh", "-c", transcript_script(**limits)], env={"MNGR_AGENT_STATE_DIR": str(folder)})
    return parse_transcript_answer(done.stdout.strip())


def test_another_host_sends_both_files_or_their_ends(world: World) -> None:
    folder = world.root / "agent-1"
    assert asked(world, folder) == Transcript()
    for path, data in (("events/claude/common_transcript", WORK), ("logs/claude_transcript", POOR)):
        (folder / path).mkdir(parents=True)
        (folder / path / "events.jsonl").write_bytes(data)
    assert asked(world, folder) == Transcript(WORK, 0, POOR)
    end = asked(world, folder, most=2_000)
    assert WORK.endswith(end.common)
    assert end.left_out + len(end.common) == len(WORK)
    (folder / "logs/claude_transcript/events.jsonl").unlink()
    (folder / "logs/claude_transcript/events.jsonl").symlink_to(folder / "events/claude/common_transcript/events.jsonl")
    assert asked(world, folder) == Transcript(WORK, 0, b"")


@pytest.mark.parametrize(
    "text", ["", "common", "common 5\n%%%", "common 99999999999999999999\nAAAA", "own 3\nabcd", "common x\n"]
)
def test_a_damaged_answer_is_no_transcript(text: str) -> None:
    assert parse_transcript_answer(text).common == b""


def test_a_far_host_cannot_send_more_than_is_wanted() -> None:
    bomb = subprocess.run(
        ["sh", "-c", f"head -c {20 * LARGEST_REMOTE} /dev/zero | tr '\\0' '\\n' | gzip | base64 | tr -d '\\n'"],
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    read = parse_transcript_answer(f"common {20 * LARGEST_REMOTE}\n{bomb}\nown 9\n{bomb}\n")
    assert len(read.common) <= LARGEST_REMOTE
    assert LARGEST_OWN <= LARGEST_REMOTE


def make_plan_folder(tmp_path: Path) -> RunFolder:
    (tmp_path / "repository").mkdir()
    return make_run_folder(a_plan(1, repository=str(tmp_path / "repository")), {"HOME": str(tmp_path)})


# Each writes a transcript as mngr's plugins do, and goes on; only the first gives back an outcome.
AGENT = f"""#!/bin/bash
cd "$(dirname "$SELFTEST_OUT")/.." || exit 9
say() {{
    mkdir -p "$MNGR_AGENT_STATE_DIR/$1"
    cat "$2" >> "$MNGR_AGENT_STATE_DIR/$1/events.jsonl"
}}
IFS= read -r line
touch "$MNGR_AGENT_STATE_DIR/active"
case "$SELFTEST_TEST" in
*test_00)
    say events/thinker/common_transcript {SAMPLES}/common_transcript/work.jsonl
    printf '{{"type": "step", "source": "agent", "message": "%s"}}\\n' "$TOKEN" |
        say events/thinker/common_transcript /dev/stdin
    echo 'of the agent' > "$SELFTEST_OUT/conversation.txt"
    echo 'its own transcript' > "$SELFTEST_OUT/transcript.txt"
    printf '{{"changes": {{}}, "errored": false, "summary_markdown": "x"}}' > "$SELFTEST_OUT/draft"
    mv "$SELFTEST_OUT/draft" "$SELFTEST_OUT/outcome.json" ;;
*)
    say events/thinker/common_transcript {SAMPLES}/common_transcript/denied.jsonl
    say logs/thinker_transcript {SAMPLES}/own_lines/denied.jsonl
    echo '? for shortcuts'
    touch "$SELFTEST_OUT/said" ;;
esac
exec cat
"""


def test_a_transcript_that_is_not_written_yet_is_waited_for(tmp_path: Path) -> None:
    (tmp_path / "plugin").mkdir()
    events = tmp_path / "events/claude/common_transcript/events.jsonl"

    async def read() -> Transcript:
        reading = asyncio.create_task(local_transcript(tmp_path))
        await asyncio.wait({reading}, timeout=0.3)
        assert not reading.done()
        events.parent.mkdir(parents=True)
        events.write_bytes(said("late"))
        return await reading

    assert asyncio.run(read()).common == said("late")


def test_no_transcript_is_waited_for_where_nothing_writes_one(tmp_path: Path) -> None:
    async def read() -> Transcript:
        return await asyncio.wait_for(local_transcript(tmp_path), 5)

    assert asyncio.run(read()).common == b""


@pytest.mark.real
@pytest.mark.timeout(900)
def test_it_comes_with_an_outcome_and_of_an_agent_that_was_stopped(world: World) -> None:
    teach_mngr(world, AGENT)
    world.load_mngr()
    repository = world.make_repository()
    base = world.run(["git", "rev-parse", "HEAD"]).stdout.strip()
    world.extra["TOKEN"] = "hunter2-hunter2"
    plan = a_plan(
        2, is_real=True, repository=str(repository), base=base, timeout=1e9, launch_rate=100.0, transfer="worktree",
        agent_type=TYPE, agent_command=None, env_names=("TOKEN",), prompt_template="Own {{ test }}.\n",
    )  # fmt: skip
    environ = world.environment
    folder = make_run_folder(plan, environ)
    make_clone(repository, base, folder.clone, environ)
    mask = make_mask(folder, Config(), environ)
    crew = MngrCrew(plan, Mngr(find_mngr(environ), environ, repository), folder, WallClock(), mask=mask)
    second = plan.tests[1].agent_name
    copies = host_dir_of(environ) / "copies"

    def stop_the_second() -> None:
        eventually(lambda: list(copies.glob("*/.selftest/out/said")), "the second agent has said its words")
        folder.add_request(RunRequest(RequestKind.STOP_ONE, second))

    waiting = threading.Thread(target=stop_the_second)
    waiting.start()
    with Journal(folder.journal) as journal:
        policy = Policy(poll=1.0, pull_pause=0.1, last_looks=1)
        bundles = GitBundles(plan, environ)
        assert asyncio.run(Conductor(plan, journal, crew, folder, bundles, policy=policy).run()) == "done"
    waiting.join()
    rows = tuple(folder.read().rows.values())
    assert [row.end for row in rows] == [End.UNCHANGED, End.STOPPED]
    places = [folder.attempt(row.member) for row in rows if row.member is not None]

    lines = (places[0] / "conversation.jsonl").read_bytes()
    assert lines.startswith(WORK)
    assert b"***************" in lines
    text = (places[0] / "conversation.txt").read_text()
    assert "> Bash: python -m pytest -q -p no:cacheprovider" in text
    assert "hunter2" not in text + lines.decode()
    assert (places[0] / "conversation.txt.from-agent").read_text() == "of the agent\n"
    assert (places[0] / "transcript.txt").read_text() == "its own transcript\n"

    assert "error:\n  Invalid API key" in (places[1] / "conversation.txt").read_text()
    assert "Invalid API key · Fix external API key (authentication failed, 401)" in rows[1].text
    assert rows[1].signature == "Invalid API key · Fix external API key (authentication failed, <n>)"

"""The meter, on folders of agents as mngr 0.3.0 and Claude Code 2.1.330 left them."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from selftest_core.conversation.claude_transcript import parse_session, session_files
from selftest_core.conversation.common_transcript import Tokens
from selftest_core.usage import meter
from selftest_core.usage.claude_costs import REPORTS_FILE, TOTALS_FILE, program_totals, with_reports
from selftest_core.usage.meter import AgentMeter, Meters
from selftest_core.usage.prices import Prices
from selftest_core.usage.tokens import Label, Usage
from worlds import ROOT

if TYPE_CHECKING:
    from pathlib import Path

SAMPLES = ROOT / "tests" / "fixtures" / "claude" / "2.1.330"
SESSION = "838fe645-1764-4bbf-a332-db58700f7a2f"
SUBAGENT = (
    f"plugin/claude/anthropic/projects/-home-me-worktrees-agent/{SESSION}/subagents/agent-a84289883ded026fa.jsonl"
)
TRANSCRIPT = "events/claude/common_transcript/events.jsonl"
PRICES = Prices()


def copy(sample: str, to: Path) -> None:
    to.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(SAMPLES / sample, to)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An agent's folder, of the play "work": five answers."""
    copy("common_transcript/work.jsonl", tmp_path / "agents" / "agent-1" / TRANSCRIPT)
    return tmp_path / "agents" / "agent-1"


def meter_of(folder: Path) -> Usage | None:
    return AgentMeter(folder).look(PRICES.of)


def in_dollars(usage: Usage | None) -> Usage | None:
    """Rounded as dollars are: sums of floats differ in their last digits."""
    return usage if usage is None or usage.usd is None else replace(usage, usd=round(usage.usd, 9))


def test_what_the_model_said_it_sent_is_what_is_metered(folder: Path) -> None:
    assert in_dollars(meter_of(folder)) == (Usage(100, 60_000, 2_500, 202, 0.02894, Label.METERED, "claude-opus-5-5"))


def test_sub_agents_are_counted(folder: Path) -> None:
    copy("common_transcript/sub.jsonl", folder / TRANSCRIPT)
    without = meter_of(folder)
    assert without is not None
    assert without.output == 35 + 11 + 11
    copy("session/subagent.jsonl", folder / SUBAGENT)
    assert session_files(folder) == (SUBAGENT,)
    within = meter_of(folder)
    # To the dollar what Claude Code wrote of this session at its end.
    assert in_dollars(within) == Usage(100, 60_000, 2_500, 96, 0.02682, Label.METERED, "claude-opus-5-5")


def test_an_answer_that_mngr_did_not_copy_is_counted_from_the_session_itself(folder: Path) -> None:
    whole = meter_of(folder)
    assert whole is not None
    lines = (folder / TRANSCRIPT).read_text().splitlines(keepends=True)
    last = max(number for number, line in enumerate(lines) if '"metrics"' in line)
    (folder / TRANSCRIPT).write_text("".join(lines[:last]))
    cut = meter_of(folder)
    assert cut is not None
    assert cut.output < whole.output
    told = json.loads(lines[last])
    usage = {
        "input_tokens": 20, "cache_creation_input_tokens": 500, "cache_read_input_tokens": 12_000,
        "output_tokens": told["metrics"]["completion_tokens"],
    }  # fmt: skip
    message = {"id": told["extra"]["message_id"], "model": told["model_name"], "usage": usage}
    session = folder / "plugin/claude/anthropic/projects/p" / f"{SESSION}.jsonl"
    session.parent.mkdir(parents=True)
    session.write_text(f"{json.dumps({'type': 'assistant', 'uuid': 'x', 'message': message})}\n")
    assert in_dollars(meter_of(folder)) == in_dollars(whole)


def test_the_dollars_that_claude_wrote_at_its_end_are_taken_of_this_session_alone(folder: Path) -> None:
    copy("common_transcript/sub.jsonl", folder / TRANSCRIPT)
    copy("session/claude.json", folder / TOTALS_FILE)
    (folder / "claude_session_id").write_text("another\n")
    assert program_totals(folder) is None
    (folder / "claude_session_id").write_text(f"{SESSION}\n")
    totals = program_totals(folder)
    assert totals is not None
    assert (dict(totals.models), totals.usd) == ({"claude-opus-5-5": Tokens(100, 60_000, 2_500, 96)}, 0.02682)
    assert meter_of(folder) == Usage(100, 60_000, 2_500, 96, 0.02682, Label.METERED, "claude-opus-5-5")


@pytest.mark.parametrize(
    "change",
    [
        {"lastCost": float("nan")},
        {"lastCost": 1e300},
        {"lastCost": float("inf")},
        {"lastCost": 10**400},
        {"lastCost": -1},
        {"lastCost": "0.5"},
        {"lastCost": True},
        {"lastModelUsage": []},
        {"lastModelUsage": {str(number): {} for number in range(99)}},
        {"lastSessionId": None},
    ],
)
def test_hostile_totals_are_no_totals(folder: Path, change: dict[str, object]) -> None:
    document = json.loads((SAMPLES / "session" / "claude.json").read_text())
    document["projects"]["/home/me/project"].update(change)
    (folder / TOTALS_FILE).parent.mkdir(parents=True)
    (folder / TOTALS_FILE).write_text(json.dumps(document))
    (folder / "claude_session_id").write_text(SESSION)
    assert program_totals(folder) is None


def test_hostile_counts_count_nothing(folder: Path) -> None:
    line = '{"type":"step","source":"agent","event_id":"x","metrics":{"prompt_tokens":%s,"completion_tokens":%s}}\n'
    with (folder / TRANSCRIPT).open("a") as file:
        for number in ("-5", "NaN", "1e300", '"7"', "true", "9" * 40):
            file.write(line % (number, number))
        file.write('{"type":"step","source":"agent","metrics":{"prompt_tok')
    usage = meter_of(folder)
    assert usage is not None
    assert (usage.tokens, usage.output) == (62_802, 202)


def test_a_name_that_is_too_long_for_a_model_is_none(folder: Path) -> None:
    name = "a." * 2_000 + "!"
    step = {"type": "step", "source": "agent", "event_id": "x", "model_name": name, "metrics": {"prompt_tokens": 7}}
    (folder / TRANSCRIPT).write_text(f"{json.dumps(step)}\n")
    (folder / "claude_session_id").write_text(SESSION)
    usage = meter_of(folder)
    assert usage is not None
    assert (usage.tokens, usage.usd, usage.model) == (7, None, "")
    totals = {"projects": {"p": {"lastSessionId": SESSION, "lastCost": 1, "lastModelUsage": {name: {}}}}}
    (folder / TOTALS_FILE).parent.mkdir(parents=True)
    (folder / TOTALS_FILE).write_text(json.dumps(totals))
    program = program_totals(folder)
    assert program is not None
    assert set(program.models) == {""}


def test_errors_of_a_session_are_told_with_their_kind() -> None:
    (step,) = parse_session((SAMPLES / "session" / "denied.jsonl").read_bytes().splitlines())
    assert (step.is_error, step.error_kind, step.error_status) == (True, "authentication_failed", 401)
    assert step.text == "Invalid API key · Fix external API key"


def test_a_look_reads_what_is_new_and_gives_the_same_object_meanwhile(folder: Path) -> None:
    whole = (folder / TRANSCRIPT).read_bytes()
    lines = whole.splitlines(keepends=True)
    (folder / TRANSCRIPT).write_bytes(b"".join(lines[:3]) + lines[3][:20])
    one = AgentMeter(folder)
    first = one.look(PRICES.of)
    assert first is not None
    assert first.output == 35
    assert one.look(PRICES.of) is first
    with (folder / TRANSCRIPT).open("ab") as file:
        file.write(whole[len(b"".join(lines[:3])) + 20 :])
    second = one.look(PRICES.of)
    assert second is not None
    assert second.output == 202


def test_no_agent_fills_our_memory_with_answers(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(meter, "_MOST_ANSWERS", 5)
    one = AgentMeter(folder)
    assert one.look(PRICES.of) is not None
    step = {"type": "step", "source": "agent", "event_id": "x", "metrics": {"completion_tokens": 7}}
    with (folder / TRANSCRIPT).open("a") as file:
        file.write(f"{json.dumps(step)}\n")
    usage = one.look(PRICES.of)
    assert usage is not None
    assert usage.output == 202


def test_what_is_forgotten_is_read_anew_when_it_changes(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(meter, "_FORGET_AFTER", 2)
    one = AgentMeter(folder)
    first = one.look(PRICES.of)
    for _ in range(12):
        assert one.look(PRICES.of) is first
    line = {"type": "step", "source": "agent", "event_id": "new", "metrics": {"completion_tokens": 1000}}
    with (folder / TRANSCRIPT).open("a") as file:
        file.write(json.dumps({**line, "model_name": "claude-opus-5-5"}) + "\n")
    more = one.look(PRICES.of)
    assert more is not None
    assert more.output == 1202


def test_a_transcript_and_sub_agents_are_found_when_they_appear(tmp_path: Path) -> None:
    folder = tmp_path / "agent-1"
    folder.mkdir()
    one = AgentMeter(folder)
    assert one.look(PRICES.of) is None
    copy("common_transcript/sub.jsonl", folder / TRANSCRIPT)
    found = [one.look(PRICES.of) for _ in range(5)][-1]
    assert found is not None
    assert found.output == 57
    copy("session/subagent.jsonl", folder / SUBAGENT)
    found = [one.look(PRICES.of) for _ in range(5)][-1]
    assert found is not None
    assert found.output == 96


def test_all_agents_are_metered_and_none_spoils_it(folder: Path) -> None:
    agents = folder.parent
    (agents / "agent-2").mkdir()
    (agents / "agent-3" / TRANSCRIPT).mkdir(parents=True)
    (agents / "agent-4" / "events" / "claude" / "common_transcript").mkdir(parents=True)
    os.mkfifo(agents / "agent-4" / TRANSCRIPT)
    (agents / "file").touch()
    meters = Meters({"MNGR_HOST_DIR": str(agents.parent)})
    usages = meters.look()
    assert {agent: usage.output for agent, usage in usages.items()} == {"agent-1": 202}
    assert meters.look() is usages
    shutil.rmtree(folder)
    assert meters.look() == {}


def test_a_look_over_its_budget_is_finished_by_the_next_ones(folder: Path) -> None:
    for number in range(2, 6):
        shutil.copytree(folder, folder.parent / f"agent-{number}")
    meters = Meters({"MNGR_HOST_DIR": str(folder.parent.parent)})
    seen = [len(meters.look(budget=0.0)) for _ in range(5)]
    assert seen == [1, 2, 3, 4, 5]


def test_dollars_that_mngr_usage_heard_are_taken_while_they_are_new(folder: Path) -> None:
    copy("usage/common_transcript.jsonl", folder / TRANSCRIPT)
    copy("usage/events.jsonl", folder / REPORTS_FILE)
    assert meter_of(folder) == Usage(80, 48_000, 2_000, 72, 0.02136, Label.METERED, "claude-opus-5-5")
    heard = json.loads((folder / REPORTS_FILE).read_text().splitlines()[-1])
    with (folder / REPORTS_FILE).open("a") as file:
        file.write(json.dumps({**heard, "cost": {"total_cost_usd": 0.05}, "rate_limits": {"five_hour": {}}}) + "\n")
    under_subscription = meter_of(folder)
    assert under_subscription is not None
    assert (under_subscription.usd, under_subscription.label) == (0.05, Label.IMPUTED)
    step = json.loads((folder / TRANSCRIPT).read_text().splitlines()[-1])
    with (folder / TRANSCRIPT).open("a") as file:
        file.write(json.dumps({**step, "timestamp": "2026-11-22T10:08:00Z", "extra": {"message_id": "later"}}) + "\n")
    later = meter_of(folder)
    assert later is not None
    assert later.usd == pytest.approx(0.02136 + 0.00522)


def test_each_process_counts_its_dollars_from_nothing() -> None:
    def line(usd: object, second: int) -> bytes:
        return json.dumps({"cost": {"total_cost_usd": usd}, "timestamp": f"2026-11-22T10:00:{second:02}Z"}).encode()

    lines = [
        line(0, 1),
        line(0.2, 2),
        line(0.3, 3),
        line(0.1, 4),
        b"{",
        line("9", 5),
        line(float("nan"), 6),
        line(-1, 7),
    ]
    reported = with_reports(None, lines)
    assert reported is not None
    assert (reported.before, reported.last, reported.is_subscription) == (0.3, 0.1, False)
    assert with_reports(with_reports(None, lines[:3]), lines[3:]) == reported

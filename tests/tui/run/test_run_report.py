"""The report of a test shows the end of its conversation, as text."""

from __future__ import annotations

from core.run.rehearsals import a_plan
from selftest_core.journal import Entry
from selftest_core.run.events import Event
from selftest_core.run.fold import begin, fold
from selftest_tui.run.lines import state_word
from selftest_tui.run.report import outcome_markdown, test_facts
from selftest_tui.shared.markdown_lines import markdown_content


def test_the_conversation_stands_below_the_outcome_and_is_no_markup() -> None:
    (row,) = begin(a_plan(1)).rows.values()
    said = "[09:06:42Z] agent:\n  **bold** [link](x)\x1b[2J\n  > Bash: pytest -q\n  ```\n# no title\n"
    text = outcome_markdown(row, None, "", said)
    assert "\x1b" not in text
    shown = markdown_content(text, 80).plain
    for line in said.replace("\x1b[2J", "").replace("```", "'''").splitlines():
        assert line.strip() in shown
    assert "conversation" not in outcome_markdown(row, None, "", "\n")


def test_an_answered_test_says_so_until_it_has_ended_again() -> None:
    plan = a_plan(1)
    name = plan.tests[0].agent_name
    lines: list[tuple[Event, dict[str, object]]] = [
        (Event.LAUNCHING, {"attempt": 1}),
        (Event.LAUNCHED, {"attempt": 1, "host_id": "h", "provider": "local"}),
        (Event.ENDED, {"attempt": 1, "end": "blocked", "stage": "blocked", "text": "Up or down?"}),
        (Event.STOPPED, {"attempt": 1}),
        (Event.ANSWERED, {"attempt": 1, "id": "1", "text": "Up\x1b[2J.", "continues": True}),
        (Event.LAUNCHING, {"attempt": 2, "agent_id": plan.tests[0].agent_id, "name": name}),
        (Event.LAUNCHED, {"attempt": 2, "host_id": "h", "provider": "local"}),
        (Event.ENDED, {"attempt": 2, "end": "succeeded", "commits": 1, "tip": "a" * 40}),
    ]
    entries = [Entry(n, float(n), str(event), {"agent": name, **more}) for n, (event, more) in enumerate(lines, 1)]
    seen = {}
    for count in (4, 5, 6, 7, 8):
        run = fold(plan, entries[:count])
        seen[count] = state_word(run.rows[name])
        facts = {fact.label: fact.value for fact in test_facts(run.rows[name], None, run, "", 9.0)}
        assert facts.get("answer", "") == ("Up." if count > 4 else ""), "without its escapes"
    assert [seen[count] for count in (5, 6, 7)] == ["waiting, answered", "launching, answered", "working, answered"]
    assert "answered" not in seen[4] + seen[8]
    assert "its agent goes on" in outcome_markdown(fold(plan, entries[:5]).rows[name], None, "", "")

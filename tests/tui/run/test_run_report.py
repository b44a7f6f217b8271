"""The report of a test shows the end of its conversation, as text."""

from __future__ import annotations

from core.run.rehearsals import a_plan
from selftest_core.run.fold import begin
from selftest_tui.run.report import outcome_markdown
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

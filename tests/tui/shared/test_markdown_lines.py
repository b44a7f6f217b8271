"""Markdown in lines: what a report may have is laid out within the width, and nothing in it leads anywhere."""

from __future__ import annotations

import pytest
from rich.cells import cell_len

from selftest_tui.shared.markdown_lines import markdown_content

REPORT = """\
## A heading

A paragraph with **strong**, *weak* and `code` words that is longer than the line is wide,
and goes on.

- one item that is longer than the line is wide, so that it goes on below itself
  - an inner one
- two

3. three
4. four

> somebody else's words

```python
def f():
    return "a line of code that is longer than the line is wide, and is cut at the edge"
```

[a link](https://example.org/x) and ![a picture](https://example.org/y.png) <b>html</b>
"""


def lines(text: str, width: int = 40) -> list[str]:
    return markdown_content(text, width).plain.split("\n")


@pytest.mark.parametrize("width", [20, 40, 100])
def test_every_line_fits(width: int) -> None:
    assert max(cell_len(line) for line in lines(REPORT, width) if "▎" not in line) <= width


def test_each_part_looks_like_what_it_is() -> None:
    found = lines(REPORT)
    assert found[0] == "A heading"
    assert found[1] == ""
    item = found.index(" • one item that is longer than the line")
    assert found[item + 1].startswith("   is wide"), "an item goes on below its text"
    assert "    ◦ an inner one" in found
    assert " 3. three" in found
    assert "▏ somebody else's words" in found
    assert "▎ def f():" in found
    assert '▎     return "a line of code that is longer than the line is wide, and is cut at the edge"' in found


def test_html_and_links_are_text() -> None:
    text = markdown_content(REPORT, 100)
    assert "[a link](https://example.org/x) and ![a picture](https://example.org/y.png) <b>html</b>" in text.plain
    assert not any("click" in str(span.style) for span in text.spans)


def test_words_keep_their_weight() -> None:
    content = markdown_content("a **strong** `code`", 40)
    styled = {content.plain[span.start : span.end]: str(span.style) for span in content.spans}
    assert styled["strong"] == "bold"
    assert "warning" in styled["code"]


@pytest.mark.parametrize(
    "text", ["", "\n", "> " * 2_000, "- " * 2_000, "*" * 5_000, "[" * 5_000, "`" * 4_999, "1. " * 500, "#" * 9, "\\"]
)
def test_nonsense_is_shown_and_never_an_error(text: str) -> None:
    assert max(map(cell_len, lines(text, 30))) <= 30

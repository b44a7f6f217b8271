"""Texts of agents as HTML: what they mean is kept, and nothing of it can do anything."""

from __future__ import annotations

import pytest

from selftest_recorder.report import markup


@pytest.mark.parametrize(
    "text",
    [
        "<script>alert(1)</script>",
        "<img src=x onerror=alert(1)>",
        "![x](data:image/png;base64,x)",
        "[x](javascript:alert(1))",
        "[x](JaVaScRiPt:alert(1))",
        "[x](data:text/html,<script>alert(1)</script>)",
        "[x](file:///etc/passwd)",
        "[x](../../index.html)",
        "<javascript:alert(1)>",
        "[x]: javascript:alert(1)\n\n[x]",
        '<a href="https://example.org" onclick="alert(1)">x</a>',
        "<iframe srcdoc='<script>alert(1)</script>'></iframe>",
        "\x1b]8;;javascript:alert(1)\x07x\x1b]8;;\x07",
    ],
)
def test_markdown_does_nothing(text: str) -> None:
    html = str(markup.markdown(text))
    tags = [part.split(">")[0] for part in html.split("<")[1:]]
    assert set(tags) <= {"p", "/p", 'a rel="noopener noreferrer"', "/a"}
    assert "\x1b" not in html


def test_markdown_keeps_its_form_and_its_links_to_the_web() -> None:
    html = str(
        markup.markdown("# Why\n\n**bold** and `a < b`\n\n| a |\n|---|\n| b |\n\n[docs](https://example.org/x?a=1&b=2)")
    )
    assert "<p><strong>Why</strong></p>" in html  # no heading: it would become part of the page's outline
    assert "<code>a &lt; b</code>" in html
    assert "<td>b</td>" in html
    assert '<a href="https://example.org/x?a=1&amp;b=2" rel="noopener noreferrer">docs</a>' in html


def test_a_picture_becomes_a_link() -> None:
    html = str(markup.markdown("![x](https://example.org/x.png)"))
    assert html == '<p>!<a href="https://example.org/x.png" rel="noopener noreferrer">x</a></p>\n'


def test_a_text_without_end_is_cut() -> None:
    assert len(markup.markdown("x " * 1_000_000)) < 3 * markup.MOST_MARKDOWN


def test_colours_of_a_terminal_become_classes_and_other_escapes_vanish() -> None:
    html = str(markup.terminal("\x1b[1;31mE  <b>\x1b[0m ok\x1b[2J\x1b]0;title\x07\x1b[38;2;250;10;10mred\x1b[m\nnext"))
    assert html == '<span class="bold fg1">E  &lt;b&gt;</span> ok<span class="fg1">red</span>\nnext'


def test_a_transcript_shows_commands_errors_and_exit_codes() -> None:
    html = str(markup.transcript("# why\n$ ls <x>\n  out\n! err\n? 2\n$HOME\n"))
    assert html.split("\n") == [
        '<span class="line-comment"># why</span>',
        '<span class="line-command">$ ls &lt;x&gt;</span>',
        "  out",
        '<span class="line-error">! err</span>',
        '<span class="line-exit">? 2</span>',
        "$HOME",
        "",
    ]


def test_a_conversation_is_split_at_its_head_lines_alone() -> None:
    text = (
        "[2026-01-01 10:00:00Z] person:\n  Do it\n  agent:\n\n[2026-01-01 10:00:05Z] sub-agent, agent:\n  > Bash: ls\n"
    )
    first, second = markup.conversation(text)
    assert (first.who, first.when, first.text) == ("person", "2026-01-01 10:00:00Z", "Do it\nagent:")
    assert (second.who, second.is_subagent, second.text) == ("agent", True, "> Bash: ls")
    (other,) = markup.conversation("no head\nat all")
    assert (other.who, other.text) == ("", "no head\nat all")

"""HTML of texts that agents wrote: Markdown, terminal colours, source code, transcripts, conversations.

Every text is untrusted. Markdown is rendered without raw HTML and images, and the result goes through a sanitizer too;
everything else is escaped piece by piece. The page has no inline styles, so all colours are classes.
"""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import nh3
from markupsafe import Markup, escape

from selftest_core.conversation.conversation import harmless
from selftest_core.git.source_colours import coloured, language_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from markdown_it import MarkdownIt
    from rich.style import Style

    from selftest_core.git.diffs import FileDiff
    from selftest_core.git.patches import DiffLine

MOST_MARKDOWN = 64 * 1024
"""Characters of one Markdown text that are rendered."""
MOST_COLOURED = 2_000
"""Lines of one file whose source is coloured."""
_TAGS = {
    "p", "br", "em", "strong", "s", "del", "code", "pre", "ul", "ol", "li", "blockquote", "hr", "a", "table", "thead",
    "tbody", "tr", "th", "td",
}  # fmt: skip
_LINKS = ("https://", "http://", "mailto:")


def markdown(text: str) -> Markup:
    """Render an agent's Markdown: no raw HTML, no images, links to the web alone, headings as bold lines."""
    if not text:
        return Markup()
    cut = text if len(text) <= MOST_MARKDOWN else f"{text[:MOST_MARKDOWN]}\n\n(cut here)"
    cleaned = nh3.clean(
        _renderer().render(harmless(cut)),
        tags=_TAGS,
        attributes={"a": {"href"}},
        attribute_filter=_kept_attribute,
        link_rel="noopener noreferrer",
    )
    # The sanitizer's output is the only HTML that is taken as it is.
    return Markup(cleaned)


def _kept_attribute(tag: str, name: str, value: str) -> str | None:
    return value if name != "href" or value.lower().startswith(_LINKS) else None


@lru_cache(maxsize=1)
def _renderer() -> MarkdownIt:
    from markdown_it import MarkdownIt

    made = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"]).disable("image")
    # A heading of an agent must not become part of the outline of the page.
    made.add_render_rule("heading_open", lambda *_: "<p><strong>")
    made.add_render_rule("heading_close", lambda *_: "</strong></p>\n")
    return made


_COLOURS = re.compile(r"(\x1b\[[0-9;]*m)")


def terminal(text: str) -> Markup:
    """Convert the output of a program: its colours become classes, all other escape sequences are removed."""
    if "\x1b" not in text:
        return escape(harmless(text))
    from rich.ansi import AnsiDecoder  # slow to import, and few outputs have colours

    # The decoder knows colours; of other sequences it would leave the text.
    kept = "".join(piece if at % 2 else harmless(piece) for at, piece in enumerate(_COLOURS.split(text)))
    pieces: list[Markup] = []
    for number, line in enumerate(AnsiDecoder().decode(kept)):
        if number:
            pieces.append(Markup("\n"))
        at = 0
        for start, end, style in line.spans:
            pieces.append(escape(line.plain[at:start]))
            inside = escape(line.plain[start:end])
            classes = "" if isinstance(style, str) else _classes(style)
            pieces.append(Markup('<span class="{}">{}</span>').format(classes, inside) if classes else inside)
            at = end
        pieces.append(escape(line.plain[at:]))
    return Markup().join(pieces)


def _classes(style: Style) -> str:
    from rich.color import ColorSystem

    names = [name for name in ("bold", "dim", "italic", "underline", "strike") if getattr(style, name)]
    if style.color is not None and not style.color.is_default:
        names.append(f"fg{style.color.downgrade(ColorSystem.STANDARD).number}")
    if style.bgcolor is not None and not style.bgcolor.is_default:
        names.append(f"bg{style.bgcolor.downgrade(ColorSystem.STANDARD).number}")
    return " ".join(names)


_TRANSCRIPT_CLASSES = {"#": "comment", "$": "command", "!": "error", "?": "exit"}


def transcript(text: str) -> Markup:
    """Mark the lines of a transcript: `# ` comment, `$ ` command, `! ` error output, `? ` exit status, else output."""
    lines: list[Markup | str] = []
    for line in harmless(text).split("\n"):
        name = _TRANSCRIPT_CLASSES.get(line[:1]) if line[1:2] in ("", " ") else None
        lines.append(Markup('<span class="line-{}">{}</span>').format(name, line) if name else escape(line))
    return Markup("\n").join(lines)


_STEP_CLASSES = {">": "call", "|": "result", "!": "error"}


def steps(text: str) -> Markup:
    """Mark the lines of one step: `> ` a tool call, `| ` its result, `! ` its error."""
    lines: list[Markup | str] = []
    for line in harmless(text).split("\n"):
        name = _STEP_CLASSES.get(line[:1]) if line[1:2] in ("", " ") else None
        lines.append(Markup('<span class="line-{}">{}</span>').format(name, line) if name else escape(line))
    return Markup("\n").join(lines)


class Said(NamedTuple):
    """One step of a conversation. `who`: person, agent, result, system or error; "" for text without a head line."""

    who: str
    when: str
    is_subagent: bool
    text: str


_HEAD = re.compile(r"(?:\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ)\] )?(sub-agent, )?(person|agent|system|result|error):")


def conversation(text: str) -> list[Said]:
    """Split what `conversation.readable` wrote into its steps; other text is one step without a head."""
    steps: list[tuple[str, str, bool, list[str]]] = []
    for line in text.split("\n"):
        if head := _HEAD.fullmatch(line):
            steps.append((head[3], head[1] or "", bool(head[2]), []))
        elif steps:
            steps[-1][3].append(line.removeprefix("  "))
        elif line.strip():
            steps.append(("", "", False, [line]))
    return [Said(who, when, sub, "\n".join(lines).strip("\n")) for who, when, sub, lines in steps]


class Row(NamedTuple):
    """One line of a diff. `kind`: added, removed or context."""

    kind: str
    old: int | None
    new: int | None
    code: Markup
    has_newline: bool


class Part(NamedTuple):
    """One hunk of a diff."""

    heading: str
    rows: list[Row]


def parts(file: FileDiff, most: int) -> tuple[list[Part], int]:
    """Convert the hunks of a file, at most this many lines, and count the lines that were left out."""
    found: list[Part] = []
    left, coloured_lines = most, 0
    for hunk in file.hunks:
        lines = hunk.lines[: max(left, 0)]
        left -= len(hunk.lines)
        if not lines:
            continue
        language = language_of(file.path) if coloured_lines < MOST_COLOURED else ""
        coloured_lines += len(lines)
        heading = f"@@ -{hunk.old_start},{hunk.old_count} +{hunk.new_start},{hunk.new_count} @@ {hunk.heading}".rstrip()
        found.append(Part(heading, list(_rows(lines, language))))
    return found, max(-left, 0)


def _rows(lines: Sequence[DiffLine], language: str) -> Iterator[Row]:
    # Each side is coloured by itself: a lexer would stumble over both versions of a line in turn.
    colours: dict[int, Iterable[tuple[int, int, str]]] = {}
    if language:
        for side in ("removed", "added"):
            numbers = [number for number, line in enumerate(lines) if line.kind.value in (side, "context")]
            for number, spans in zip(numbers, coloured(language, [lines[at].text for at in numbers]), strict=True):
                colours[number] = spans
    for number, line in enumerate(lines):
        code = _code(line.text, colours.get(number, ()), line.spans)
        yield Row(line.kind.value, line.old, line.new, code, line.has_newline)


def _code(text: str, colours: Iterable[tuple[int, int, str]], changed: Iterable[tuple[int, int]]) -> Markup:
    """Mark the coloured and the changed parts of a line; they may overlap."""
    classes: dict[tuple[int, int], str] = {(start, end): part for start, end, part in colours}
    marks = tuple(changed)
    if not classes and not marks:
        return escape(text)
    borders = sorted({0, len(text), *(at for span in (*classes, *marks) for at in span if at <= len(text))})
    pieces: list[Markup] = []
    for start, end in pairwise(borders):
        names = [part for (first, last), part in classes.items() if first <= start < last]
        if any(first <= start < last for first, last in marks):
            names.append("word")
        piece = escape(text[start:end])
        pieces.append(Markup('<span class="{}">{}</span>').format(" ".join(names), piece) if names else piece)
    return Markup().join(pieces)

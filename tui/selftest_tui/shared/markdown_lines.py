"""Markdown as lines of styled text. Pure: the same text at the same width is always the same lines.

Textual's own Markdown makes a widget of each paragraph, item and cell: moving through a list of reports would make and
remove hundreds. Here a report is one piece of content. HTML, links and pictures are shown as written. The text must be
harmless already.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from markdown_it import MarkdownIt
from textual.content import Content

if TYPE_CHECKING:
    from collections.abc import Sequence

    from markdown_it.token import Token

MUTED = "$foreground-muted"
CODE = "$text-warning"
_BULLETS = ("•", "◦", "▪")
_LEAST_WIDTH = 8


@lru_cache(maxsize=1)
def _parser() -> MarkdownIt:
    # Links would lead nowhere, and looking for them takes minutes in a text of ten thousand brackets.
    return MarkdownIt("commonmark", {"html": False}).disable(["link", "image", "autolink", "reference"])


@lru_cache(maxsize=64)
def markdown_content(text: str, width: int) -> Content:
    """The text in lines of at most `width` cells; lines of code are as long as they are."""
    writer = _Writer(max(_LEAST_WIDTH, width))
    writer.write(_parser().parse(text))
    return Content("\n").join(writer.lines)


@dataclass
class _List:
    """An open list. `number`: that of its next item, None in a list without numbers."""

    depth: int
    number: int | None
    prefix: str = ""


class _Writer:
    """Writes lines from tokens. `_indents`: prefixes of each line; `_first`: the prefix of the next line alone."""

    def __init__(self, width: int) -> None:
        self.lines: list[Content] = []
        self._width = width
        self._indents: list[str] = []
        self._first: str | None = None
        self._lists: list[_List] = []
        self._is_tight = False

    def write(self, tokens: Sequence[Token]) -> None:
        """Write all blocks."""
        style = ""
        for token in tokens:
            match token.type:
                case "heading_open":
                    style = "bold" if token.tag in ("h1", "h2") else "bold $primary"
                case "heading_close":
                    style = ""
                case "paragraph_open":
                    self._is_tight = token.hidden
                case "inline":
                    self._block(
                        _inline(token.children or []).stylize(style) if style else _inline(token.children or [])
                    )
                case "fence" | "code_block":
                    self._code(token.content)
                case "hr":
                    self._block(Content.styled("─" * min(20, self._width), MUTED))
                case "blockquote_open":
                    self._indents.append("▏ ")
                case "blockquote_close":
                    self._indents.pop()
                case "bullet_list_open":
                    self._lists.append(_List(len(self._lists), None))
                case "ordered_list_open":
                    start = token.attrGet("start")
                    self._lists.append(_List(len(self._lists), start if isinstance(start, int) else 1))
                case "bullet_list_close" | "ordered_list_close":
                    self._lists.pop()
                case "list_item_open":
                    self._begin_item()
                case "list_item_close":
                    self._first = None
                    self._indents.pop()
                case _:
                    pass

    def _begin_item(self) -> None:
        inner = self._lists[-1]
        if inner.number is None:
            sign = _BULLETS[inner.depth % len(_BULLETS)]
        else:
            sign = f"{inner.number}."
            inner.number += 1
        if self.lines and inner.depth == 0 and inner.prefix == "":
            self._blank()
        inner.prefix = f" {sign} "
        self._first = self._prefix() + inner.prefix
        self._indents.append(" " * len(inner.prefix))

    def _prefix(self) -> str:
        return "".join(self._indents)[: self._width // 2]

    def _blank(self) -> None:
        if self.lines and self.lines[-1].plain.strip():
            self.lines.append(Content(""))

    def _block(self, content: Content) -> None:
        if self._first is None and not (self._is_tight and self._lists):
            self._blank()
        self._lines(content)
        self._is_tight = False

    def _code(self, text: str) -> None:
        if self._first is None:
            self._blank()
        for line in text.rstrip("\n").split("\n"):
            prefix, self._first = (self._first or self._prefix()), None
            self.lines.append(Content.assemble((prefix, MUTED), ("▎ ", MUTED), line.expandtabs(4)))
        self.lines.append(Content(""))

    def _lines(self, content: Content) -> None:
        room = max(_LEAST_WIDTH, self._width - len(self._first or self._prefix()))
        for line in content.wrap(room):
            prefix, self._first = (self._first or self._prefix()), None
            self.lines.append(Content.assemble((prefix, "$primary"), line) if prefix else line)


def _inline(tokens: Sequence[Token]) -> Content:
    """The text of a paragraph with its styles."""
    parts: list[tuple[str, str]] = []
    styles: list[str] = []
    for token in tokens:
        style = " ".join(styles)
        match token.type:
            case "text":
                parts.append((token.content, style))
            case "code_inline":
                parts.append((token.content, f"{style} {CODE}".strip()))
            case "softbreak":
                parts.append((" ", ""))
            case "hardbreak":
                parts.append(("\n", ""))
            case "strong_open":
                styles.append("bold")
            case "em_open":
                styles.append("italic")
            case "strong_close" | "em_close":
                styles.pop()
            case _:
                parts.append((token.content, style))
    return Content.assemble(*parts)

"""The key tables of all screens, in the order of help and documents, and the documents that are made of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from selftest_tui.fleet.keys import FLEET
from selftest_tui.replay.keys import REPLAY
from selftest_tui.review.keys import REVIEW
from selftest_tui.run.keys import RUN, START
from selftest_tui.search.keys import SEARCH
from selftest_tui.shared.keys import APP, SPLIT
from selftest_tui.tutorial.keys import TUTORIAL

if TYPE_CHECKING:
    from collections.abc import Iterable

    from selftest_tui.shared.keys import Key

TABLES = (FLEET, RUN, START, REVIEW, REPLAY, TUTORIAL, SEARCH)
MOST_USED = 10
"""Keys of each screen in the README."""


def most_used_keys() -> str:
    """The most used keys of each screen as Markdown, for the README: those of the key line, the most wanted first."""
    lines = ["| screen | keys |", "| --- | --- |"]
    for table in TABLES:
        keys = [f"`{_markdown(key.shows.partition(' ')[0])}` {key.label}" for key in table.line()[0][:MOST_USED]]
        lines.append(f"| {table.screen} | {' · '.join(keys)} |")
    everywhere = [f"`{_markdown(key.shows)}` {key.label}" for key in APP if key.line]
    lines.append(f"| every screen | {' · '.join(everywhere)} |")
    return "\n".join(lines) + "\n"


def all_keys() -> str:
    """Every key of every screen as Markdown, for docs/keys.md; the shared ones once."""
    parts = []
    for table in TABLES:
        parts.append(f"## {table.screen}\n")
        for topic, keys in table.own_by_topic():
            parts.append(f"{_rows(topic, keys)}")
    parts.append("## Screens with a list and a right pane\n\nFleet, run, review, tutorial and search.\n")
    parts.append(_rows("does", [key for key in SPLIT if key not in APP]))
    parts.append("## Every screen\n")
    parts.append(_rows("does", APP))
    return "\n".join(parts)


def _rows(heading: str, keys: Iterable[Key]) -> str:
    lines = [f"| key | {heading} | name in settings |", "| --- | --- | --- |"]
    lines += [f"| `{_markdown(key.shows)}` | {key.help} | {f'`{key.action}`' if key.is_free else ''} |" for key in keys]
    return "\n".join(lines) + "\n"


def _markdown(keys: str) -> str:
    """Escape keys for a Markdown table."""
    return keys.replace("|", "\\|")

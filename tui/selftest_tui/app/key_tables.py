"""All tables of keys, in the order in which help and README tell of them."""

from __future__ import annotations

from selftest_tui.fleet.keys import FLEET
from selftest_tui.replay.keys import REPLAY
from selftest_tui.review.keys import REVIEW
from selftest_tui.run.keys import RUN, START
from selftest_tui.shared.keys import APP
from selftest_tui.tutorial.keys import TUTORIAL

TABLES = (FLEET, RUN, START, REVIEW, REPLAY, TUTORIAL)


def readme_table() -> str:
    """The tables as Markdown, for the README (a test compares). What works everywhere stands once, at the end."""
    lines = ["| key | does |", "| --- | --- |"]
    for table in TABLES:
        for topic, keys in table.by_topic():
            own = [key for key in keys if key not in APP]
            if own:
                lines.append(f"| | **{table.screen}: {topic}** |")
                lines += [f"| `{key.shows}` | {key.help} |" for key in own]
    lines.append("| | **On every screen** |")
    lines += [f"| `{key.shows}` | {key.help} |" for key in APP]
    return "\n".join(lines) + "\n"

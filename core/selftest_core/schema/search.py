"""JSON of `selftest-tui search`."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from selftest_core.schema.model import Line, Shape, Text


class HitItem(Shape):
    """One line with a match."""

    run: Text = Field(description="The id of the run, or of the review without a run.")
    kind: Literal["outcome", "note", "decision", "diff", "transcript", "conversation", "terminal"]
    test: Text | None = Field(description="The test's node id, null where the place belongs to no test.")
    agent: Text | None = Field(description="The planned name of the test's agent.")
    path: Text = Field(description="The file with the match; for what is in no file of its own, the run's folder.")
    seconds: float | None = Field(description="The time in a recording, else null.")
    line: int | None = Field(description="The line of a file from 1, for a diff that of the changed file, else null.")
    commit: Text | None = Field(description="The full id of the commit of a diff, a note or a decision.")
    file: Text | None = Field(description="The path that a diff changes.")
    text: Text = Field(description="The line, or a part of it, without control characters. Written by an agent.")
    matches: list[tuple[int, int]] = Field(description="Begin and end of each match in `text`, in characters.")
    command: Text = Field(description="A command for a shell that opens the place.")


class SearchDocument(Shape):
    """`selftest-tui search --json`."""

    text: Text
    regex: bool
    hits: list[HitItem]
    more: bool = Field(description="There are more hits than --limit allows.")
    runs: int = Field(description="Runs and reviews that have a hit in this list.")
    indexed_bytes: int = Field(description="Bytes that were indexed by this call, since they were new or had changed.")
    indexed_seconds: float = Field(description="Seconds that this took.")


class SearchLine(Line, SearchDocument):
    """`selftest-tui search --batch`."""

    event: Literal["summary"] = "summary"

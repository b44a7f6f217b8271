"""The JSON of `selftest-tui record`, as models. Imported by commands that print JSON."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from selftest_core.schema.registry import Line, Shape, Text


class RecordedItem(Shape):
    """One session that was to be recorded."""

    session: Text
    file: Text = Field(description="Where the recording is, absolute: asciicast v3.")
    bytes: int = Field(description="Its size; 0 where nothing was recorded.")
    says: Text = Field(description="Why it is not whole; empty where it is.")


class RecordDocument(Shape):
    """`selftest-tui record --json`."""

    recordings: list[RecordedItem]


class RecordLine(Line, RecordDocument):
    """`selftest-tui record --batch`."""

    event: Literal["summary"] = "summary"

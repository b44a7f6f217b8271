"""The JSON of `selftest-tui replay --batch`, as a model. Imported by commands that print JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from selftest_core.schema.registry import Line, Shape, Text

if TYPE_CHECKING:
    from collections.abc import Sequence


class MarkerItem(Shape):
    """A named moment of a recording."""

    at: float = Field(description="Seconds of the recording.")
    label: Text


class SkippedItem(Shape):
    """A line of a recording that is not as it should be."""

    line: int = Field(description="From 1.")
    says: Text


class ReplayDocument(Shape):
    """What the recorded terminal showed at a moment."""

    seconds: float = Field(description="The moment, in seconds of the recording; within it whatever was asked.")
    duration: float = Field(description="Seconds up to the last event.")
    columns: int
    lines: list[Text] = Field(description="One for each row of the terminal, trailing blanks cut.")
    markers: list[MarkerItem]
    skipped: list[SkippedItem] = Field(description="What could not be read, or was mended; at most the first thousand.")


class ReplayLine(Line, ReplayDocument):
    """`selftest-tui replay --batch`."""

    event: Literal["summary"] = "summary"


def replay_document(
    *,
    seconds: float,
    duration: float,
    columns: int,
    lines: Sequence[str],
    markers: Sequence[tuple[float, str]],
    skipped: Sequence[tuple[int, str]],
) -> ReplayDocument:
    """The document of one moment."""
    return ReplayDocument(
        seconds=seconds,
        duration=duration,
        columns=columns,
        lines=list(lines),
        markers=[MarkerItem(at=at, label=label) for at, label in markers],
        skipped=[SkippedItem(line=line, says=says) for line, says in skipped],
    )

"""JSON of `selftest-tui record` and `selftest-tui replay`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from selftest_core.schema.model import Line, Shape, Text

if TYPE_CHECKING:
    from collections.abc import Sequence


class RecordedItem(Shape):
    """One recorded session."""

    session: Text
    file: Text = Field(description="The absolute path of the recording: asciicast v3.")
    bytes: int = Field(description="Size of the file; 0 where nothing was recorded.")
    says: Text = Field(description="Why the recording is incomplete; empty where it is complete.")


class RecordDocument(Shape):
    """`selftest-tui record --json`."""

    recordings: list[RecordedItem]


class RecordLine(Line, RecordDocument):
    """`selftest-tui record --batch`."""

    event: Literal["summary"] = "summary"


class MarkerItem(Shape):
    """A named moment of a recording."""

    at: float = Field(description="Seconds of the recording.")
    label: Text


class SkippedItem(Shape):
    """An invalid line of a recording."""

    line: int = Field(description="From 1.")
    says: Text


class ReplayDocument(Shape):
    """The recorded terminal at one moment."""

    seconds: float = Field(description="The moment, in seconds of the recording, limited to its duration.")
    duration: float = Field(description="Seconds until the last event.")
    columns: int
    lines: list[Text] = Field(description="One for each row of the terminal, without trailing blanks.")
    markers: list[MarkerItem]
    skipped: list[SkippedItem] = Field(description="Lines that were skipped or repaired; at most the first thousand.")


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
    """Make the document of one moment."""
    return ReplayDocument(
        seconds=seconds,
        duration=duration,
        columns=columns,
        lines=list(lines),
        markers=[MarkerItem(at=at, label=label) for at, label in markers],
        skipped=[SkippedItem(line=line, says=says) for line, says in skipped],
    )

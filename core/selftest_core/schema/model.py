"""Parts that all JSON documents share: the model base class, field types, the batch line, errors and usage.

pydantic is slow to import, so this package is imported by commands that print JSON and by nothing else in core.

Text of agents is kept as it is (JSON escapes control characters), except for unpaired surrogates, which no other JSON
reader accepts: they become U+FFFD. Times are ISO 8601, UTC, with a Z.
"""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

if TYPE_CHECKING:
    from selftest_core.errors import SelftestError
    from selftest_core.usage.tokens import Usage

EPOCH = "1970-01-01T00:00:00.000Z"
"""The time of a document whose own time cannot be written."""


def safe_text(value: object) -> object:
    """Replace unpaired surrogates in a text; return anything else unchanged."""
    if isinstance(value, str) and not value.isascii():
        return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return value


def instant(at: float | None) -> str | None:
    """Format seconds since the epoch as ISO 8601 with milliseconds and a Z; None for no time or one out of range."""
    if at is None or not math.isfinite(at):
        return None
    try:
        return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    except (OverflowError, ValueError, OSError):
        return None


type Text = Annotated[str, BeforeValidator(safe_text)]
type Instant = Annotated[str, Field(json_schema_extra={"format": "date-time"}, examples=["2026-11-21T09:35:00.000Z"])]


class Shape(BaseModel):
    """Base of all models of printed JSON."""

    model_config = ConfigDict(frozen=True, hide_input_in_errors=True, json_schema_serialization_defaults_required=True)


class UsageItem(Shape):
    """Tokens, in counts that do not overlap, and dollars."""

    input: int = Field(description="Input tokens that were neither read from the cache nor written to it.")
    cached: int = Field(description="Input tokens read from the cache.")
    cache_write: int = Field(description="Input tokens written to the cache.")
    output: int = Field(description="Output tokens.")
    usd: float | None = Field(description="Dollars, null where no price is known.")
    label: Literal["metered", "imputed", "estimated"] = Field(
        description="metered: tokens counted by the agent's program, at known prices; imputed: counted tokens, but a "
        "price is missing or taken from a similar model; estimated: the setting usd_per_agent."
    )
    model: Text | None = Field(description="The model with the most output tokens.")


class Line(Shape):
    """Fields of every line of `--batch`. The last line is the summary, or the error that ended the command."""

    event: str
    at: Instant
    run: Annotated[Text | None, Field(description="The id of the run, null where there is none.")] = None


class ErrorLine(Line):
    """The last line of a command that failed."""

    event: Literal["error"] = "error"
    title: Text
    detail: Text
    hint: Text
    exit_status: int


def usage_item(usage: Usage | None) -> UsageItem | None:
    """Convert a usage; None where nothing was metered or estimated."""
    if usage is None:
        return None
    return UsageItem(
        input=usage.input,
        cached=usage.cached,
        cache_write=usage.cache_write,
        output=usage.output,
        usd=usage.usd,
        label=usage.label.value,
        model=usage.model or None,
    )


def error_line(error: SelftestError, at: float) -> ErrorLine:
    """Make the last line of a command that failed at `at` (seconds since the epoch)."""
    return ErrorLine(
        at=instant(at) or EPOCH,
        title=error.title,
        detail=error.detail,
        hint=error.hint,
        exit_status=error.exit_status,
    )

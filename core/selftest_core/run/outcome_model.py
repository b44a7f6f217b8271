"""The outcome file as models: what reads an agent's answer is what its prompt prints as the schema.

The keys are those of the pipeline that this one follows, so that its runs can be read, and `importance` is ours. Words
that may grow (kinds, statuses, levels) are plain text here, and only the printed schema lists those that are known.
pydantic is slow to import: `selftest_core.run.outcome` imports this when there is something to read.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from selftest_core.run.outcome import ChangeKind, ChangeStatus, EscalationKind

_REASONS = {
    "missing": "is missing",
    "bool_type": "is neither true nor false",
    "string_type": "is no text",
    "list_type": "is no list",
    "dict_type": "is no object",
    "model_type": "is no object",
}


def _text(value: object) -> object:
    return "" if value is None else value


def _list(value: object) -> object:
    return [] if value is None else value


def _line(value: object) -> object:
    """Agents write lines as text too; a line that is none is no reason to lose a report."""
    if isinstance(value, str) and value.isdecimal() and len(value) < 10:
        value = int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value < 10**9 else None


def _none_is_empty(value: object) -> object:
    return {} if value is None else value


def _place(value: object) -> object:
    return {"path": value} if isinstance(value, str) else value


def _known(words: type[ChangeKind | ChangeStatus | EscalationKind]) -> dict[str, Any]:
    return {"enum": [word.value for word in words]}


Markdown = Annotated[str, BeforeValidator(_text)]
"""No `type` alias: the printed schema is read by agents, and is easier to read without references to a bare text."""


class _Shape(BaseModel):
    # Docstrings here are for the reader of the schema.
    model_config = ConfigDict(frozen=True, extra="allow", hide_input_in_errors=True)


class ChangeShape(_Shape):
    """One change, made or tried: FAILED where it did not work, BLOCKED where a person must decide first."""

    status: str = Field(json_schema_extra=_known(ChangeStatus))
    summary_markdown: Markdown = Field("", description="What was wrong, what you changed, why that is right.")


class TestRunShape(_Shape):
    """One run of the test."""

    __test__ = False

    run_name: Markdown = Field("", description="Such as `before` and `after`.")
    description_markdown: Markdown = ""


class LocationShape(_Shape):
    """A place in the repository."""

    path: str
    line: Annotated[int | None, BeforeValidator(_line)] = None


class EscalationShape(_Shape):
    """Something that a person should know or decide, beyond your own test."""

    kind: str = Field(json_schema_extra=_known(EscalationKind))
    title: Markdown = Field("", description="One line.")
    detail_markdown: Markdown = ""
    description_markdown: Markdown = Field("", json_schema_extra={"deprecated": True})
    locations: Annotated[list[Annotated[LocationShape, BeforeValidator(_place)]], BeforeValidator(_list)] = []


class ImportanceShape(_Shape):
    """How much your change matters to those who use the program."""

    level: str = Field(json_schema_extra={"enum": ["critical", "high", "normal", "low"]})
    reason: Markdown = ""


class OutcomeShape(_Shape):
    """What came of one test."""

    errored: bool = Field(description="True where you could not do your work at all.")
    tests_passing_before: bool | None = Field(None, description="Null where you did not run it.")
    tests_passing_after: bool | None = Field(None, description="As you saw it run after your last change.")
    summary_markdown: Markdown = Field("", description="What a reviewer reads first.")
    changes: Annotated[dict[str, ChangeShape], BeforeValidator(_none_is_empty)] = Field(
        default_factory=dict,
        description="By kind, one commit each. Empty where nothing needed to change.",
        json_schema_extra={"propertyNames": _known(ChangeKind)},
    )
    test_runs: Annotated[list[TestRunShape], BeforeValidator(_list)] = []
    escalations: Annotated[list[EscalationShape], BeforeValidator(_list)] = []
    importance: ImportanceShape | None = None


def complaint(error: ValueError) -> str:
    """Why a document is no outcome, in words, at most three reasons of it."""
    if not isinstance(error, ValidationError):
        return str(error)[:300]
    found = error.errors(include_url=False, include_context=False, include_input=False)
    said = [f"{_where(one['loc'])} {_REASONS.get(one['type'], 'is not as it should be')}" for one in found[:3]]
    more = f", and {len(found) - 3} more" if len(found) > 3 else ""
    return "; ".join(said) + more


def _where(place: tuple[int | str, ...]) -> str:
    return ".".join(repr(part)[1:-1][:60] if isinstance(part, str) else str(part) for part in place) or "it"

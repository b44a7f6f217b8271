"""The outcome file as pydantic models: they read it, and the prompt prints their schema.

The keys are those of the pipeline before this one, so that its runs can be read; `importance` is new. Words that may
grow (kinds, statuses, levels) are plain text here; only the printed schema lists the known ones. pydantic is slow to
import, so `outcome_file` imports this module when it reads the first file.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from selftest_core.run.outcome.outcome import ChangeKind, ChangeStatus, EscalationKind

_REASONS = {
    "missing": "is missing",
    "bool_type": "is neither true nor false",
    "string_type": "is not a text",
    "list_type": "is not a list",
    "dict_type": "is not an object",
    "model_type": "is not an object",
}


def _text(value: object) -> object:
    return "" if value is None else value


def _list(value: object) -> object:
    return [] if value is None else value


def _line(value: object) -> object:
    """Accept lines as text too, and treat an invalid line as missing: it is no reason to lose a report."""
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
"""No `type` alias: it would become a reference in the schema, which agents read."""


class _Shape(BaseModel):
    # Docstrings of models are printed in the schema, for agents.
    model_config = ConfigDict(frozen=True, extra="allow", hide_input_in_errors=True)


class ChangeShape(_Shape):
    """One change, made or tried: FAILED if it did not work, BLOCKED if a person must decide first."""

    status: str = Field(json_schema_extra=_known(ChangeStatus))
    summary_markdown: Markdown = Field("", description="What was wrong, what you changed, and why that is right.")


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
    """Something beyond your own test that a person should know or decide."""

    kind: str = Field(json_schema_extra=_known(EscalationKind))
    title: Markdown = Field("", description="One line.")
    detail_markdown: Markdown = ""
    description_markdown: Markdown = Field("", json_schema_extra={"deprecated": True})
    locations: Annotated[list[Annotated[LocationShape, BeforeValidator(_place)]], BeforeValidator(_list)] = []


class ImportanceShape(_Shape):
    """Importance of your change to users of the program."""

    level: str = Field(json_schema_extra={"enum": ["critical", "high", "normal", "low"]})
    reason: Markdown = ""


class OutcomeShape(_Shape):
    """The result of one test."""

    errored: bool = Field(description="True if you could not do your work at all.")
    tests_passing_before: bool | None = Field(None, description="Null if you did not run it.")
    tests_passing_after: bool | None = Field(None, description="The result of your last run, after your last change.")
    summary_markdown: Markdown = Field("", description="The first thing that a reviewer reads.")
    changes: Annotated[dict[str, ChangeShape], BeforeValidator(_none_is_empty)] = Field(
        default_factory=dict,
        description="By kind, one commit each. Empty if nothing needed to change.",
        json_schema_extra={"propertyNames": _known(ChangeKind)},
    )
    test_runs: Annotated[list[TestRunShape], BeforeValidator(_list)] = []
    escalations: Annotated[list[EscalationShape], BeforeValidator(_list)] = []
    importance: ImportanceShape | None = None


def complaint(error: ValueError) -> str:
    """Tell why a document is not an outcome: at most three reasons."""
    if not isinstance(error, ValidationError):
        return str(error)[:300]
    found = error.errors(include_url=False, include_context=False, include_input=False)
    said = [f"{_where(one['loc'])} {_REASONS.get(one['type'], 'is invalid')}" for one in found[:3]]
    more = f", and {len(found) - 3} more" if len(found) > 3 else ""
    return "; ".join(said) + more


def _where(place: tuple[int | str, ...]) -> str:
    return ".".join(repr(part)[1:-1][:60] if isinstance(part, str) else str(part) for part in place) or "it"

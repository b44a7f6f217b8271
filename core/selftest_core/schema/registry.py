"""All JSON documents that selftest-tui prints, by command, and their JSON Schema.

Scripts rely on them: fields may be added, none is removed and none changes its meaning.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic.json_schema import models_json_schema

from selftest_core.run.outcome.outcome_file import outcome_schema
from selftest_core.schema.check import CheckDocument, CheckLine
from selftest_core.schema.comparison import ComparisonDocument, ComparisonLine
from selftest_core.schema.draft import DraftLine
from selftest_core.schema.fleet import ListDocument, ListLine
from selftest_core.schema.maintenance import (
    CompletionLine,
    DoctorDocument,
    DoctorLine,
    KeyGuardDocument,
    KeyGuardLine,
    SweepDocument,
    SweepLine,
)
from selftest_core.schema.model import ErrorLine, Line
from selftest_core.schema.recording import RecordDocument, RecordLine, ReplayLine
from selftest_core.schema.report import ReportAnswer, ReportDocument, ReportLine
from selftest_core.schema.review import ReviewLine
from selftest_core.schema.run import RunLine, RunsDocument, RunsLine, RunSummary
from selftest_core.schema.run_detail import RunDetailDocument, RunDetailLine
from selftest_core.schema.run_plan import OfferDocument, OfferLine
from selftest_core.schema.search import SearchDocument, SearchLine
from selftest_core.schema.sync import SyncDocument, SyncLine

if TYPE_CHECKING:
    from selftest_core.schema.model import Shape

DOCUMENTS: dict[str, type[Shape]] = {
    "list --json": ListDocument,
    "list --batch": ListLine,
    "doctor --json": DoctorDocument,
    "doctor --batch": DoctorLine,
    "--batch, a line": Line,
    "--batch, an error": ErrorLine,
    "check --json": CheckDocument,
    "check --batch": CheckLine,
    "draft --batch --run": DraftLine,
    "record --json": RecordDocument,
    "record --batch": RecordLine,
    "replay --batch": ReplayLine,
    "report --json": ReportAnswer,
    "report --batch": ReportLine,
    "report/run.json": ReportDocument,
    "review --batch": ReviewLine,
    "run --dry-run --json": OfferDocument,
    "run --dry-run --batch": OfferLine,
    "run --batch, a line of the journal": RunLine,
    "run --batch, the summary": RunSummary,
    "runs --json": RunsDocument,
    "runs --batch": RunsLine,
    "runs --compare --json": ComparisonDocument,
    "runs --compare --batch": ComparisonLine,
    "runs PATH --json": RunDetailDocument,
    "runs PATH --batch": RunDetailLine,
    "key-guard --json": KeyGuardDocument,
    "key-guard --batch": KeyGuardLine,
    "completion SHELL --batch": CompletionLine,
    "search --json": SearchDocument,
    "search --batch": SearchLine,
    "sync --dry-run --json": SyncDocument,
    "sync --dry-run --batch": SyncLine,
    "sweep --json": SweepDocument,
    "sweep --batch": SweepLine,
}
"""The model of each document, by the command that prints it."""


def schema() -> dict[str, Any]:
    """Make the JSON Schema (2020-12) of every document and line. `documents` maps commands to their documents.

    It includes `outcome.json`, the file that an agent writes.
    """
    references, definitions = models_json_schema(
        [(model, "serialization") for model in dict.fromkeys(DOCUMENTS.values())],
        ref_template="#/$defs/{model}",
    )
    by_model = {model: reference for (model, _), reference in references.items()}
    outcome = outcome_schema()
    within = outcome.pop("$defs", {})
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "selftest-tui",
        "description": "JSON that selftest-tui prints. Fields may be added, none is removed.",
        "documents": {
            **{name: by_model[model] for name, model in DOCUMENTS.items()},
            "outcome.json": {"$ref": "#/$defs/OutcomeShape"},
        },
        "anyOf": [by_model[model] for model in dict.fromkeys(DOCUMENTS.values())],
        "$defs": {**definitions["$defs"], **within, "OutcomeShape": outcome},
    }

"""What an agent reports of its test: read from a file that an agent wrote, so anything may stand in it.

Strict where something is decided by it, lenient where the field grows. A report is no report without `errored`, and a
`tests_passing_after` that is neither true, false nor null cannot be judged. A kind, a status or a field that we do not
know is kept and shown as it is: a whole report must not become unreadable, and its row stay open, over a new word.

An outcome is the agent's word and nothing more: `verdict` says what it claims, and whether that holds is verified
elsewhere. The models behind this are in `selftest_core.run.outcome_model`, imported at the first outcome only.
"""

from __future__ import annotations

import json
import math
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, NoReturn

from selftest_core.errors import SelftestError
from selftest_core.frozen import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping

LARGEST = 4 * 1024 * 1024
"""Bytes of an outcome file. Theirs have some kilobytes; recordings and logs belong beside it."""

_DEEPEST = 50
"""Objects and lists inside each other; the shape itself has four."""

type Verdict = Literal["succeeded", "unchanged", "blocked", "red"]


class ChangeKind(StrEnum):
    """The kinds of change that are known. FIX_IMPL alone is an implementation fix."""

    IMPROVE_TEST = "IMPROVE_TEST"
    FIX_TEST = "FIX_TEST"
    FIX_IMPL = "FIX_IMPL"
    FIX_TUTORIAL = "FIX_TUTORIAL"
    CREATE_TEST = "CREATE_TEST"


class ChangeStatus(StrEnum):
    """How a change ended."""

    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    BLOCKED = "BLOCKED"


class EscalationKind(StrEnum):
    """What an agent may lay before a person."""

    BLOCKER = "BLOCKER"
    SHARED_PATTERN = "SHARED_PATTERN"
    UNCAUGHT_BUG = "UNCAUGHT_BUG"
    FIX_DIRECTION_AMBIGUOUS = "FIX_DIRECTION_AMBIGUOUS"
    HARNESS_DEFECT = "HARNESS_DEFECT"
    SUITE_DUPLICATION = "SUITE_DUPLICATION"


class UnreadableOutcomeError(SelftestError):
    """An outcome file that cannot be taken for one; `detail` says why in words."""


@dataclass(frozen=True, slots=True)
class Change:
    """One change that the agent says it made or tried. `kind` and `status` as it wrote them, known or not."""

    kind: str
    status: str
    summary: str


@dataclass(frozen=True, slots=True)
class TestRun:
    """One run of the test that the agent recorded."""

    __test__ = False  # no test of ours, whatever a collector thinks of its name

    name: str
    description: str


@dataclass(frozen=True, slots=True)
class Location:
    """A place in the repository, as the agent named it: it may not exist. `line` is 1-based."""

    path: str
    line: int | None


@dataclass(frozen=True, slots=True)
class Escalation:
    """Something that the agent lays before a person."""

    kind: str
    title: str
    detail: str
    locations: tuple[Location, ...]


@dataclass(frozen=True, slots=True)
class Importance:
    """How much the agent thinks its change matters. `level`: critical, high, normal, low, or a word we do not know."""

    level: str
    reason: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """One report. Texts are Markdown of an agent: hostile until shown safely. `more`: fields that we do not know."""

    errored: bool
    tests_passing_before: bool | None
    tests_passing_after: bool | None
    summary: str
    changes: tuple[Change, ...]
    test_runs: tuple[TestRun, ...]
    escalations: tuple[Escalation, ...]
    importance: Importance | None
    more: Mapping[str, Any]


def parse_outcome(data: bytes) -> Outcome:
    """Read the bytes of an outcome.json. Raises UnreadableOutcomeError with the reason in words."""
    if len(data) > LARGEST:
        _refuse(f"it has {len(data):,} bytes, and {LARGEST:,} are read at most")
    if not data.strip():
        _refuse("it is empty")
    from selftest_core.run.outcome_model import OutcomeShape, complaint  # pydantic costs a tenth of a second

    try:
        document = _load(data)
        if not isinstance(document, dict):
            _refuse("it is no JSON object")
        shape = OutcomeShape.model_validate(document, strict=True)
    except UnicodeDecodeError as error:
        _refuse(f"it is not UTF-8: {error.reason} at byte {error.start:,}")
    except json.JSONDecodeError as error:
        _refuse(f"it is no JSON: {error.msg} in line {error.lineno}, column {error.colno}")
    except RecursionError:
        _refuse("its objects and lists are nested too deep")
    except ValueError as error:
        _refuse(complaint(error))
    return Outcome(
        errored=shape.errored,
        tests_passing_before=shape.tests_passing_before,
        tests_passing_after=shape.tests_passing_after,
        summary=shape.summary_markdown,
        changes=tuple(Change(kind, change.status, change.summary_markdown) for kind, change in shape.changes.items()),
        test_runs=tuple(TestRun(one.run_name, one.description_markdown) for one in shape.test_runs),
        escalations=tuple(
            Escalation(
                one.kind,
                one.title,
                one.detail_markdown or one.description_markdown,
                tuple(Location(place.path, place.line) for place in one.locations),
            )
            for one in shape.escalations
        ),
        importance=None if shape.importance is None else Importance(shape.importance.level, shape.importance.reason),
        more=MappingProxyType(dict(shape.model_extra or {})),
    )


def verdict(outcome: Outcome, has_commits: bool) -> Verdict:
    """What an outcome claims. `has_commits`: whether the agent's branch has commits that its base does not have.

    Blocked comes before red: an agent that is blocked leaves its test red, as the prompt tells it to.
    """
    statuses = {change.status.strip().upper() for change in outcome.changes}
    if ChangeStatus.BLOCKED in statuses or any(_is_block(escalation) for escalation in outcome.escalations):
        return "blocked"
    if outcome.errored or outcome.tests_passing_after is False or ChangeStatus.FAILED in statuses:
        return "red"
    return "succeeded" if outcome.changes or has_commits else "unchanged"


def evidence(outcome: Outcome, end: Verdict | str) -> str:
    """What a report says of why its test is blocked or red: what many such reports have in common, if anything is."""
    if end == "blocked":
        told = [one.title or one.detail for one in outcome.escalations if _is_block(one)]
        told += [one.summary for one in outcome.changes if _is(one.status, ChangeStatus.BLOCKED)]
    elif end == "red":
        told = [one.summary for one in outcome.changes if _is(one.status, ChangeStatus.FAILED)]
    else:
        told = []
    return next((text for text in told if text.strip()), outcome.summary)


def _is_block(escalation: Escalation) -> bool:
    """True where the agent says that it cannot go on without a person."""
    blocks = (EscalationKind.BLOCKER, EscalationKind.FIX_DIRECTION_AMBIGUOUS)
    return any(_is(escalation.kind, kind) for kind in blocks)


def _is(word: str, known: StrEnum) -> bool:
    return word.strip().upper() == known


def outcome_schema() -> dict[str, Any]:
    """The JSON Schema of an outcome file, printed from the model that reads it: for the prompt and the docs."""
    from selftest_core.run.outcome_model import OutcomeShape

    schema: dict[str, Any] = _without_titles(OutcomeShape.model_json_schema())
    return schema


def _without_titles(part: Any) -> Any:
    """pydantic gives every field its own name as a title, which tells a reader nothing. A field may be called so."""
    if isinstance(part, dict):
        return {
            name: _without_titles(value) for name, value in part.items() if name != "title" or isinstance(value, dict)
        }
    return [_without_titles(one) for one in part] if isinstance(part, list) else part


def _refuse(reason: str) -> NoReturn:
    hint = "Open the agent to see what it did; retry the test for a new outcome."
    raise UnreadableOutcomeError("The agent's outcome cannot be read", reason, hint) from None


def _load(data: bytes) -> object:
    """The JSON, without what JSON does not have: NaN, infinities, halves of characters, a key that is there twice."""
    text = data.decode("utf-8-sig")
    document = json.loads(
        text, object_pairs_hook=_object, parse_constant=_no_number, parse_float=_finite, parse_int=_whole
    )
    return _clean(document, 0)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"{twice!r:.80} is there twice in one object")
    return made


def _no_number(word: str) -> NoReturn:
    raise ValueError(f"{word} is no number in JSON")


def _finite(word: str) -> float:
    number = float(word)
    if not math.isfinite(number):
        raise ValueError(f"{word:.40} is too large a number")
    return number


def _whole(word: str) -> int:
    if len(word) > 30:
        raise ValueError(f"{word:.40} is too large a number")
    return int(word)


def _clean(value: Any, depth: int) -> Any:
    """Halves of surrogate pairs become U+FFFD: nothing can store or show them."""
    if depth > _DEEPEST:
        raise RecursionError
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    if isinstance(value, list):
        return [_clean(one, depth + 1) for one in value]
    if isinstance(value, dict):
        return {_clean(key, depth): _clean(one, depth + 1) for key, one in value.items()}
    return value

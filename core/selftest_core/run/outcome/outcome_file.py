"""Read an agent's `outcome.json`, which may contain anything.

Strict where a decision depends on it, lenient elsewhere: `errored` is required, and `tests_passing_after` must be true,
false or null. Unknown kinds, statuses and fields are kept and shown: a new word makes no report unreadable.
"""

from __future__ import annotations

import json
import math
from types import MappingProxyType
from typing import Any, NoReturn

from selftest_core.errors import SelftestError
from selftest_core.run.outcome.outcome import Change, Escalation, Importance, Location, Outcome, TestRun

LARGEST = 4 * 1024 * 1024
"""Bytes of an outcome file. Real ones have some kilobytes; recordings and logs belong beside it."""
_DEEPEST = 50
"""Levels of nested objects and lists; the model has four."""


class UnreadableOutcomeError(SelftestError):
    """An outcome file that cannot be read; `detail` is the reason."""


def parse_outcome(data: bytes) -> Outcome:
    """Read the bytes of an outcome.json. Raises UnreadableOutcomeError with the reason."""
    if len(data) > LARGEST:
        _refuse(f"it has {len(data):,} bytes, and {LARGEST:,} are read at most")
    if not data.strip():
        _refuse("it is empty")
    from selftest_core.run.outcome.outcome_model import OutcomeShape, complaint  # importing pydantic takes 0.1 s

    try:
        document = _load(data)
        if not isinstance(document, dict):
            _refuse("it is not a JSON object")
        shape = OutcomeShape.model_validate(document, strict=True)
    except UnicodeDecodeError as error:
        _refuse(f"it is not UTF-8: {error.reason} at byte {error.start:,}")
    except json.JSONDecodeError as error:
        _refuse(f"it is not JSON: {error.msg} in line {error.lineno}, column {error.colno}")
    except RecursionError:
        _refuse("its objects and lists are nested too deeply")
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


def outcome_schema() -> dict[str, Any]:
    """Make the JSON Schema of an outcome file, from the model that reads it: for the prompt and the docs."""
    from selftest_core.run.outcome.outcome_model import OutcomeShape

    schema: dict[str, Any] = _without_titles(OutcomeShape.model_json_schema())
    return schema


def _without_titles(part: Any) -> Any:
    """Remove the titles that pydantic adds, which repeat the field's name. A field may itself be named "title"."""
    if isinstance(part, dict):
        return {
            name: _without_titles(value) for name, value in part.items() if name != "title" or isinstance(value, dict)
        }
    return [_without_titles(one) for one in part] if isinstance(part, list) else part


def _refuse(reason: str) -> NoReturn:
    hint = "Open the agent to see what it did; retry the test for a new outcome."
    raise UnreadableOutcomeError("The agent's outcome cannot be read", reason, hint) from None


def _load(data: bytes) -> object:
    """Parse strict JSON: refuse NaN, infinities and duplicate keys; replace unpaired surrogates."""
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
        raise ValueError(f"{twice!r:.80} occurs twice in one object")
    return made


def _no_number(word: str) -> NoReturn:
    raise ValueError(f"{word} is not a number in JSON")


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
    """Replace unpaired surrogates with U+FFFD: they cannot be stored or shown."""
    if depth > _DEEPEST:
        raise RecursionError
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    if isinstance(value, list):
        return [_clean(one, depth + 1) for one in value]
    if isinstance(value, dict):
        return {_clean(key, depth): _clean(one, depth + 1) for key, one in value.items()}
    return value

"""Lines of asciicast v2 and v3, read leniently: what can be understood of a damaged line, and what is said about it.

A recording is often cut off, hand-edited, or made by programs that know the format from hearsay. The quick way for
whole lines is in `cast`; here is what happens to all others. Nothing here raises for what a file holds.
"""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any, NamedTuple

from selftest_recorder.cast.events import (  # fmt: skip
    CODES,
    EXIT,
    MAX_TIME,
    RESIZE,
    USUAL_COLS,
    USUAL_ROWS,
    Header,
    RecordingError,
    possible_size,
    size_of,
)
from selftest_recorder.onhost.writing import whole_text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path


class Understood(NamedTuple):
    """What a line says. `time` as it stands there (v2: absolute, v3: relative), None where it is none.

    `code` "" is a line without an event to show. `says`: what was wrong with it, or "".
    """

    time: float | None
    code: str
    data: str
    says: str


def understand(line: bytes) -> Understood:
    """What can be made of one line that is not as it should be. It is not blank and no comment."""
    says = ""
    try:
        text = line.decode()
    except UnicodeDecodeError:
        text, says = line.decode("utf-8", "replace"), "bytes that are not UTF-8 were replaced"
    try:
        value = json.loads(text.lstrip("\ufeff"), strict=False)
    except (ValueError, RecursionError):
        return Understood(None, "", "", "this is no event; skipped")
    if not isinstance(value, list):
        return Understood(None, "", "", "this is no event; skipped")
    return understand_value(value, says)


def understand_value(value: list[Any], says: str = "") -> Understood:
    """The same for the list that a line, or an element of v1, holds."""
    time, wrong = _time_of(value[0] if value else None)
    says = says or wrong
    if len(value) < 3:
        return Understood(time, "", "", f"an event has a time, a code and data, this has {len(value)} of them; skipped")
    code, data = value[1], value[2]
    if len(value) > 3:
        says = says or "more than a time, a code and data; the rest was left out"
    if code == EXIT and isinstance(data, int) and not isinstance(data, bool):
        data = str(data)
    if not isinstance(code, str):
        return Understood(time, "", "", "the code of this event is no text; skipped")
    if code not in CODES:
        return Understood(time, "", "", "")  # a later version may have more: no damage
    if not isinstance(data, str):
        return Understood(time, "", "", "the data of this event are no text; skipped")
    return sized(Understood(time, code, whole_text(data), says))


def sized(understood: Understood) -> Understood:
    """The same, with a resize's data made a size that can be."""
    if understood.code != RESIZE:
        return understood
    size = size_of(understood.data)
    if size is None:
        return Understood(understood.time, "", "", "a resize to what is no size; skipped")
    possible = possible_size(*size)
    wrong = "" if possible == size else f"a resize to {understood.data.strip()}; taken as {possible[0]}x{possible[1]}"
    return understood._replace(data=f"{possible[0]}x{possible[1]}", says=understood.says or wrong)


def _time_of(value: object) -> tuple[float | None, str]:
    """Seconds, and what is wrong. A text that is a number is taken for it."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None, "the time of this event is none; taken as that of the one before"
    try:
        seconds = float(value)
    except (ValueError, OverflowError):
        seconds = math.nan
    if not math.isfinite(seconds) or abs(seconds) > MAX_TIME:
        return None, "the time of this event cannot be; taken as that of the one before"
    return seconds, "the time of this event is a text" if isinstance(value, str) else ""


def read_header(line: bytes) -> Mapping[str, Any] | None:
    """The object in a first line, or None where it holds none."""
    try:
        value = json.loads(line.decode("utf-8-sig", "replace"), strict=False)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def version_of(fields: Mapping[str, Any], path: Path) -> int:
    """1, 2 or 3. Raises RecordingError for all else."""
    version = fields.get("version")
    if isinstance(version, str) and version.isascii() and version.isdigit() and len(version) < 9:
        version = int(version)
    if isinstance(version, bool) or not isinstance(version, int | float):
        raise RecordingError(f"{path.name} is no recording", "Its first line names no version of asciicast.")
    if version not in (1, 2, 3):
        raise RecordingError(f"{path.name} is asciicast of version {version:g}", "Versions 1, 2 and 3 are read.")
    return int(version)


def header_of(fields: Mapping[str, Any], version: int, complain: Callable[[str], None]) -> Header:
    """The header in the object of a first line; what cannot be is told to `complain` and replaced."""
    term = fields.get("term") if version == 3 else None
    names = term if isinstance(term, dict) else fields
    cols_name, rows_name = ("cols", "rows") if version == 3 else ("width", "height")
    cols, rows = names.get(cols_name), names.get(rows_name)
    given = (_whole(cols), _whole(rows))
    size = (given[0] or USUAL_COLS, given[1] or USUAL_ROWS)
    possible = possible_size(*size)
    if 0 in given or possible != size:
        complain(f"the size {_shown(cols)}x{_shown(rows)} cannot be; taken as {possible[0]}x{possible[1]}")
    env = fields.get("env")
    return Header(
        version,
        *possible,
        timestamp=_number(fields.get("timestamp")),
        title=_text(fields.get("title")),
        env={
            whole_text(name): whole_text(value)
            for name, value in (env.items() if isinstance(env, dict) else ())
            if isinstance(value, str)
        },
        idle_time_limit=_number(fields.get("idle_time_limit")),
        command=_text(fields.get("command")),
        term_type=_text(names.get("type")) if version == 3 else None,
    )


def _whole(value: object) -> int:
    """A positive number, or 0 for all else."""
    number = _number(value)
    return int(number) if number is not None and number >= 1 else 0


def _number(value: object) -> float | None:
    """A number that is not negative, or None."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) and 0 <= number < 1e12 else None


def _text(value: object) -> str | None:
    return whole_text(value) if isinstance(value, str) and value else None


def _shown(value: object) -> str:
    return str(value)[:12] if isinstance(value, int | float | str) else "?"

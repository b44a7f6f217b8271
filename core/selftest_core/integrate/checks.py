"""Checks of a resolved file without running anything: no markers, it parses, neither side was simply deleted. Pure.

Each returns the reason why the resolution is refused, empty where it is not.
"""

from __future__ import annotations

import ast
import importlib
import json
import re
import tomllib
import warnings
from collections import Counter
from typing import TYPE_CHECKING

from selftest_core.git.patches import shown

if TYPE_CHECKING:
    from collections.abc import Callable

    from selftest_core.review.conflict_files import ConflictFile

_MARKER = re.compile(rb"(?m)^(?:<{7,}|>{7,}|\|{7,})(?: .*)?$|^={7,}$")
_WORD, _SIGNS = re.compile(r"\w+"), re.compile(r"[^\w\s]+")


def refusal_reason(file: ConflictFile, content: bytes | None, *, is_one_side_meant: bool) -> str:
    """The reason why this content is no resolution of a file; None deletes it.

    `is_one_side_meant`: the agent says that it drops a side on purpose.
    """
    name = shown(file.path)
    if content is not None:
        said = marker_left(file, content) or parse_error(file, content)
        if said:
            return f"{name} {said}"
    if is_one_side_meant:
        return ""
    lost = lost_side(file, content)
    return f"{name} {lost}" if lost else ""


def marker_left(file: ConflictFile, content: bytes) -> str:
    """Find a conflict marker that no side has."""
    known = {line for side in (file.base, file.ours, file.theirs) for line in (side or b"").splitlines()}
    for found in _MARKER.finditer(content):
        line = found[0].rstrip(b"\r")
        if line not in known:
            return f"still has a conflict marker: {shown(line.decode('utf-8', 'replace'))[:40]}"
    return ""


def parse_error(file: ConflictFile, content: bytes) -> str:
    """Say why a file does not parse, where both sides do."""
    suffix = file.path.rpartition(".")[2].lower()
    parse = _PARSERS.get(suffix)
    if parse is None:
        return ""
    if any(side is not None and parse(side) for side in (file.ours, file.theirs)):
        return ""  # it is no such file, or of another version of the language
    why = parse(content)
    return f"does not parse: {why}" if why else ""


def _python(content: bytes) -> str:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(content)
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None)
        text = error.msg if isinstance(error, SyntaxError) else str(error)
        return f"line {line}: {text}" if line else text
    except (RecursionError, MemoryError):
        return "it is nested too deeply"
    return ""


def _json(content: bytes) -> str:
    try:
        json.loads(content)
    except json.JSONDecodeError as error:
        return f"line {error.lineno}: {error.msg}"
    except (ValueError, RecursionError) as error:
        return str(error) or "it is nested too deeply"
    return ""


def _toml(content: bytes) -> str:
    try:
        tomllib.loads(content.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        return str(error) or "it is nested too deeply"
    return ""


def _yaml(content: bytes) -> str:
    """Parse YAML where a parser is installed; it is no dependency of ours."""
    try:
        yaml = importlib.import_module("yaml")
    except ImportError:
        return ""
    try:
        for _ in yaml.parse(content.decode("utf-8"), Loader=yaml.SafeLoader):
            pass
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        return " ".join(str(error).split())[:200] or "it is nested too deeply"
    return ""


_PARSERS: dict[str, Callable[[bytes], str]] = {
    "py": _python, "pyi": _python, "json": _json, "toml": _toml, "yaml": _yaml, "yml": _yaml,
}  # fmt: skip


def lost_side(file: ConflictFile, content: bytes | None) -> str:
    """Say which side's work is not in the result at all.

    A side is lost where it introduces words that the other does not, and the result introduces none of them; a side
    that only removes words is lost where the result has all of them again. Signs count where a side changes no word.
    """
    if file.ours is None or file.theirs is None:
        return "keeps one side where the other deletes the file"
    if content is None:
        return "is deleted, which neither side does"
    for mine, other, name in (
        (file.ours, file.theirs, "the branch"),
        (file.theirs, file.ours, "the change"),
    ):
        for parts in (_WORD, _SIGNS):
            base, result = _count(parts, file.base), _count(parts, content)
            added = (_count(parts, mine) - base) - (_count(parts, other) - base)
            removed = (base - _count(parts, mine)) - (base - _count(parts, other))
            if added and not added & (result - base):
                return f"has nothing of what {name} adds"
            if not added and removed and not removed & (base - result):
                return f"has all again that {name} removes"
            if added or removed:
                break
    return ""


def _count(parts: re.Pattern[str], text: bytes | None) -> Counter[str]:
    return Counter(parts.findall((text or b"").decode("utf-8", "replace")))

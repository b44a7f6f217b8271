"""The fingerprint of a change: equal for changes that say the same in other words.

Python is compared by its syntax in a normal form: without comments, docstrings, layout and quotes, with numbers for
local names, and with one spelling of what Python can spell in several ways. Only functions and classes that changed
count, with their place. JSON and TOML are compared by their values, prose by its words, other text by its lines;
binary, large and broken files by their exact contents.

A different value, name, condition or place is a different fingerprint. Only names of new fixtures and private
functions, and messages of errors, may differ a little (`Wording`). When in doubt, fingerprints differ: two intents must
never look like one.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

from selftest_core.collect.hostile_text import read_json, read_toml
from selftest_core.frozen import dataclass
from selftest_core.review.changes.python_syntax import compare_python

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from selftest_core.git.commit_changes import PathChange
    from selftest_core.git.merges import Side
    from selftest_core.review.changes.kinds import Kind
    from selftest_core.review.changes.python_syntax import Wording

_LARGEST = 200_000
"""Bytes; a larger file is compared by its exact contents."""
_PROSE = (".md", ".rst", ".txt", ".adoc")


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """`key` must be equal for changes that say the same, and the `wording` alike, part by part."""

    key: str
    wording: tuple[Wording, ...] = ()

    def says_the_same(self, other: Fingerprint) -> bool:
        """Return True where only the words differ."""
        return self.key == other.key and all(
            one.is_like(two) for one, two in zip(self.wording, other.wording, strict=True)
        )


def fingerprint(kind: Kind, paths: Sequence[PathChange], read: Callable[[str], bytes]) -> Fingerprint:
    """Make the fingerprint of a change. `read` gives the contents of a blob by its id."""
    parts: list[object] = [kind.value]
    wording: list[Wording] = []
    for one in paths:
        modes = tuple(None if side is None else side.mode for side in (one.before, one.after))
        compared, words = _compare(one, read)
        parts.append((one.path, modes, compared))
        wording += words
    digest = hashlib.sha256(repr((parts, [word.kind for word in wording])).encode("utf-8", "surrogatepass"))
    return Fingerprint(digest.hexdigest(), tuple(wording))


def _compare(change: PathChange, read: Callable[[str], bytes]) -> tuple[object, Sequence[Wording]]:
    exact = ("exact", *(None if side is None else side.oid for side in (change.before, change.after)))
    texts = [_text(side, read) for side in (change.before, change.after)]
    if any(text is None and side is not None for text, side in zip(texts, (change.before, change.after), strict=True)):
        return exact, ()
    before, after = texts
    if change.path.endswith(".py"):
        found = compare_python(before, after)
        if found is not None:
            return ("python", found.parts), found.wording
    normal = _normal_form(change.path)
    try:
        values = [None if text is None else normal(text) for text in (before, after)]
    except (ValueError, RecursionError):
        values = [None if text is None else _lines(text) for text in (before, after)]
    # Where the normal form is the same, the change is in what it leaves out, such as a comment of TOML.
    return (exact if values[0] == values[1] else ("text", values)), ()


def _text(side: Side | None, read: Callable[[str], bytes]) -> str | None:
    """Read a file that can be compared as text; None for all others."""
    if side is None or not side.mode.startswith("100"):
        return None
    body = read(side.oid)
    if len(body) > _LARGEST or b"\0" in body:
        return None
    try:
        return body.decode("utf-8")
    except UnicodeDecodeError:
        return None


def _normal_form(path: str) -> Callable[[str], object]:
    if path.endswith(".json"):
        return _json_values
    if path.endswith(".toml"):
        return lambda text: _sorted(read_toml(text))
    return str.split if path.endswith(_PROSE) else _lines


def _lines(text: str) -> list[str]:
    """Split into lines without blanks at their ends, and without empty lines."""
    return [stripped for line in text.splitlines() if (stripped := line.rstrip())]


def _json_values(text: str) -> object:
    # A key that is there twice stays there twice.
    return read_json(text, object_pairs_hook=lambda pairs: ("object", sorted(pairs, key=repr)))


def _sorted(value: Any) -> object:
    if isinstance(value, dict):
        return ("object", sorted(((key, _sorted(one)) for key, one in value.items()), key=repr))
    return [_sorted(one) for one in value] if isinstance(value, list) else value

"""Markers that a program prints for its recording: `ESC ] 777 ; selftest ; marker ; NAME BEL`.

    printf '\\033]777;selftest;marker;%s\\a' 'the login works'

Terminals ignore it. It is found however it is cut by reads, and stays in the output as it was.
"""

from __future__ import annotations

import re

LONGEST = 120
"""Characters of a label."""
_BEGIN = b"\x1b]777;selftest;marker;"
_MARKER = re.compile(rb"\x1b\]777;selftest;marker;([^\x07\x1b\x9c]{0,600})(?:\x07|\x1b\\)")
_LONGEST_BYTES = 700


def clean_label(text: str) -> str:
    """One line that any screen can show."""
    return " ".join("".join(letter if letter.isprintable() else " " for letter in text).split())[:LONGEST]


class MarkerFinder:
    """Finds the markers of one stream."""

    def __init__(self) -> None:
        self._carried = b""

    def feed(self, data: bytes) -> list[str]:
        """The labels of the markers that end in these bytes."""
        if not self._carried and b"\x1b" not in data:
            return []
        whole = self._carried + data
        labels, end = [], 0
        for match in _MARKER.finditer(whole):
            labels.append(clean_label(match.group(1).decode("utf-8", "replace")))
            end = match.end()
        self._carried = _unfinished(whole[max(end, len(whole) - _LONGEST_BYTES) :])
        return labels


def _unfinished(rest: bytes) -> bytes:
    """The end of the bytes that may be a marker's beginning."""
    place = rest.rfind(_BEGIN)
    if place >= 0 and not re.search(rb"[\x07\x9c]|\x1b.", rest[place + len(_BEGIN) :], re.DOTALL):
        return rest[place:]
    place = rest.rfind(b"\x1b")
    if place >= 0 and _BEGIN.startswith(rest[place:]):
        return rest[place:]
    return b""

"""Asciicast v1: one JSON object for the whole recording, with relative times and output alone.

Nobody writes it any more, and it cannot be read as a stream: it is read whole, up to a limit, element by element, so
that one that was cut off still shows what it has.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from selftest_core.frozen import dataclass
from selftest_recorder.cast.lines import understand_value

if TYPE_CHECKING:
    from collections.abc import Iterator

LIMIT = 256 * 1024 * 1024
"""Bytes of such a file that are read."""
_EVENTS = re.compile(r'"stdout"\s*:\s*\[')
_BETWEEN = re.compile(r"[\s,]*")


@dataclass(frozen=True, slots=True)
class FirstVersion:
    """A file of v1: the object without its events, and the text and place of these."""

    fields: dict[str, Any]
    text: str
    begins: int

    def events(self) -> Iterator[tuple[float | None, str, int, str]]:
        """Relative time, output, line and what is wrong, one after another. Data "" is nothing to show."""
        decoder = json.JSONDecoder(strict=False)
        place, line, counted = self.begins, 1, 0
        while True:
            place = self._next(place)
            line += self.text.count("\n", counted, place)
            counted = place
            if place >= len(self.text):
                yield None, "", line, "the recording is cut off here"
                return
            if self.text[place] == "]":
                return
            try:
                value, place = decoder.raw_decode(self.text, place)
            except (ValueError, RecursionError):
                yield None, "", line, "the recording is cut off or damaged here; the rest was left out"
                return
            if not isinstance(value, list):
                yield None, "", line, "this is no event; skipped"
                continue
            if len(value) != 2:
                yield None, "", line, f"an event has a time and an output, this has {len(value)} parts; skipped"
                continue
            understood = understand_value([value[0], "o", value[1]])
            yield understood.time, understood.data if understood.code else "", line, understood.says

    def _next(self, place: int) -> int:
        found = _BETWEEN.match(self.text, place)
        return found.end() if found else place


def find_first_version(data: bytes) -> FirstVersion | None:
    """The parts of a file that may be v1, or None where it is not."""
    text = data.decode("utf-8-sig", "replace")
    if not text.lstrip().startswith("{"):
        return None
    decoder = json.JSONDecoder(strict=False)
    found = _EVENTS.search(text)
    if found is None:
        return None
    try:
        fields, _ = decoder.raw_decode(text.lstrip())
        fields.pop("stdout", None)
    except (ValueError, RecursionError):
        # Cut off: all that is said before its events is whole, in every file that asciinema wrote.
        try:
            fields = json.loads(text[: found.start()].rstrip().rstrip(",") + "}", strict=False)
        except (ValueError, RecursionError):
            return None
    return FirstVersion(fields, text, found.end())

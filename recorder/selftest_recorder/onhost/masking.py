"""Masking of secrets in a stream: values of named variables, and texts that look like a secret.

A value is found even when reads cut it: bytes that may begin one are held back until that is clear. A secret becomes
stars, one for each character, so that the text beside it stays in its place. A value with something between its
characters (an escape sequence, the line end of a full-screen program) is not found: masking lowers the risk, and does
not remove it.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from re import Pattern
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

SHORTEST = 4
"""Shortest value in characters that is masked: shorter ones occur in ordinary words."""
_SHORTEST_LINE = 8
_CONTEXT = 512
_SHOWN = 3
"""Bytes of the beginning of a value that are not held back, so that the screen does not lag by letters."""
_WORD = re.compile(rb"[A-Za-z0-9_\-./+=:%~]{1,512}\Z")

USUAL_PATTERNS = (
    r"\bsk-[A-Za-z0-9_-]{20,}",
    r"\bgh[pousr]_[A-Za-z0-9]{30,}",
    r"\bgithub_pat_[A-Za-z0-9_]{30,}",
    r"\bxox[abprs]-[A-Za-z0-9-]{10,}",
    r"\bAKIA[0-9A-Z]{16}\b",
    r"\bAIza[0-9A-Za-z_-]{35}",
)
"""Shapes of tokens of common services, from their documentation."""


class Secrets(NamedTuple):
    """The secrets to mask: values, and one pattern for all shapes, or None."""

    values: tuple[bytes, ...]
    shapes: Pattern[bytes] | None

    def __bool__(self) -> bool:
        return bool(self.values) or self.shapes is not None


NO_SECRETS = Secrets((), None)


def make_secrets(values: Iterable[str], patterns: Iterable[str]) -> Secrets:
    """Prepare secrets. A value of several lines is masked line by line. Raises re.error for an invalid pattern."""
    parts: list[bytes] = []
    for value in values:
        lines = value.splitlines() if len(value.splitlines()) > 1 else [value]
        least = _SHORTEST_LINE if len(lines) > 1 else SHORTEST
        parts += [line.encode("utf-8", "surrogateescape") for line in lines if len(line.strip()) >= least]
    shapes = [f"(?:{pattern})".encode() for pattern in patterns if pattern]
    longest_first = sorted(set(parts), key=lambda part: (-len(part), part))
    return Secrets(tuple(longest_first), re.compile(b"|".join(shapes)) if shapes else None)


def joined(one: Secrets, other: Secrets) -> Secrets:
    """Return the values of both, and the pattern of the other."""
    if one.values == other.values:
        return other
    values = sorted({*one.values, *other.values}, key=lambda part: (-len(part), part))
    return Secrets(tuple(values), other.shapes)


class Masks:
    """The names of the variables to mask, whose values are read from the process of a pane."""

    def __init__(self, names: Iterable[str], patterns: Iterable[str], environ: Mapping[str, str]) -> None:
        self._names = tuple(names)
        self._patterns = tuple(patterns)
        self._values = [environ[name] for name in self._names if environ.get(name)]

    def secrets(self, pid: int) -> Secrets:
        """Return the secrets of a pane whose program is this process. Raises re.error for an invalid pattern."""
        return make_secrets([*self._values, *_values_of(pid, self._names)], self._patterns)


def _values_of(pid: int, names: Collection[str]) -> list[str]:
    """Read the values of variables from the environment of a process, and from the file that mngr gives to agents.

    Linux shows the environment of a process; elsewhere only the file is read, if our own environment names it.
    """
    found: dict[str, str] = {}
    if not names:
        return []
    try:
        data = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        data = b""
    for part in data.split(b"\0"):
        name, _, value = part.decode("utf-8", "surrogateescape").partition("=")
        found[name] = value
    values = [found[name] for name in names if found.get(name)]
    state = found.get("MNGR_AGENT_STATE_DIR", "")
    return values + (read_values(Path(state) / "env", names) if state else [])


def read_values(file: Path, names: Iterable[str]) -> list[str]:
    """Read the values of variables from a file of NAME=VALUE lines with shell quotes."""
    wanted, found = set(names), []
    try:
        lines = file.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return []
    for line in lines:
        name, _, value = line.strip().partition("=")
        if name.rpartition(" ")[2] in wanted:
            try:
                found += shlex.split(value)
            except ValueError:
                found.append(value)
    return found


class Masker:
    """Masker of one stream. The result of `feed` can be written; `settle` returns bytes held back too long."""

    def __init__(self, secrets: Secrets) -> None:
        self.learn(secrets)
        self._told = b""  # the last bytes that were returned, unmasked: a secret may begin in them
        self._held = b""

    @property
    def holds(self) -> bool:
        """True while bytes are held back."""
        return bool(self._held)

    def learn(self, secrets: Secrets) -> None:
        """Mask these secrets from now on."""
        self._secrets = secrets
        self._longest = max([len(value) for value in secrets.values] + [_CONTEXT if secrets.shapes else 0])

    def feed(self, data: bytes) -> bytes:
        """Take the next bytes, and return those that can be written."""
        if not self._secrets:
            return data
        self._held += data
        return self._give(max(self._value_may_begin(), self._shape_may_begin()))

    def settle(self) -> bytes:
        """Return bytes that only look like a word, after a pause; bytes that may begin a value stay held back."""
        return self._give(self._value_may_begin()) if self._held else b""

    def close(self) -> bytes:
        """Return the remaining bytes; a value that the end cut off is masked as far as it goes."""
        begins = self._value_may_begin()
        rest = self._give(begins)
        if self._held:
            rest += b"*" * len(self._held)
            self._held = b""
        return rest

    def whole(self, data: bytes) -> bytes:
        """Mask a complete text that is not part of the stream."""
        masked = bytearray(data)
        for start, stop in self._found(data):
            masked[start:stop] = b"*" * (stop - start)
        return bytes(masked)

    def _give(self, kept: int) -> bytes:
        """Return all held bytes but the last `kept`, masked; the bytes before them are looked at too."""
        whole = self._told + self._held
        begins, ends = len(self._told), len(whole) - kept
        masked = bytearray(whole)
        for start, stop in self._found(whole):
            stars = b"*" * (stop - start) if stop <= ends or start >= ends else b"*" * (ends - start)
            masked[start : start + len(stars)] = stars
        out = bytes(masked[begins:ends])
        self._told = whole[max(ends - self._longest, 0) : ends]
        self._held = whole[ends:]
        return out

    def _found(self, whole: bytes) -> Iterable[tuple[int, int]]:
        for value in self._secrets.values:
            place = whole.find(value)
            while place >= 0:
                yield place, place + len(value)
                place = whole.find(value, place + len(value))
        if self._secrets.shapes is not None:
            for match in self._secrets.shapes.finditer(whole):
                yield match.span()

    def _value_may_begin(self) -> int:
        """Return how many of the last bytes may begin a value, without those that may be shown."""
        whole = self._told + self._held
        most = 0
        for value in self._secrets.values:
            for length in range(min(len(value) - 1, len(whole)), _SHOWN, -1):
                if whole.endswith(value[:length]):
                    most = max(most, length - _SHOWN)
                    break
        return min(most, len(self._held))

    def _shape_may_begin(self) -> int:
        if self._secrets.shapes is None:
            return 0
        word = _WORD.search(self._held[-_CONTEXT:])
        return len(word.group()) if word else 0

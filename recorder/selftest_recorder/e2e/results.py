"""Results of commands: exit status and outputs, and how they are shown in a failure: masked, head and tail of each.

Secrets are masked in what is shown, never in what a test reads.
"""

from __future__ import annotations

import json
from collections import deque
from typing import TYPE_CHECKING, Any, Literal

from selftest_core.conversation.conversation import harmless
from selftest_core.frozen import dataclass
from selftest_recorder.onhost.masking import USUAL_PATTERNS, Masker, make_secrets

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from selftest_recorder.onhost.masking import Secrets

type Stream = Literal["stdout", "stderr"]
type Piece = tuple[Stream, bytes]

PREFIXES: dict[Stream, str] = {"stdout": "  ", "stderr": "! "}
"""Beginnings of lines in transcripts and failures; of a command "$ ", of a comment "# ", of an exit status "? "."""
HEAD, TAIL = 15, 45
"""Lines of each output that a failure shows."""
LONGEST_LINE = 400
_masker = Masker(make_secrets((), USUAL_PATTERNS))


@dataclass(frozen=True, slots=True)
class Line:
    """A line of output, without its end."""

    stream: Stream
    text: str


class Output(str):
    """The text of an output, which knows its command: so a failure of `expect(result.stdout)` can show all of it."""

    result: Result

    def __new__(cls, text: str, result: Result) -> Output:
        made = super().__new__(cls, text)
        made.result = result
        return made


@dataclass(frozen=True, slots=True)
class Result:
    """A command that ended. `exit_status` is negative for a signal. `pieces`: both outputs, as they came.

    `left_out`: bytes of output beyond the limit, which are missing in the middle; undecodable bytes are replaced.
    """

    command: str
    exit_status: int
    pieces: tuple[Piece, ...]
    seconds: float
    left_out: int = 0

    @property
    def stdout(self) -> Output:
        """Its output."""
        return Output(self._text("stdout"), self)

    @property
    def stderr(self) -> Output:
        """Its errors."""
        return Output(self._text("stderr"), self)

    @property
    def lines(self) -> tuple[Line, ...]:
        """The lines of both outputs in the order in which they ended."""
        return tuple(self.iterate_lines())

    def iterate_lines(self) -> Iterator[Line]:
        """Iterate over `lines`: there may be millions."""
        begun: dict[Stream, bytes] = dict.fromkeys(PREFIXES, b"")
        for stream, data in self.pieces:
            *whole, begun[stream] = (begun[stream] + data).split(b"\n")
            for line in whole:
                yield Line(stream, line.decode("utf-8", "replace").removesuffix("\r"))
        for stream, rest in begun.items():
            if rest:
                yield Line(stream, rest.decode("utf-8", "replace"))

    @property
    def ok(self) -> bool:
        """True for exit status 0."""
        return self.exit_status == 0

    def json(self) -> Any:
        """Parse stdout as one JSON document. Raises AssertionError that shows the command."""
        return self._parsed(self.stdout)

    def json_lines(self) -> list[Any]:
        """Parse stdout as JSON Lines; empty lines are skipped. Raises AssertionError that shows the command."""
        return [self._parsed(line) for line in self.stdout.splitlines() if line.strip()]

    def __repr__(self) -> str:
        return f"\n{shown(self)}\n"

    def _text(self, stream: Stream) -> str:
        return b"".join(data for of, data in self.pieces if of == stream).decode("utf-8", "replace")

    def _parsed(self, text: str) -> Any:
        __tracebackhide__ = True
        try:
            return json.loads(text)
        except ValueError as error:
            raise AssertionError(f"stdout is no JSON ({error})\n{shown(self)}") from None


def hide(secrets: Secrets) -> None:
    """Mask these secrets from now on in everything that failures show."""
    _masker.learn(secrets)


def masked(text: str) -> str:
    """Mask the known secrets, and remove escape sequences."""
    return harmless(_masker.whole(text.encode("utf-8", "surrogatepass")).decode("utf-8", "replace"))


def shown(result: Result) -> str:
    """Format a result as in a transcript: command, both outputs (head and tail of each), and the exit status."""
    lines = [f"$ {line}" for line in result.command.splitlines()]
    lines += _shortened(result.iterate_lines())
    if result.left_out:
        lines.append(f"# {result.left_out:,} bytes of output are left out")
    return masked("\n".join([*lines, f"? {result.exit_status}"]))


def shown_text(text: str) -> str:
    """Format a text that belongs to no command, shortened likewise."""
    lines = text.splitlines()
    if len(lines) > HEAD + TAIL:
        lines[HEAD:-TAIL] = [f"… {len(lines) - HEAD - TAIL:,} lines …"]
    return masked("\n".join(f"  {cut(line)}" for line in lines)) or "  (nothing)"


def cut(line: str) -> str:
    """Shorten a line."""
    return line if len(line) <= LONGEST_LINE else f"{line[:LONGEST_LINE]}… ({len(line):,} characters)"


def _shortened(lines: Iterable[Line]) -> Iterator[str]:
    """Format head and tail of each stream, in the order of both, with a note where lines are left out."""
    heads: dict[Stream, list[tuple[int, Line]]] = {stream: [] for stream in PREFIXES}
    tails: dict[Stream, deque[tuple[int, Line]]] = {stream: deque(maxlen=TAIL) for stream in PREFIXES}
    count = 0
    for number, line in enumerate(lines):
        head = heads[line.stream]
        (head if len(head) < HEAD else tails[line.stream]).append((number, line))
        count = number + 1
    kept = sorted((one for of in (*heads.values(), *tails.values()) for one in of), key=lambda one: one[0])
    expected = 0
    for number, line in kept:
        if number > expected:
            yield f"# … {number - expected:,} lines …"
        yield f"{PREFIXES[line.stream]}{cut(line.text)}"
        expected = number + 1
    if count > expected:
        yield f"# … {count - expected:,} lines …"

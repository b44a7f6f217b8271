"""Transcript of a test's commands, written as they run: a worker that is killed loses nothing.

Lines begin with what they are: "# " a comment, "$ " a command, two spaces its stdout, "! " its stderr, "? " its exit
status. Secrets are masked, escape sequences are removed, and long outputs are shortened: the file never grows beyond a
limit, whatever a program prints.
"""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

from selftest_core.conversation.conversation import harmless
from selftest_recorder.e2e.results import PREFIXES
from selftest_recorder.onhost.masking import Masker

if TYPE_CHECKING:
    from pathlib import Path

    from selftest_recorder.e2e.results import Stream
    from selftest_recorder.onhost.masking import Secrets

MOST_OF_A_COMMAND = 256 * 1024
"""Bytes of one output of a command that are written as they come; of the rest only the end, when the command ends."""
MOST = 8 * 1024 * 1024
"""Bytes of a transcript after which no output is written, only commands and exit statuses."""
_TAIL = 16 * 1024
_LONGEST_LINE = 8 * 1024


class Transcript:
    """The transcript of one test. The file is made by the first line."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._file = -1
        self._written = 0
        self.problem = ""
        """The reason why the rest could not be written, such as a full disk."""
        self._last: CommandTranscript | None = None

    def comment(self, text: str, secrets: Secrets) -> None:
        """Write a comment."""
        self._write(None, "# ", Masker(secrets).whole(text.encode("utf-8", "surrogatepass")))

    def command(self, text: str, secrets: Secrets) -> CommandTranscript:
        """Write a command that starts now."""
        begun = CommandTranscript(self, text, secrets)
        self._write(begun, "$ ", begun.name)
        return begun

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            if self._file >= 0:
                os.close(self._file)
                self._file = -1

    @property
    def is_full(self) -> bool:
        """True if no more output is written."""
        return self._written >= MOST or bool(self.problem)

    def write(self, of: CommandTranscript, prefix: str, data: bytes) -> None:
        """Write lines of a command's output; a comment tells whose they are, where commands run side by side."""
        with self._lock:
            other = self._last is not of
        if other:
            self._write(of, "# output of: ", of.name.split(b"\n")[0])
        self._write(of, prefix, data)

    def _write(self, of: CommandTranscript | None, prefix: str, data: bytes) -> None:
        text = harmless(data.decode("utf-8", "replace"))
        lines = "".join(f"{prefix}{line}\n" for line in text.split("\n"))
        with self._lock:
            self._last = of if of is not None else self._last
            try:
                if self._file < 0:
                    self._file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
                self._written += os.write(self._file, lines.encode("utf-8", "replace"))
            except OSError as error:  # told at the end of the test, which goes on
                self.problem = error.strerror or str(error)


class CommandTranscript:
    """The part of one command. `feed`, `settle` and `close` are for one thread, the one that reads its output."""

    def __init__(self, transcript: Transcript, text: str, secrets: Secrets) -> None:
        self._transcript = transcript
        self._masker = Masker(secrets)
        self._maskers = {stream: Masker(secrets) for stream in PREFIXES}
        self._begun: dict[Stream, bytes] = dict.fromkeys(PREFIXES, b"")
        self._tails: dict[Stream, bytes] = dict.fromkeys(PREFIXES, b"")
        self._left: dict[Stream, int] = dict.fromkeys(PREFIXES, MOST_OF_A_COMMAND)
        self._left_out: dict[Stream, int] = dict.fromkeys(PREFIXES, 0)
        self.name = self._masker.whole(text.encode("utf-8", "surrogatepass"))

    def feed(self, stream: Stream, data: bytes) -> None:
        """Write whole lines of output."""
        if self._left[stream] <= 0 or self._transcript.is_full:
            self._left_out[stream] += len(data)
            # More than is written, so that a secret at its beginning is not cut.
            self._tails[stream] = (self._tails[stream] + data)[-4 * _TAIL :]
            return
        self._left[stream] -= len(data)
        self._add(stream, self._maskers[stream].feed(data))

    def settle(self) -> None:
        """Write lines that have not ended, after a pause: a question, a progress."""
        for stream in PREFIXES:
            self._add(stream, self._maskers[stream].settle())
            self._flush(stream)

    def close(self, exit_status: int | None) -> None:
        """Write the rest and the exit status; None: it was not awaited."""
        for stream in PREFIXES:
            self._add(stream, self._maskers[stream].close())
            self._flush(stream)
        for stream, tail in self._tails.items():
            if tail:
                note = f"{self._left_out[stream]:,} more bytes of {stream}, at their end:"
                self._transcript.write(self, "# ", note.encode())
            if tail and not self._transcript.is_full:
                ending = self._masker.whole(tail)[-_TAIL:].partition(b"\n")[2].rstrip(b"\n")
                self._transcript.write(self, PREFIXES[stream], ending)
        if exit_status is not None:
            self._transcript.write(self, "? ", str(exit_status).encode())

    def note(self, text: str) -> None:
        """Write a comment about this command."""
        self._transcript.write(self, "# ", self._masker.whole(text.encode("utf-8", "surrogatepass")))

    def _add(self, stream: Stream, data: bytes) -> None:
        whole, end, rest = (self._begun[stream] + data).rpartition(b"\n")
        if end:
            self._transcript.write(self, PREFIXES[stream], whole)
        self._begun[stream] = rest
        if len(rest) > _LONGEST_LINE:
            self._flush(stream)

    def _flush(self, stream: Stream) -> None:
        rest, self._begun[stream] = self._begun[stream], b""
        if rest:
            self._transcript.write(self, PREFIXES[stream], rest)

"""Reader of one agent's complete transcript from its state folder: bounded, and without following a link.

    events/TYPE/common_transcript/events.jsonl     mngr's stream, the same for all types of agents
    logs/TYPE_transcript/events.jsonl              the lines of the agent's own program, which name its API errors

The first comes late and without the current step, so the end of the second completes it. To follow a transcript while
it grows, use `common_transcript.read_transcript`.
"""

from __future__ import annotations

import errno
import os
import stat
from typing import TYPE_CHECKING

from selftest_core.conversation.appended_lines import open_below
from selftest_core.conversation.common_transcript import transcript_of
from selftest_core.frozen import dataclass

if TYPE_CHECKING:
    from pathlib import Path

LARGEST = 16 * 1024 * 1024
"""Bytes that are read from the end of a common transcript."""
LARGEST_OWN = 1024 * 1024
"""Bytes that are read from the end of an agent's own lines."""


@dataclass(frozen=True, slots=True)
class Transcript:
    """The transcript of one agent. `common`: whole lines of mngr's stream; `left_out`: bytes of it before them.

    `own`: the last whole lines of the agent's own program.
    """

    common: bytes = b""
    left_out: int = 0
    own: bytes = b""


NO_TRANSCRIPT = Transcript()


def read_whole(state_folder: Path, most: int = LARGEST) -> Transcript:
    """Read the newest `most` bytes of the transcript. Anything but a plain file counts as missing.

    Raises OSError if a file cannot be read.
    """
    relative = transcript_of(state_folder)
    if relative is None:
        return NO_TRANSCRIPT
    common, left_out = _read_end(state_folder, relative, most)
    own, _ = _read_end(state_folder, own_lines_of(relative.split("/")[1]), LARGEST_OWN)
    return Transcript(common, left_out, own)


def read_own_end(state_folder: Path, plugin: str, most: int = LARGEST_OWN) -> bytes:
    """Read the last lines that an agent's own program wrote. Raises OSError if they cannot be read."""
    return _read_end(state_folder, own_lines_of(plugin), most)[0]


def own_lines_of(plugin: str) -> str:
    """The path of an agent's own lines, below its state folder; `plugin` is "claude" or "codex"."""
    return f"logs/{plugin}_transcript/events.jsonl"


def whole_lines(data: bytes, *, is_cut: bool) -> bytes:
    """Drop a first line that was cut (`is_cut`) and an incomplete last one."""
    return data[data.find(b"\n") + 1 if is_cut else 0 : data.rfind(b"\n") + 1]


def _read_end(state_folder: Path, relative: str, most: int) -> tuple[bytes, int]:
    """Read the last complete lines of a file, and count the bytes before them."""
    try:
        handle = open_below(state_folder, relative)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
            return b"", 0  # missing, or a link
        raise
    try:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode):
            return b"", 0
        begin = max(status.st_size - most, 0)
        data = os.pread(handle, most, begin)
    finally:
        os.close(handle)
    return whole_lines(data, is_cut=begin > 0), begin + (data.find(b"\n") + 1 if begin else 0)

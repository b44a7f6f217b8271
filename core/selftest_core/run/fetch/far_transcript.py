"""Fetch the transcript of an agent on another host, with one `mngr exec`: the script, and the parser of its answer.

The files go compressed and as letters, so that nothing on the way can take a part of them for something else, and both
sides bound what is read: the far side is not ours.
"""

from __future__ import annotations

import base64
import binascii
import zlib
from itertools import pairwise
from typing import TYPE_CHECKING

from selftest_core.conversation.transcript_files import LARGEST_OWN, NO_TRANSCRIPT, Transcript, whole_lines

if TYPE_CHECKING:
    from selftest_core.run.fold import Member

LARGEST_FAR = 4 * 1024 * 1024
"""Bytes that are fetched of a common transcript: its newest part where it has more."""
MOST_EVENTS = 2_000
"""Events that mngr itself is asked for where the script does not work."""


def transcript_script(most: int = LARGEST_FAR, most_own: int = LARGEST_OWN) -> str:
    """Prints, for each of the two files that is there, a line `common SIZE` or `own SIZE`, and a line with its end."""
    send = '{{ echo {name} $(wc -c < "$f"); tail -c {most} "$f" | gzip -c | base64 | tr -d \'\\n\'; echo; }}'
    is_plain = 'test -f "$f" && test ! -L "$f"'
    return (
        'cd "$MNGR_AGENT_STATE_DIR" && for f in events/*/common_transcript/events.jsonl; do '
        f"{is_plain} || continue; {send.format(name='common', most=most)}; "
        'f=${f#events/}; f="logs/${f%%/*}_transcript/events.jsonl"; '
        f"{is_plain} && {send.format(name='own', most=most_own)}; break; done; true"
    )


def parse_transcript_answer(text: str) -> Transcript:
    """Read what the script printed. What is damaged is left out; nothing is as no transcript."""
    found: dict[str, tuple[bytes, int]] = {}
    lines = text.splitlines()
    for head, body in pairwise(lines):
        name, _, size = head.partition(" ")
        if name in ("common", "own") and size.strip().isdecimal() and name not in found:
            found[name] = _unpacked(body, int(size[:18]))
    if "common" not in found:
        return NO_TRANSCRIPT
    common, left_out = found["common"]
    return Transcript(common, left_out, found.get("own", (b"", 0))[0])


def events_arguments(member: Member) -> tuple[str, ...]:
    """`mngr transcript`: its last events, as the lines that they are in the file."""
    return ("transcript", member.address, "--tail", str(MOST_EVENTS), "--format", "jsonl")


def _unpacked(letters: str, size: int) -> tuple[bytes, int]:
    try:
        packed = base64.b64decode(letters, validate=True)
        data = zlib.decompressobj(wbits=31).decompress(packed, LARGEST_FAR)
    except (binascii.Error, ValueError, zlib.error):
        return b"", 0
    is_cut = size > len(data)
    kept = whole_lines(data, is_cut=is_cut)
    return kept, max(size - len(data), 0) + (data.find(b"\n") + 1 if is_cut else 0)

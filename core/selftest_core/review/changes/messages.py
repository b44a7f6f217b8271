"""Messages of commits: of the joint commit, of squashed changes, and as a person wrote them anew.

Authors stay credited and trailers stay, whatever a person writes: a message that was written anew keeps the trailers of
the commit's own. Messages are raw bytes of agents; nothing here makes them safe to show.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_TRAILER = re.compile(rb"[A-Za-z0-9][A-Za-z0-9-]*: [^\x00-\x1f\x7f]*")
_CREDIT = b"Co-authored-by: "
NO_MESSAGE = b"(no message)"


def split_trailers(message: bytes) -> tuple[bytes, list[bytes]]:
    """Split a message into its text and its trailers: the last paragraph, unless it is the first, as git reads it."""
    lines = message.rstrip().split(b"\n")
    at = len(lines)
    while at and _TRAILER.fullmatch(lines[at - 1]):
        at -= 1
    is_block = 1 < at < len(lines) and not lines[at - 1].strip(b" \t") and any(one.strip() for one in lines[: at - 1])
    return (b"\n".join(lines[:at]).rstrip(), lines[at:]) if is_block else (b"\n".join(lines), [])


def joint_message(messages: Sequence[bytes], authors: Sequence[bytes]) -> bytes:
    """The message of the joint commit: the subject of each change, and each author credited once."""
    count = len(messages)
    what = "change" if count == 1 else "changes"
    lines = [f"Tests, docs and build files: {count} {what}".encode(), b""]
    lines += [b"- " + message.lstrip(b"\n").split(b"\n", 1)[0].strip() for message in messages]
    people = dict.fromkeys([*(_CREDIT + _name(author) for author in authors), *_credits(messages)])
    return b"\n".join([*lines, b"", *people]) + b"\n"


def squashed_message(messages: Sequence[bytes], authors: Sequence[bytes], text: str | None = None) -> bytes:
    """The message of squashed changes: their texts one after the other, then their trailers and authors, each once.

    The first author is the author of the commit. `text`: written by a person instead of the texts.
    """
    if len(messages) == 1 and text is None:
        return messages[0]
    parts = [split_trailers(message) for message in messages]
    texts = dict.fromkeys(body.strip(b"\n") for body, _ in parts)
    kept = [line for _, lines in parts for line in lines]
    own: list[bytes] = []
    if text is not None:
        written, own = split_trailers(cleaned(text))
        texts = {written: None}
    people = [_CREDIT + _name(author) for author in authors if _name(author) != _name(authors[0])]
    return _with_trailers(b"\n\n".join(filter(None, texts)), [*own, *kept, *_credits(messages), *people])


def reworded_message(message: bytes, text: str) -> bytes:
    """The message that a person wrote instead of `message`, with the trailers of that one."""
    written, own = split_trailers(cleaned(text))
    return _with_trailers(written, [*own, *split_trailers(message)[1], *_credits([message])])


def cleaned(text: str) -> bytes:
    """Clean the text of a message as git does: no NUL, no blanks at the ends of lines, no empty lines around it."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n").replace("\0", " ").split("\n")
    return "\n".join(line.rstrip() for line in lines).strip("\n").encode("utf-8", "replace")


def _with_trailers(text: bytes, trailers: Iterable[bytes]) -> bytes:
    lines = list(dict.fromkeys(trailers))
    return (text or NO_MESSAGE) + b"\n" + (b"\n" + b"\n".join(lines) + b"\n" if lines else b"")


def _name(author: bytes) -> bytes:
    """The name and the address of an author, without the date."""
    return author.rpartition(b">")[0] + b">"


def _credits(messages: Iterable[bytes]) -> list[bytes]:
    return [line for message in messages for line in message.splitlines() if line.startswith(_CREDIT)]

"""Git objects as bytes: commits and trees encoded and decoded, without running git.

Writing a hundred objects by a hundred programs costs seconds; encoding them here costs microseconds. Pure: no files.
Text in objects is untrusted bytes: it is kept as it is, and decoded only to be shown.
"""

from __future__ import annotations

import hashlib
import re
import struct
import zlib
from typing import TYPE_CHECKING

from selftest_core.frozen import dataclass

if TYPE_CHECKING:
    from collections.abc import Sequence

HEX = re.compile(r"[0-9a-f]{40}")
"""A full object id. Only this form is given to git as an id."""
TREE_MODE = b"40000"
_KINDS = {b"commit": 1, b"tree": 2, b"blob": 3}
"""Numbers of the kinds in a pack."""


@dataclass(frozen=True, slots=True)
class Commit:
    """One commit. `author` and `committer` are whole lines (`Name <mail> seconds zone`), `message` is raw.

    `headers` are the other headers in their order (encoding, mergetag, …), signatures included.
    """

    tree: str
    parents: tuple[str, ...]
    author: bytes
    committer: bytes
    message: bytes
    headers: tuple[tuple[bytes, bytes], ...] = ()

    @property
    def subject(self) -> str:
        """The first paragraph on one line, decoded with replacement, not yet safe to show."""
        first = self.message.lstrip(b"\n").split(b"\n\n", 1)[0]
        return " ".join(first.decode("utf-8", "replace").split())

    @property
    def text(self) -> str:
        """The whole message, decoded with replacement, not yet safe to show."""
        return self.message.decode("utf-8", "replace")


def is_oid(text: str) -> bool:
    """True for a full hexadecimal object id, the only form that may reach git."""
    return HEX.fullmatch(text) is not None


def object_id(kind: bytes, body: bytes) -> str:
    """Compute the id that git gives to this object."""
    return hashlib.sha1(b"%s %d\0" % (kind, len(body)) + body, usedforsecurity=False).hexdigest()


def encode_pack(objects: Sequence[tuple[bytes, bytes]]) -> bytes:
    """Encode objects (kind and body, each once) as a pack: one file for many."""
    parts = [b"PACK" + struct.pack(">II", 2, len(objects))]
    for kind, body in objects:
        # Four bits of the size stand beside the kind, then seven in each byte; the highest bit says that more follow.
        byte, size = _KINDS[kind] << 4 | len(body) & 15, len(body) >> 4
        head = bytearray()
        while size:
            head.append(byte | 128)
            byte, size = size & 127, size >> 7
        head.append(byte)
        parts += [bytes(head), zlib.compress(body, 1)]
    data = b"".join(parts)
    return data + hashlib.sha1(data, usedforsecurity=False).digest()


def encode_commit(commit: Commit) -> bytes:
    """Encode the body of a commit object. Signatures are dropped: they belong to another commit."""
    lines = [b"tree " + commit.tree.encode()]
    lines += [b"parent " + parent.encode() for parent in commit.parents]
    lines += [b"author " + commit.author, b"committer " + commit.committer]
    lines += [name + b" " + value for name, value in commit.headers if name == b"encoding"]
    return b"\n".join(lines) + b"\n\n" + commit.message


def decode_commit(body: bytes) -> Commit:
    """Decode the body of a commit object. Raises ValueError for anything else."""
    head, separator, message = body.partition(b"\n\n")
    if not separator:
        head, message = body.rstrip(b"\n"), b""
    fields: list[tuple[bytes, bytes]] = []
    for line in head.split(b"\n"):
        if line.startswith(b" ") and fields:
            name, value = fields[-1]
            fields[-1] = (name, value + b"\n" + line[1:])
        else:
            name, _, value = line.partition(b" ")
            fields.append((name, value))
    known = {b"tree", b"parent", b"author", b"committer"}
    single = {name: value for name, value in fields if name in known}
    if not {b"tree", b"author", b"committer"} <= single.keys():
        raise ValueError("not a commit object")
    return Commit(
        tree=single[b"tree"].decode("ascii"),
        parents=tuple(value.decode("ascii") for name, value in fields if name == b"parent"),
        author=single[b"author"],
        committer=single[b"committer"],
        message=message,
        headers=tuple((name, value) for name, value in fields if name not in known),
    )


def trailers(message: str) -> tuple[tuple[str, str], ...]:
    """Return the `Key: value` lines of the last paragraph, if it consists of nothing else."""
    paragraphs = [paragraph for paragraph in re.split(r"\n\s*\n", message.strip()) if paragraph.strip()]
    if len(paragraphs) < 2:
        return ()
    found: list[tuple[str, str]] = []
    for line in paragraphs[-1].splitlines():
        matched = re.fullmatch(r"([A-Za-z][A-Za-z0-9-]*):\s+(.*\S)\s*", line)
        if matched is None:
            return ()
        found.append((matched[1], matched[2]))
    return tuple(found)

"""Keys typed into real panes, held against the bytes that the program there has read."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

import pytest

from selftest_core.actions.send_keys import Keystroke, batches, is_sendable, paste, send_keys
from selftest_core.errors import ToolFailedError, UsageError
from selftest_core.tools.tmux import SessionRef
from worlds import BIN, World, eventually

if TYPE_CHECKING:
    from pathlib import Path

# Appends every byte that it reads to a file as it is; asks for bracketed paste when told to.
READER = """import os, tty
tty.setraw(0)
if {bracketed}:
    os.write(1, b"\\x1b[?2004h")
out = os.open({out!r}, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
while data := os.read(0, 65536):
    os.write(out, data)
"""


class Reader:
    """A pane whose program notes what it reads."""

    def __init__(self, world: World, name: str = "reader", *, bracketed: bool = False) -> None:
        self.world = world
        self.out: Path = world.root / f"{name}.out"
        self.begin = 0
        script = world.script(name, READER.format(bracketed=bracketed, out=str(self.out)))
        # Not by a first line: there a path with a space in it is cut.
        command = shlex.join([str(BIN / "python"), str(script)])
        world.tmux("-f", "/dev/null", "new-session", "-d", "-s", name, "-x", "80", "-y", "24", command)
        self.ref = SessionRef(str(world.socket), name)
        eventually(self.out.exists, "a program that reads")
        if bracketed:
            # The request travels to tmux by itself; only then does a paste get its brackets.
            eventually(self.pasted_probe, "bracketed paste")

    def pasted_probe(self) -> bool:
        paste(self.ref, None, "?", self.world.environment)
        eventually(lambda: b"?" in self.read(), "the pasted mark")
        # The reader may see the brackets in parts; the next look tells.
        is_bracketed = b"\x1b[200~?\x1b[201~" in self.read()
        self.begin += len(self.read())
        return is_bracketed

    def read(self) -> bytes:
        return self.out.read_bytes()[self.begin :]

    def reads(self, wanted: bytes) -> None:
        eventually(lambda: self.read() == wanted, f"{wanted[:80]!r} (read: {self.read()[:200]!r})")

    def type(self, *keys: Keystroke) -> None:
        send_keys(self.ref, None, keys, self.world.environment)


@pytest.fixture
def reader(world: World) -> Reader:
    return Reader(world)


def text(characters: str) -> list[Keystroke]:
    return [Keystroke(text=char) for char in characters]


HOSTILE = "-x; ls\\; é漢🎉 #{pid} $(id) `id` 'q' \"d\" ~ %1 Enter C-c ; \\"


def test_text_arrives_letter_by_letter_as_it_is(reader: Reader) -> None:
    reader.type(*text(HOSTILE), *text("no;"), Keystroke(text=";"), Keystroke(text="-l"))
    reader.reads((HOSTILE + "no;;-l").encode())


def test_keys_arrive_in_their_order_among_text(reader: Reader) -> None:
    reader.type(
        *text("y;"),
        Keystroke(name="enter"),
        *text("Enter"),
        Keystroke(name="tab"),
        Keystroke(name="tab", shift=True),
        Keystroke(name="escape"),
        Keystroke(name="backspace"),
        Keystroke(name="up"),
        Keystroke(name="delete"),
        Keystroke(name="f1"),
    )
    reader.reads(b"y;\rEnter\t\x1b[Z\x1b\x7f\x1b[A\x1b[3~\x1bOP")


@pytest.mark.parametrize(
    ("key", "wanted"),
    [
        (Keystroke(text="c", ctrl=True), b"\x03"),
        (Keystroke(text="q", ctrl=True), b"\x11"),
        (Keystroke(text="]", ctrl=True), b"\x1d"),
        (Keystroke(text="\\", ctrl=True), b"\x1c"),
        (Keystroke(text=" ", ctrl=True), b"\x00"),
        (Keystroke(text="x", alt=True), b"\x1bx"),
        (Keystroke(text="X", alt=True), b"\x1bX"),
        (Keystroke(text=";", alt=True), b"\x1b;"),
        (Keystroke(text="é", alt=True), b"\x1b\xc3\xa9"),
        (Keystroke(text="\x03"), b"\x03"),
        (Keystroke(text="\x1b"), b"\x1b"),
        (Keystroke(name="left", ctrl=True), b"\x1b[1;5D"),
        (Keystroke(name="right", alt=True, shift=True), b"\x1b[1;4C"),
        (Keystroke(name="enter", alt=True), b"\x1b\r"),
    ],
)
def test_keys_with_modifiers(reader: Reader, key: Keystroke, wanted: bytes) -> None:
    reader.type(key)
    reader.reads(wanted)


def test_long_text_goes_in_several_batches_and_arrives_whole(reader: Reader) -> None:
    long = "é;" * 4000
    assert len(list(batches(text(long), "%0"))) > 1
    reader.type(*text(long))
    reader.reads(long.encode())


def test_a_pane_that_is_being_scrolled_gets_the_keys_all_the_same(reader: Reader) -> None:
    reader.world.tmux("copy-mode", "-t", "=reader:")
    reader.type(*text("q"))
    reader.reads(b"q")


def test_keys_go_to_the_pane_that_is_named(reader: Reader) -> None:
    reader.world.tmux("split-window", "-t", "=reader:", "sleep 1000")
    send_keys(reader.ref, "%0", text("here"), reader.world.environment)
    reader.reads(b"here")


def test_pasted_lines_come_bracketed_where_the_program_asked_for_it(world: World) -> None:
    reader = Reader(world, bracketed=True)
    paste(reader.ref, None, "one\ntwo; 'é'\x1b[201~rm\n", world.environment)
    reader.reads("\x1b[200~one\rtwo; 'é'rm\r\x1b[201~".encode())


def test_pasted_lines_come_as_typed_where_it_did_not_and_no_buffer_stays(reader: Reader) -> None:
    big = "x" * 300_000 + "\nend"
    paste(reader.ref, None, big, reader.world.environment)
    reader.reads(big.replace("\n", "\r").encode())
    assert reader.world.tmux("list-buffers") == ""


def test_nothing_to_paste_is_nothing_done(reader: Reader) -> None:
    paste(reader.ref, None, "", reader.world.environment)
    reader.type()
    reader.type(*text("x"))
    reader.reads(b"x")


def test_a_pane_that_is_gone_or_dead_is_an_error_and_leaves_no_buffer(reader: Reader) -> None:
    gone = reader.ref._replace(name="read")
    with pytest.raises(ToolFailedError, match="session is gone"):
        send_keys(gone, None, text("x"), reader.world.environment)
    with pytest.raises(ToolFailedError, match="session is gone"):
        paste(gone, None, "x", reader.world.environment)
    assert reader.world.tmux("list-buffers") == ""
    reader.world.tmux("set-option", "-w", "-t", "=reader:", "remain-on-exit", "on")
    reader.world.tmux("respawn-pane", "-k", "-t", "=reader:", "true")
    eventually(lambda: reader.world.tmux("display-message", "-p", "-t", "=reader:", "#{pane_dead}") == "1\n", "its end")
    with pytest.raises(ToolFailedError, match="The pane is dead"):
        reader.type(*text("x"))


def test_a_key_that_tmux_cannot_type_is_refused_before_anything_is_sent(reader: Reader) -> None:
    assert not is_sendable(Keystroke(name="launch_rocket"))
    with pytest.raises(UsageError, match="launch_rocket"):
        reader.type(Keystroke(name="launch_rocket"))
    with pytest.raises(UsageError):
        reader.type(Keystroke(text="ab", ctrl=True))

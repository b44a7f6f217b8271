"""What a row of a table of keys is, and the keys that work on every screen.

Each screen has one table: its bindings, key line, command palette, help and part of the README are all made from it.
A row says where a key works and why it would not, so that a key that refuses can say so. Rows are grouped and ordered
as help shows them. `action` is also the name under which a screen does it, and under which tests press it: a test fails
when a row is never pressed. The tables themselves are in `fleet.keys`, `run.keys`, … and together in `key_tables`.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any

from selftest_core.frozen import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable

type Reason = Callable[[Any], str | None]
"""Why a key cannot do its work, asked with what its screen's `situation()` gave; None where it can."""


class Where(StrEnum):
    """Who has the key: the list that the screen is about (only while it has the focus), the screen, the whole

    application, the prompt line, or the right pane while it is typed into (which has its own binding of it).
    """

    TABLE = "table"
    SCREEN = "screen"
    APP = "app"
    PROMPT = "prompt"
    TYPING = "typing"


class Topic(StrEnum):
    """Headings of the help screen. A screen may have others of its own."""

    MOVE = "Move"
    FIND = "Find and arrange"
    MARK = "Mark"
    ACT = "Act on the marked agents, or the one under the cursor"
    LOOK = "The right pane"
    PROMPT = "While typing"
    PROGRAM = "Program"


def always(_: object) -> str | None:
    """It works anywhere."""
    return None


@dataclass(frozen=True, slots=True)
class Key:
    """One row. `keys` as Textual names them; `shows` as people write them; `label` for the key line, `help` in full.

    `line`: its place in the key line, lowest first and kept longest when space is short; 0 for none.
    `opens`: it opens a dialog, and what is typed behind it is for that.
    """

    keys: tuple[str, ...]
    shows: str
    action: str
    label: str
    help: str
    topic: str
    where: Where = Where.SCREEN
    line: int = 0
    disabled_reason: Reason = always
    priority: bool = False
    opens: bool = False


def move(keys: str, shows: str, action: str, text: str) -> Key:
    """A row that moves the cursor of a list."""
    return Key(tuple(keys.split()), shows, action, action.replace("_", " "), text, Topic.MOVE, Where.TABLE)


@dataclass(frozen=True, slots=True)
class KeyTable:
    """All keys of one screen, those of the application included. `screen`: its name, as a heading."""

    screen: str
    rows: tuple[Key, ...]

    def row(self, action: str) -> Key:
        """The row of that action. Raises KeyError where there is none."""
        for key in self.rows:
            if key.action == action:
                return key
        raise KeyError(action)

    def of(self, where: Where) -> tuple[Key, ...]:
        """The keys that work there, in the table's order."""
        return tuple(key for key in self.rows if key.where is where)

    def line(self) -> tuple[tuple[Key, ...], tuple[Key, ...]]:
        """What the bottom line offers, the most wanted first: acts (left), and the program's own (right)."""
        wanted = sorted((key for key in self.rows if key.line), key=lambda key: key.line)
        return (
            tuple(key for key in wanted if key.where is not Where.APP),
            tuple(key for key in wanted if key.where is Where.APP),
        )

    def by_topic(self) -> tuple[tuple[str, tuple[Key, ...]], ...]:
        """The whole table under its headings, in the order in which they come."""
        topics = dict.fromkeys(key.topic for key in self.rows)
        return tuple((str(topic), tuple(key for key in self.rows if key.topic == topic)) for topic in topics)


APP = (
    Key(("question_mark",), "?", "help", "help", "this help", Topic.PROGRAM, Where.APP, line=1, opens=True),
    Key(("ctrl+p",), "^p", "palette", "palette", "all actions by name", Topic.PROGRAM, Where.APP, line=2, opens=True),
    Key(("q",), "q", "leave", "quit", "quit; the agents go on", Topic.PROGRAM, Where.APP, line=3),
    Key(("ctrl+c",), "^c", "interrupt", "quit", "close what lies on top; else quit", Topic.PROGRAM, Where.APP,
        priority=True),
    Key(("ctrl+q",), "^q", "no_quit", "nothing", "does nothing here, on purpose: inside an agent's terminal mngr's "
        "ctrl+q destroys the agent, so no finger should learn it", Topic.PROGRAM, Where.APP),
)  # fmt: skip
"""What works on every screen; the last rows of each screen's table."""

BY_APP_ACTION = {key.action: key for key in APP}

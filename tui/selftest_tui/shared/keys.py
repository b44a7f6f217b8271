"""Key tables: what a row is, and the rows that several screens share.

Each screen has one table. Its bindings, key line, command palette, help, docs/keys.md and part of the README are made
from it. A row has the reason why a key is disabled, so that a disabled key can give it. Rows are grouped and ordered
as help shows them. `action` is the name under which a screen does it, and under which tests press it: a test fails
when a row is never pressed. A key runs the same action on all screens; tests/tui/test_key_tables.py has the exceptions.
The tables themselves are in `fleet.keys`, `run.keys`, … and together in `app.key_tables`. A table has the keys that it
was written with; `choose_keys` lays the user's own over all tables, and what is shown to a person is made from `now`.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any, Protocol

from textual.binding import Binding

from selftest_core.frozen import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from textual.binding import BindingType

type Reason = Callable[[Any], str | None]
"""Returns the reason why a key is disabled, given the screen's `situation()`; None if the key works."""


class Where(StrEnum):
    """The part of the application that has a key."""

    TABLE = "table"
    """The list that the screen is about, while it has the focus."""
    SCREEN = "screen"
    APP = "app"
    PROMPT = "prompt"
    """The line that is typed into."""
    TYPING = "typing"
    """The right pane while it is typed into; it has its own binding."""


class Topic(StrEnum):
    """Headings of help. A screen may have others of its own."""

    MOVE = "Move"
    FIND = "Find and arrange"
    MARK = "Mark"
    ACT = "Act on the marked agents, or the one under the cursor"
    LOOK = "The right pane"
    GO = "To other screens"
    PROMPT = "While typing"
    PROGRAM = "Program"


def always(_: object) -> str | None:
    """Disable nothing."""
    return None


@dataclass(frozen=True, slots=True)
class Key:
    """One row. `keys` as Textual names them; `shows` as people write them; `label` for the key line, `help` in full.

    `line`: its place in the key line, lowest first and kept longest when space is short; 0 for none.
    `opens`: it opens a dialog, which gets the keys that are typed behind it.
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

    @property
    def is_free(self) -> bool:
        """True if the user may choose other keys for it."""
        return self.where not in (Where.PROMPT, Where.TYPING) and self.action not in _FIXED


_FIXED = ("interrupt", "no_quit")
"""Actions whose keys are the terminal's or mngr's."""


_chosen: dict[str, Mapping[str, Key]] = {}
"""The rows whose keys the user chose, by table and action. One for the program, as its settings are."""


def choose_keys(rows: Mapping[str, Mapping[str, Key]]) -> None:
    """Show these rows in place of those of the tables, by the name of the table and the action. Empty: none."""
    _chosen.clear()
    _chosen.update(rows)


def shown(place: str, key: str) -> str:
    """The first key of an action now, for a sentence. `place`: such as `fleet.start`; `key`: that of the table.

    A test holds both against the tables, which sentences of other rooms cannot import.
    """
    table, _, action = place.partition(".")
    tables = (_chosen.get(table, {}),) if table != "app" else tuple(_chosen.values())
    row = next((rows[action] for rows in tables if action in rows), None)
    return row.shows.partition(" ")[0] if row is not None else key


@dataclass(frozen=True, slots=True)
class KeyTable:
    """All keys of one screen. `screen`: its name, as a heading. `shared`: the rows that other screens have too.

    `own`, `shared`, `rows` and what is made of them have the keys of the table; the methods that say so those of now.
    """

    screen: str
    own: tuple[Key, ...]
    shared: tuple[Key, ...]
    short_name: str = ""

    @property
    def name(self) -> str:
        """Its name in settings."""
        return self.short_name or self.screen.lower()

    def now(self, rows: Iterable[Key]) -> tuple[Key, ...]:
        """Some of its rows, with the keys that the user chose."""
        chosen = _chosen.get(self.name)
        return tuple(chosen.get(key.action, key) for key in rows) if chosen else tuple(rows)

    @property
    def rows(self) -> tuple[Key, ...]:
        """Its own rows, then the shared ones."""
        return self.own + self.shared

    def row(self, action: str) -> Key:
        """The row of that action. Raises KeyError if there is none."""
        for key in self.rows:
            if key.action == action:
                return key
        raise KeyError(action)

    def row_now(self, action: str) -> Key:
        """The row of that action, with the keys that the user chose. Raises KeyError if there is none."""
        return self.now((self.row(action),))[0]

    def of(self, where: Where) -> tuple[Key, ...]:
        """The keys that work there, in the table's order."""
        return tuple(key for key in self.rows if key.where is where)

    def bindings(self, where: Where) -> list[BindingType]:
        """The BINDINGS of its keys there. Their ids, such as `fleet.stop`, are what a keymap of Textual rebinds."""
        return [*bindings_of(self.of(where), self.name)]

    def line(self) -> tuple[tuple[Key, ...], tuple[Key, ...]]:
        """The keys of the bottom line now, the most wanted first: of the screen (left), and of the app (right)."""
        wanted = sorted((key for key in self.now(self.rows) if key.line), key=lambda key: key.line)
        return (
            tuple(key for key in wanted if key.where is not Where.APP),
            tuple(key for key in wanted if key.where is Where.APP),
        )

    def own_by_topic(self) -> tuple[tuple[str, tuple[Key, ...]], ...]:
        """Its own rows by topic, in their order, with the keys of now."""
        own = self.now(self.own)
        topics = dict.fromkeys(key.topic for key in own)
        return tuple((str(topic), tuple(key for key in own if key.topic == topic)) for topic in topics)


def bindings_of(rows: Iterable[Key], table: str = "") -> list[Binding]:
    """The BINDINGS of a widget, a screen or the app for these rows. `table`: its name, where keys can be rebound.

    Every key runs one action, `press`, with the name of its row: so one place checks whether the key is disabled.
    """
    return [
        Binding(
            name,
            f"{'app' if key.where is Where.APP else 'screen'}.press('{key.action}')",
            key.label,
            show=False,
            priority=key.priority,
            tooltip=key.help,
            id=f"{table}.{key.action}" if table and key.is_free else None,
        )
        for key in rows
        for name in key.keys
    ]


class HasProblems(Protocol):
    """A situation that counts problems, and messages that were shown."""

    @property
    def problems(self) -> int: ...


class HasPane(Protocol):
    """A situation with a right pane."""

    @property
    def pane_is_open(self) -> bool: ...


def problems_disabled_reason(now: HasProblems) -> str | None:
    """There must be a problem or a message to read."""
    return None if now.problems else "No problem is known, and nothing was said yet."


def scroll_disabled_reason(now: HasPane) -> str | None:
    """The right pane must be on the screen."""
    return None if now.pane_is_open else "The right pane is closed: + opens it."


APP = (
    Key(("question_mark",), "?", "help", "help", "this help; / searches it", Topic.PROGRAM, Where.APP, line=1,
        opens=True),
    Key(("ctrl+p",), "^p", "palette", "palette", "all actions by name", Topic.PROGRAM, Where.APP, line=2, opens=True),
    Key(("T",), "T", "theme", "theme", "choose the colours: light, dark and others", Topic.PROGRAM, Where.APP,
        opens=True),
    Key(("q",), "q", "leave", "quit", "quit; the agents continue", Topic.PROGRAM, Where.APP, line=3),
    Key(("ctrl+c",), "^c", "interrupt", "quit", "close what lies on top; else quit", Topic.PROGRAM, Where.APP,
        priority=True),
    Key(("ctrl+q",), "^q", "no_quit", "nothing", "does nothing here, on purpose: inside an agent's terminal mngr's "
        "ctrl+q destroys the agent, so no finger should learn it", Topic.PROGRAM, Where.APP),
)  # fmt: skip
"""The keys of every screen."""

BY_APP_ACTION = {key.action: key for key in APP}

PROBLEMS = Key(
    ("e",), "e", "problems", "problems", "the problems of now with their solutions, and the last messages",
    Topic.PROGRAM, disabled_reason=problems_disabled_reason, opens=True,
)  # fmt: skip

SEARCH_ALL = Key(
    ("F",), "F", "search_all", "search all", "search everything that agents did, over all runs", Topic.GO, opens=True,
)  # fmt: skip

PROMPT = (
    Key(("up",), "↑", "prompt_up", "up", "while typing a filter: one line up", Topic.PROMPT, Where.PROMPT),
    Key(("down",), "↓", "prompt_down", "down", "while typing a filter: one line down", Topic.PROMPT, Where.PROMPT),
    Key(("escape",), "esc", "prompt_cancel", "cancel", "while typing: leave the prompt, and clear the filter",
        Topic.PROMPT, Where.PROMPT),
)  # fmt: skip
SCROLLBACK = Key(
    ("ctrl+r",), "^r", "prompt_history", "scrollback", "while typing a search: search the scrollback too, or not",
    Topic.PROMPT, Where.PROMPT,
)  # fmt: skip
"""A key of the prompt, for the screen that searches terminals."""


def _move(keys: str, shows: str, action: str, text: str) -> Key:
    return Key(tuple(keys.split()), shows, action, action.replace("_", " "), text, Topic.MOVE, Where.TABLE)


SPLIT = (
    _move("down j", "↓ j", "down", "one line down"),
    _move("up k", "↑ k", "up", "one line up"),
    _move("pagedown ctrl+f", "PgDn ^f", "page_down", "one page down"),
    _move("pageup ctrl+b", "PgUp ^b", "page_up", "one page up"),
    _move("home", "Home", "first", "to the first line"),
    _move("end G", "End G", "last", "to the last line"),
    _move("left h", "← h", "close_group", "close this group"),
    _move("right l", "→ l", "open_group", "open this group"),
    Key(("plus",), "+", "zoom", "zoom", "the right pane over the whole screen, and back", Topic.LOOK, line=16),
    Key(("J", "shift+down"), "J", "scroll_down", "scroll down", "scroll the right pane down", Topic.LOOK,
        disabled_reason=scroll_disabled_reason),
    Key(("K", "shift+up"), "K", "scroll_up", "scroll up", "scroll the right pane up", Topic.LOOK,
        disabled_reason=scroll_disabled_reason),
    Key(("shift+right",), "shift+→", "pan_right", "scroll right", "scroll the right pane to the right", Topic.LOOK,
        disabled_reason=scroll_disabled_reason),
    Key(("shift+left",), "shift+←", "pan_left", "scroll left", "scroll the right pane to the left", Topic.LOOK,
        disabled_reason=scroll_disabled_reason),
    Key(("right_curly_bracket",), "}", "table_wider", "wider table",
        "make the table wider, and the right pane narrower (mouse: drag the border); it is remembered", Topic.LOOK),
    Key(("left_curly_bracket",), "{", "table_narrower", "narrower table",
        "make the table narrower, and the right pane wider", Topic.LOOK),
    Key(("W",), "W", "choose_columns", "columns", "choose the columns of the table; they are remembered", Topic.LOOK,
        opens=True),
    SEARCH_ALL,
    Key(("colon",), ":", "command", "command",
        "run an action by its name, an alias of the settings or a view; tab completes", Topic.PROGRAM),
    PROBLEMS,
    *PROMPT,
    *APP,
)  # fmt: skip
"""The keys of every screen with a list and a right pane."""

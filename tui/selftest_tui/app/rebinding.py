"""Keys that the user chose in the settings, `[keys]` and `[keys.SCREEN]`, checked against the key tables.

Only a table of keys that is right as a whole is used: with one of two swapped keys refused, the other would do on its
old key what nobody expects there. Loaded only where keys are chosen.
"""

from __future__ import annotations

import re
import string
from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING

from textual.binding import Binding
from textual.keys import Keys

from selftest_core.frozen import dataclass
from selftest_tui.app.key_tables import TABLES
from selftest_tui.shared.keys import APP, Key, Where

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from selftest_core.config import Config
    from selftest_tui.shared.keys import KeyTable

_NO_KEY = "no_key"
"""The key of a binding that no key runs: Textual takes an empty one for no choice."""
_FIXED = {"ctrl+c": "quits, or copies", "ctrl+q": "destroys the agent in an agent's terminal"}
_SAME = {
    "ctrl+i": "tab", "ctrl+m": "enter", "ctrl+left_square_bracket": "escape", "ctrl+h": "backspace", "return": "enter",
}  # fmt: skip
"""Names of what a terminal sends for another key."""
_OTHER_NAMES = {"esc": "escape", "pgup": "pageup", "pgdn": "pagedown", "del": "delete", ",": "comma"}
_SHOWN = {
    "enter": "⏎", "escape": "esc", "up": "↑", "down": "↓", "left": "←", "right": "→", "pageup": "PgUp",
    "pagedown": "PgDn", "home": "Home", "end": "End", **{f"f{number}": f"F{number}" for number in range(1, 25)},
}  # fmt: skip
_ALT = re.compile(r"alt\+[a-z0-9]")
_KNOWN = {key.value for key in Keys if not key.value.startswith("<")}
_EVERYWHERE = {key.action: key for key in APP}


@dataclass(frozen=True, slots=True)
class ChosenKeys:
    """The user's choice. `rows`: by table and action; `keymap`: Textual's, by the ids of bindings.

    `wrong`: why none of it is used, a line for each fault; then the others are empty.
    """

    rows: Mapping[str, Mapping[str, Key]]
    keymap: Mapping[str, str]
    wrong: tuple[str, ...] = ()


def chosen_keys(config: Config) -> ChosenKeys:
    """Check the settings of keys, and lay them over the key tables."""
    wrong: list[str] = []
    chosen: dict[str, dict[str, tuple[tuple[str, ...], str]]] = {table.name: {} for table in TABLES}
    for name in sorted(config.keys, key=lambda one: "." in one):  # a screen's own override those of all
        where = f"{config.sources[f'keys.{name}']}: keys.{name}"
        screen, _, action = name.rpartition(".")
        reason = _action_disabled_reason(screen, action)
        keys = tuple(dict.fromkeys(map(key_named, config.keys[name])))
        unfit = [f"{where}: {why}" for text in config.keys[name] if (why := _why_not(text, key_named(text)))]
        wrong += [f"{where}: {reason}"] if reason else unfit
        if not reason and not unfit:
            for table in TABLES:
                if screen in ("", table.name) and _row(table, action) is not None:
                    chosen[table.name][action] = (keys, where)
    for table in TABLES:
        wrong += _clashes(table, chosen[table.name])
    if wrong:
        return ChosenKeys({}, {}, tuple(dict.fromkeys(wrong)))
    rows = {
        table.name: {
            action: replace(table.row(action), keys=keys, shows=shown(keys))
            for action, (keys, _) in chosen[table.name].items()
        }
        for table in TABLES
    }
    keymap = {
        f"{'app' if action in _EVERYWHERE else table}.{action}": ",".join(keys) or _NO_KEY
        for table, found in chosen.items()
        for action, (keys, _) in found.items()
    }
    return ChosenKeys({table: found for table, found in rows.items() if found}, keymap)


def key_named(text: str) -> str:
    """Textual's name of a key as people write it: `X`, `?`, `^x`, `ctrl+x`, `f5`, `esc`."""
    name = text if len(text) == 1 else text.lower()
    if len(name) == 2 and name[0] == "^":
        name = f"ctrl+{name[1]}"
    name = _OTHER_NAMES.get(name, name)
    if (len(name) > 1 and name[-2] != "+") or not name.strip():
        return name
    return name[:-1] + next(iter(Binding.make_bindings([Binding(name[-1], "press")]))).key


_PUNCTUATION = {key_named(character): character for character in string.punctuation}
"""Characters by Textual's names of their keys."""


def shown(keys: tuple[str, ...]) -> str:
    """Keys as people write them: `X`, `^x ⏎`. Without a key the action is in the palette."""
    return " ".join(map(_shown, keys)) or "^p"


def _shown(key: str) -> str:
    before, plus, last = key.rpartition("+")
    text = _SHOWN.get(last) or _PUNCTUATION.get(last, last)
    return f"^{text}" if before == "ctrl" else f"{before}{plus}{text}"


def _row(table: KeyTable, action: str) -> Key | None:
    return next((key for key in table.rows if key.action == action), None)


def _why_not(text: str, key: str) -> str:
    """Return why a key cannot be chosen; empty if it can."""
    if key in _FIXED:
        return f"{text} cannot be chosen: it {_FIXED[key]}."
    if key in _SAME:
        return f"{text} cannot be chosen: a terminal sends {_SAME[key]} for it."
    is_known = key in _KNOWN or len(key) == 1 or _ALT.fullmatch(key) or key in _PUNCTUATION
    return "" if is_known else f'there is no key "{text}". Such as "X", "?", "ctrl+x", "alt+x", "f5", "enter".'


def _action_disabled_reason(screen: str, action: str) -> str:
    """Return why no key can be chosen for this action; empty if one can."""
    import difflib

    tables = [table for table in TABLES if screen in ("", table.name)]
    if not tables:
        return f"there is no screen {screen}. The screens are: {', '.join(table.name for table in TABLES)}."
    found = [row for table in tables if (row := _row(table, action)) is not None]
    if not found:
        names = sorted({key.action for table in tables for key in table.rows if key.is_free})
        near = difflib.get_close_matches(action, names, n=1, cutoff=0.5)
        hint = f"Did you mean {near[0]}?" if near else "docs/keys.md names all."
        return f"there is no action {action}{f' on the screen {screen}' if screen else ''}. {hint}"
    if not any(key.is_free for key in found):
        return "its key is fixed."
    return "it works on every screen: write it in [keys]." if screen and action in _EVERYWHERE else ""


def _clashes(table: KeyTable, chosen: Mapping[str, tuple[tuple[str, ...], str]]) -> Iterator[str]:
    """Name each key of a screen that two actions would have."""
    rows_by_key: dict[str, list[Key]] = defaultdict(list)
    for row in table.rows:
        if row.where not in (Where.PROMPT, Where.TYPING):
            for key in chosen[row.action][0] if row.action in chosen else row.keys:
                rows_by_key[key].append(row)
    for key, rows in rows_by_key.items():
        ours = [row for row in rows if row.action in chosen]
        if len(rows) > 1 and ours:
            others = ", ".join(row.action for row in rows if row is not ours[0])
            where = chosen[ours[0].action][1]
            yield f"{where}: {_shown(key)} is also the key of {others} on the screen {table.name}."

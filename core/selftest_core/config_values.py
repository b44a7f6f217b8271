"""One setting and its values: kinds, parsing from TOML and from text, and the error for a wrong value.

It reads neither files nor the environment, and knows no meaning of a setting.
"""

from __future__ import annotations

import math
import os
import re
import shlex
from pathlib import Path
from typing import Literal

from selftest_core.errors import ConfigError
from selftest_core.frozen import dataclass

ENVIRONMENT_PREFIX = "SELFTEST_TUI_"

type Value = str | bool | int | float | tuple[str, ...] | None
type Kind = Literal[
    "text",
    "choice",
    "path",
    "switch",
    "seconds",
    "number",
    "count",
    "money",
    "paths",
    "words",
    "names",
    "prices",
    "keys",
]

_WANTED = {
    "text": "a string",
    "path": "a path",
    "switch": "true or false",
    "seconds": "a number of seconds",
    "number": "a number",
    "count": "a whole number",
    "money": 'an amount of USD, or "" for none',
    "paths": "a list of paths",
    "words": "a list of words, or one string of them",
    "names": "a list of names of environment variables",
    "keys": 'a key such as "X", "ctrl+x" or "f5", a list of keys, or "" for none',
    "prices": "a table of models, each with four prices in USD per million tokens: input, cached, cache write, output",
}
_LISTS = frozenset({"paths", "words", "names", "prices", "keys"})
_SWITCHES = {"true": True, "1": True, "yes": True, "on": True, "false": False, "0": False, "no": False, "off": False}
_MOST_PRICE = 1e6
"""USD per million tokens: a larger price is a slip, and sums of it would not be finite."""
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True)
class Key:
    """One setting. `default`: as TOML gives it. `least`: the smallest value of a number. `choices`: the values of a
    choice. `types`: for a setting of agent types, the types that have it; empty: any."""

    name: str
    kind: Kind
    default: Value
    help: str
    least: float = 0.0
    choices: tuple[str, ...] = ()
    types: tuple[str, ...] = ()

    @property
    def default_text(self) -> str:
        """The default, written in TOML."""
        return toml_text(self.default)

    @property
    def environment_name(self) -> str:
        """The environment variable that sets it."""
        return ENVIRONMENT_PREFIX + self.name.upper().replace(".", "__").replace("-", "_")


def toml_text(value: Value) -> str:
    """Format a value as TOML; None is an empty string."""
    if value is None:
        return '""'
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    if isinstance(value, int | float):
        return f"{value:g}"
    return "[" + ", ".join(toml_text(part) for part in value) + "]"


def from_toml(key: Key, value: object, where: str, folder: Path) -> Value:
    """Check and convert a TOML value; paths are relative to `folder`. Raises ConfigError, which names `where`."""
    match key.kind, value:
        case ("switch", bool()):
            return value
        case ("seconds" | "number" | "money", int() | float()) if not isinstance(value, bool):
            return _number(key, float(value), where)
        case ("count", int()) if not isinstance(value, bool):
            return int(_number(key, value, where))
        case ("paths", list()) if all(isinstance(part, str) and part for part in value):
            return tuple(_absolute(part, folder) for part in value)
        case ("words" | "keys", list()) if all(isinstance(part, str) for part in value):
            return tuple(value)
        case ("names", list()) if all(isinstance(part, str) for part in value):
            return _names(key, value, where)
        case ("prices", dict()) if all(isinstance(four, list) for four in value.values()):
            return _prices(key, [f"{model}={','.join(map(str, four))}" for model, four in value.items()], where)
        case ("prices", list()) if all(isinstance(part, str) for part in value):
            return _prices(key, value, where)
        case ("text" | "choice" | "path" | "words" | "keys" | "money", str()) if key.kind != "money" or not value:
            return from_text(key, value, where, folder)
    raise wrong(key, f"{value!r}"[:80], f"must be {_wanted(key)}", where)


def from_text(key: Key, text: str, where: str, folder: Path) -> Value:
    """Parse a value of an environment variable or a flag.

    A list is written as in TOML (`["a", "b"]`), or in short: paths with colons as in PATH, words as in a shell, names
    with blanks or commas. Raises ConfigError, which names `where`.
    """
    try:
        listed = _toml_list(text) if key.kind in _LISTS else None
        if listed is not None:
            return from_toml(key, listed, where, folder)
        match key.kind:
            case "text":
                return text
            case "choice":
                if text in key.choices:
                    return text
            case "path":
                return _absolute(text, folder) if text else ""
            case "switch":
                return _SWITCHES[text.strip().lower()]
            case "seconds" | "number":
                return _number(key, float(text), where)
            case "money":
                return _number(key, float(text), where) if text.strip() not in ("", '""') else None
            case "count":
                return int(_number(key, int(text), where))
            case "paths":
                return tuple(_absolute(part, folder) for part in text.split(os.pathsep) if part)
            case "words":
                return tuple(shlex.split(text))
            case "keys":
                return tuple(text.split())
            case "prices":
                return _prices(key, text.split(), where)
            case "names":
                return _names(key, text.replace(",", " ").split(), where)
    except (ValueError, KeyError):
        pass
    raise wrong(key, f"{text!r}"[:80], f"must be {_wanted(key)}", where)


def _toml_list(text: str) -> list[str] | None:
    """Parse a TOML list of strings. None for other text: a pattern such as `[0-9]+` is no list."""
    stripped = text.strip()
    if not (stripped.startswith("[") and stripped.endswith("]")):
        return None
    import tomllib

    try:
        value = tomllib.loads(f"value = {stripped}")["value"]
    except tomllib.TOMLDecodeError:
        if stripped[1:].lstrip().startswith(('"', "'")):
            raise ValueError("a list that is not complete") from None
        return None
    return value if isinstance(value, list) and all(isinstance(part, str) for part in value) else None


def wrong(key: Key, shown: str, rule: str, where: str) -> ConfigError:
    """Make the error for a wrong value."""
    return ConfigError(
        f"{where}: {key.name} {rule}, not {shown}", "", f"{key.name}: {key.help} (default {key.default_text})."
    )


def _wanted(key: Key) -> str:
    return f"one of {', '.join(key.choices)}" if key.kind == "choice" else _WANTED[key.kind]


def _number(key: Key, value: float, where: str) -> float:
    if not math.isfinite(value) or value < key.least:
        unit = " seconds" if key.kind == "seconds" else ""
        raise wrong(key, f"{value:g}", f"must be at least {key.least:g}{unit}", where)
    return value


def _names(key: Key, names: list[str], where: str) -> tuple[str, ...]:
    unfit = next((name for name in names if not _NAME.fullmatch(name)), None)
    if unfit is not None:
        raise wrong(key, f"{unfit.partition('=')[0]!r}"[:80], f"must be {_wanted(key)}", where)
    return tuple(names)


def _prices(key: Key, words: list[str], where: str) -> tuple[str, ...]:
    """Check words of the form `model=input,cached,cache write,output`."""
    for word in words:
        model, _, prices = word.rpartition("=")
        four = prices.split(",")
        try:
            is_sound = bool(model) and len(four) == 4 and all(0 <= float(each) <= _MOST_PRICE for each in four)
        except ValueError:
            is_sound = False
        if not is_sound:
            raise wrong(key, f"{word!r}"[:80], f"must be {_wanted(key)}", where)
    return tuple(words)


def _absolute(text: str, folder: Path) -> str:
    return str((folder / Path(text).expanduser()).absolute())

"""One door for text that agents wrote: parsed within limits of size and depth, or refused with the reason.

Parsers are fed with what an agent likes: a million statements, a dotted import of a hundred thousand names (Python's
own parser takes minutes for it), a sum of thirty thousand terms (which `ast.dump` cannot walk). Each limit is some
times what the largest files of real projects have; docs/decisions/51-hostile-text-is-parsed-here.md has the figures.
"""

from __future__ import annotations

import ast
import configparser
import json
import re
import tomllib
import warnings
from typing import Any

LARGEST = 1024 * 1024
"""Characters of a Python or JSON file."""
_LARGEST_TOML = 256 * 1024
_LARGEST_INI = 64 * 1024
"""Characters. The reader of INI files builds its message anew for each line that is wrong."""
_MOST_TOKENS = 100_000
_LONGEST_NAME = 300
"""Dots in one dotted name: the parser joins names anew for each."""
_LONGEST_NUMBER = 14_000
"""Bits; as text it would be longer than what Python converts (`sys.get_int_max_str_digits`)."""
_DEEPEST = 150
"""Levels of a syntax tree; code that walks it needs a few calls for each."""
_DEEPEST_VALUES = 60
"""Brackets within brackets."""
_MOST_DOTS = 60
"""Dots in a line of TOML: each key costs as many steps as the table above it has names."""
_LONGEST_BLANK = 200
"""Blanks in a row of INI: its reader's pattern is quadratic in them."""
_TOKEN = re.compile(r"\w+|[^\w\s]")
_CODING = re.compile(r"(?:[^\n]*\n)?[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)")
_SUPERSETS = re.compile(r"(?i)utf[-_]?8(-sig)?|latin|iso-?8859|us-?ascii|ascii|cp125\d|windows-125\d")
"""Encodings in which ASCII means itself."""


class UnreadableError(ValueError):
    """A text that is not parsed. Its message is the reason."""


def read_python(text: str, *, deepest: int = _DEEPEST) -> ast.Module:
    """Parse a module. Raises UnreadableError for what is no Python, and for what is too large or nested too deeply.

    `deepest`: levels of the syntax tree; more only for whoever walks it without recursion.
    """
    text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    _limit(text, LARGEST)
    coding = _CODING.match(text)
    if coding and not _SUPERSETS.match(coding[1]):
        raise UnreadableError(f"it declares the encoding {coding[1][:40]}")
    dots, last = 0, ""
    for number, found in enumerate(_TOKEN.finditer(text)):
        token = found[0]
        if number > _MOST_TOKENS:
            raise UnreadableError(f"it has more than {_MOST_TOKENS:,} words and signs")
        if token == ".":
            dots += 1
            if dots > _LONGEST_NAME:
                raise UnreadableError(f"it has a name with more than {_LONGEST_NAME} dots")
        elif last not in (".", "\\") and token != "\\":
            dots = 0
        last = token
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # they would be printed over the screen
            module = ast.parse(text)
    except (RecursionError, MemoryError) as error:
        raise UnreadableError("it is nested too deeply") from error
    except (SyntaxError, ValueError) as error:
        raise UnreadableError(f"it is no Python: {getattr(error, 'msg', error)}"[:200]) from error
    level: list[ast.AST] = [module]
    for _ in range(deepest):
        level = [child for node in level for child in ast.iter_child_nodes(node)]
        if not level:
            return module
        if any(isinstance(one, ast.Constant) and _is_huge(one.value) for one in level):
            raise UnreadableError("it has a number that Python does not print")
    raise UnreadableError("it is nested too deeply")


def _is_huge(value: object) -> bool:
    return isinstance(value, int) and value.bit_length() > _LONGEST_NUMBER


def read_toml(text: str) -> dict[str, Any]:
    """Parse TOML. Raises UnreadableError."""
    _limit(text, _LARGEST_TOML)
    _limit_depth(text)
    if any(line.count(".") > _MOST_DOTS for line in text.split("\n") if len(line) > _MOST_DOTS):
        raise UnreadableError(f"a line has more than {_MOST_DOTS} dots")
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise UnreadableError(f"it is no TOML: {error}"[:200]) from error


def read_ini(text: str) -> configparser.RawConfigParser:
    """Parse an INI file. Raises UnreadableError."""
    _limit(text, _LARGEST_INI)
    if re.search(rf"[^\S\n]{{{_LONGEST_BLANK}}}", text):
        raise UnreadableError(f"it has {_LONGEST_BLANK} blanks in a row")
    parser = configparser.RawConfigParser(strict=False)
    try:
        parser.read_string(text)
    except (configparser.Error, AttributeError) as error:  # it takes a value without a name for a list
        raise UnreadableError(f"it is no INI file: {error}"[:200]) from error
    return parser


def read_json(text: str, **hooks: Any) -> Any:
    """Parse JSON. Raises UnreadableError."""
    _limit(text, LARGEST)
    _limit_depth(text)
    try:
        return json.loads(text, **hooks)
    except (ValueError, RecursionError) as error:
        raise UnreadableError(f"it is no JSON: {error}"[:200]) from error


def _limit(text: str, largest: int) -> None:
    if len(text) > largest:
        raise UnreadableError("it is too large")
    if "\0" in text:
        raise UnreadableError("it has a NUL byte")


def _limit_depth(text: str) -> None:
    """Refuse brackets within brackets, wherever they stand: a text with that many is not worth a second look."""
    depth = 0
    for found in re.finditer(r'"(?:[^"\\\n]|\\.)*"|([\[{])|[\]}]', text):
        if found[1]:
            depth += 1
            if depth > _DEEPEST_VALUES:
                raise UnreadableError("it is nested too deeply")
        elif not found[0].startswith('"'):
            depth = max(0, depth - 1)

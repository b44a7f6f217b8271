"""Text that is made to hang or end a parser is refused with a reason; the largest honest files are not."""

from __future__ import annotations

import ast
import contextlib
import json
import random
import time
from typing import TYPE_CHECKING, Any

import pytest

from selftest_core.collect.hostile_text import UnreadableError, read_ini, read_json, read_python, read_toml

if TYPE_CHECKING:
    from collections.abc import Callable

PYTHON = {
    "operators": "-" * 100_000 + "1", "additions": "+".join("1" * 30_000), "an assertion": "assert 1" + " + 1" * 3_000,
    "lambdas": "lambda: " * 10_000 + "1", "brackets": "(" * 190 + "1" + ")" * 190 + "[" * 500,
    "attributes": "a" + ".b" * 1_000, "an import": "import " + ".".join("a" * 300_000),
    "a hidden import": "import " + ".\\\n".join("a" * 5_000), "statements": "a;" * 500_000, "else": "if a: pass\n" +
    "elif a: pass\n" * 3_000, "a long number": "9" * 5_000, "a number that cannot be printed": "x = 0x" + "f" * 5_000,
    "NUL": "a\0b", "a surrogate": "a = '\ud800'", "UTF-7": "# coding: utf-7\nx = 1", "no encoding": "#\n# coding=x\n",
    "a large file": "x = '" + "a" * 1_100_000 + "'", "no Python": "def (", "f-strings": 'f"{' * 149 + "a",
}  # fmt: skip
OTHERS = {
    "nested TOML": (read_toml, "a = " + "[" * 5_000), "dotted TOML": (read_toml, "[" + ".".join("a" * 9_000) + "]\n"),
    "wrong TOML": (read_toml, "a = "), "large TOML": (read_toml, "a = 1\n#" + "x" * 300_000),
    "blanks": (read_ini, "[a]\nb" + " " * 60_000 + "c\n"), "wrong INI": (read_ini, "x\n" * 10_000),
    "large INI": (read_ini, "[a]\n" + "b = 1\n" * 20_000), "nested JSON": (read_json, "[" * 100_000),
    "wrong JSON": (read_json, "{"), "a long number": (read_json, "9" * 5_000),
}  # fmt: skip


@pytest.mark.parametrize("text", PYTHON.values(), ids=PYTHON)
def test_python_beyond_the_limits_is_refused_at_once(text: str) -> None:
    began = time.process_time()
    with pytest.raises(UnreadableError, match=r"^it "):
        read_python(text)
    assert time.process_time() - began < 2


@pytest.mark.parametrize(("read", "text"), OTHERS.values(), ids=OTHERS)
def test_settings_beyond_the_limits_are_refused_at_once(read: Callable[[str], Any], text: str) -> None:
    began = time.process_time()
    with pytest.raises(UnreadableError, match=r"^(it|a line) "):
        read(text)
    assert time.process_time() - began < 2


def test_what_is_within_the_limits_is_read() -> None:
    text = "\ufeff# -*- coding: latin-1 -*-\r\nx = 1" + " + 1" * 100 + "\r\n" + "y = 1\n" * 20_000
    ast.dump(read_python(text))
    assert read_toml('a.b = "1.2.3"\n') == {"a": {"b": "1.2.3"}}
    assert read_ini("[a]\nb = 1\n")["a"]["b"] == "1"
    assert read_json(json.dumps({"a": [[[1]], "[" * 100]})) == {"a": [[[1]], "[" * 100]}


def test_whatever_is_mixed_is_read_or_refused() -> None:
    parts = [
        "(", ")", "[", "]", "{", "}", "f'{", "'", '"', '"""', "lambda:", "-", "*", "x", ".", ",", "=", ":=", "\n", " ",
        "\t", "if x:\n", "match x:\n case ", "\\\n", "#", "\r", "\f", "0x", "9", "\0", "\ud800", "é", "async ",
        "import a", "@",
    ]  # fmt: skip
    for seed in range(150):
        dice = random.Random(seed)
        mixed = [
            "".join(dice.choices(parts, k=dice.randint(1, 4))) * dice.choice([1, 30, 99, 150, 999]) for _ in range(4)
        ]
        for read in (read_python, read_toml, read_ini, read_json):
            with contextlib.suppress(UnreadableError):
                read("".join(mixed))

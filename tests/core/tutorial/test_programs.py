"""The programs of a block, and the ones that do nothing in their place."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from selftest_core.sync.noop import doing_nothing
from selftest_core.tutorial.programs import Program, ProgramKind, own_programs, programs_of

if TYPE_CHECKING:
    from pathlib import Path

NAME, FILE, MODULE = ProgramKind.NAME, ProgramKind.FILE, ProgramKind.MODULE
IN_PYTHON = """\
#!/usr/bin/env python3
'''Of the shop.'''
from __future__ import annotations
VALUE = 1
print("called")
"""


@pytest.mark.parametrize(
    ("block", "programs"),
    [
        ("# a comment with shop\nshop list", [(NAME, "shop")]),
        ("cd x && shop list | grep tea; ./acme go", [(NAME, "shop"), (NAME, "grep"), (FILE, "acme")]),
        ("TEA=1 env -i A=b shop add 'a; rm'", [(NAME, "shop")]),
        ("if shop list; then\n  shop buy\nfi", [(NAME, "shop")]),
        ("shop add \\\n  tea 2>/dev/null >out", [(NAME, "shop")]),
        ("cat <<'END' | shop read\nacme none\nEND\nbin/tool", [(NAME, "cat"), (NAME, "shop"), (FILE, "bin/tool")]),
        ("python3 -m shop.main add", [(MODULE, "shop.main")]),
        ("uv run --quiet shop; python tools/x.py; sh ./y.sh", [(NAME, "shop"), (FILE, "tools/x.py"), (FILE, "y.sh")]),
        ("echo 'two\nlines shop'\nshop", [(NAME, "shop")]),
        ("timeout 5 shop wait", [(NAME, "shop")]),
        ("python -c 'import shop'", []),
        ('echo "open', []),
    ],
)
def test_programs_are_the_first_words_of_commands(block: str, programs: list[tuple[ProgramKind, str]]) -> None:
    assert list(programs_of(block)) == [Program(*one) for one in programs]


def test_own_programs_are_files_of_the_tree_and_names_that_no_system_has() -> None:
    text = "git init\n./acme add\n./absent\npython -m shop\npython -m venv x\nshop list\npython3 x"
    found = own_programs(text, {"acme", "src/shop/__main__.py"}.__contains__, {"git"}.__contains__)
    assert [(one.kind, one.word) for one in found] == [(FILE, "acme"), (MODULE, "shop"), (NAME, "shop")]


@pytest.mark.parametrize("source", [IN_PYTHON, "this is = no python"])
def test_a_program_in_python_does_nothing_when_it_is_run(tmp_path: Path, source: str) -> None:
    path = tmp_path / "shop.py"
    path.write_bytes(doing_nothing(source.encode(), 3, is_python=True))
    done = subprocess.run([sys.executable, path], capture_output=True, check=False, timeout=60)
    assert (done.returncode, done.stdout) == (3, b"")


def test_a_program_in_python_can_still_be_imported() -> None:
    names: dict[str, object] = {"__name__": "shop"}
    exec(compile(doing_nothing(IN_PYTHON.encode(), 0, is_python=False), "shop", "exec"), names)
    assert names["VALUE"] == 1


def test_another_program_becomes_one_of_the_shell() -> None:
    assert doing_nothing(b"\x7fELF\0", 0, is_python=False) == b"#!/bin/sh\nexit 0\n"

"""Programs that do nothing in place of the project's own, to find tests that cannot fail.

A test of a block that passes although its command does nothing proves nothing about it. The programs of the block are
replaced where its tests find them: a file of the project in the tree that is tested, a name on PATH and in the folders
of the environment's programs. What a test calls in its own process is not replaced, so it must run the program.
"""

from __future__ import annotations

import ast
import os
from pathlib import Path
from typing import TYPE_CHECKING

from selftest_core.frozen import dataclass
from selftest_core.git.trees import LiveTree, TreeReader, parts_of
from selftest_core.tutorial.programs import ProgramKind, module_files, own_programs
from selftest_core.verify.runner import PLUGIN

if TYPE_CHECKING:
    from collections.abc import Sequence

    from selftest_core.git.object_store import ObjectStore
    from selftest_core.tutorial.programs import Program

SYSTEM_FOLDERS = ("/usr/sbin", "/usr/bin", "/sbin", "/bin")
_TESTING = frozenset({"pytest", "py.test", PLUGIN})
_EXECUTABLE = b"100755"


@dataclass(frozen=True, slots=True)
class Noop:
    """The programs of a block that do nothing. `tree`: with those that are files; `names`: those found on PATH."""

    programs: tuple[Program, ...]
    tree: str
    names: tuple[str, ...]


def make_noop(store: ObjectStore, tree: str, texts: Sequence[str], status: int) -> Noop:
    """Replace the project's own programs of these blocks by ones that end with `status` at once."""
    reader = TreeReader(store)

    def is_file(path: str) -> bool:
        entry = reader.find(tree, parts_of(path)) if path and not path.startswith(("/", "~")) else None
        return entry is not None and entry[0] in (b"100644", _EXECUTABLE)

    programs = tuple(dict.fromkeys(one for text in texts for one in own_programs(text, is_file, _is_of_the_system)))
    live = LiveTree(reader, tree)
    for program in programs:
        paths = [program.word] if program.kind is ProgramKind.FILE else []
        if program.kind is ProgramKind.MODULE:
            paths = [path for path in module_files(program.word) if is_file(path)][:1]
        for path in paths:
            mode, oid = reader.find(tree, parts_of(path)) or (_EXECUTABLE, "")
            content = doing_nothing(store.read(oid)[1], status, is_python=path.endswith(".py"))
            live.put(parts_of(path), (mode, store.write(b"blob", content)))
    names = tuple(program.word for program in programs if program.kind is ProgramKind.NAME)
    return Noop(programs, live.flush(), names)


def write_programs(folder: Path, names: Sequence[str], status: int) -> None:
    """Write programs with these names that take all arguments, print nothing, and end with `status`."""
    folder.mkdir(parents=True)
    for name in names:
        path = folder / name
        path.write_bytes(_script(status))
        path.chmod(0o755)


def doing_nothing(content: bytes, status: int, *, is_python: bool) -> bytes:
    """Return a program that does nothing. One in Python still can be imported: its tests may use a part of it."""
    first = content.partition(b"\n")[0]
    if not is_python and not (first.startswith(b"#!") and b"python" in first):
        return _script(status)
    end = f'if __name__ == "__main__":\n    raise SystemExit({status})\n'.encode()
    try:
        module = ast.parse(content)
    except (SyntaxError, ValueError, RecursionError):
        return first + b"\n" + end if first.startswith(b"#!") else end
    at = 1 if first.startswith(b"#!") else 0
    for statement in module.body:
        is_docstring = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
        if not is_docstring and not (isinstance(statement, ast.ImportFrom) and statement.module == "__future__"):
            break
        at = statement.end_lineno or at
    lines = content.splitlines(keepends=True)
    head = b"".join(lines[:at])
    return (head if not head or head.endswith(b"\n") else head + b"\n") + end + b"".join(lines[at:])


def _script(status: int) -> bytes:
    return f"#!/bin/sh\nexit {status}\n".encode()


def _is_of_the_system(name: str) -> bool:
    return name in _TESTING or any(os.access(Path(folder) / name, os.X_OK) for folder in SYSTEM_FOLDERS)

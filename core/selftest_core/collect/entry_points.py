"""Read the names under which a project installs programs, and the functions that they start in.

They stand in pyproject.toml, setup.cfg and setup.py, anywhere in the work tree. Nothing of the project is run.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from selftest_core.collect.hostile_text import UnreadableError, read_ini, read_toml

if TYPE_CHECKING:
    from collections.abc import Iterator

    from selftest_core.collect.import_graph import ImportGraph

_SCRIPT = re.compile(r"([\w.-]+) ?= ?([\w.]+) ?(?:: ?[\w.]+ ?)?(?:\[.*\])?")
"""A line such as `shop = shop.cli:main [extra]`, with single spaces: more of them would take a pattern long."""
_TABLES = (
    ("project", "scripts"), ("project", "gui-scripts"), ("project", "entry-points", "console_scripts"),
    ("tool", "poetry", "scripts"), ("tool", "flit", "scripts"),
)  # fmt: skip


def entry_points(graph: ImportGraph) -> dict[str, tuple[str, ...]]:
    """Map the name of each program to the files in which it may start."""
    found: defaultdict[str, dict[str, None]] = defaultdict(dict)
    readers = {"pyproject.toml": _of_pyproject, "setup.cfg": _of_setup_cfg, "setup.py": _of_setup_py}
    for path in sorted(graph.files):
        reader = readers.get(PurePosixPath(path).name)
        for line in reader(graph.text(path)) if reader is not None else ():
            if match := _SCRIPT.fullmatch(" ".join(line.split())):
                found[match[1]].update(dict.fromkeys(graph.paths_of(match[2])))
    return {name: tuple(paths) for name, paths in found.items() if paths}


def _of_pyproject(text: str) -> Iterator[str]:
    try:
        document = read_toml(text)
    except UnreadableError:
        return
    for keys in _TABLES:
        table: object = document
        for key in keys:
            table = table.get(key) if isinstance(table, dict) else None
        for name, value in table.items() if isinstance(table, dict) else ():
            target = value.get("reference") or value.get("callable") if isinstance(value, dict) else value
            yield f"{name} = {target}"


def _of_setup_cfg(text: str) -> Iterator[str]:
    try:
        parser = read_ini(text)
    except UnreadableError:
        return
    for option in ("console_scripts", "gui_scripts"):
        yield from parser.get("options.entry_points", option, fallback="").splitlines()


def _of_setup_py(text: str) -> Iterator[str]:
    """Yield all texts of the file: those of the form `name = module:function` are its programs."""
    from selftest_core.collect.imports import parsed

    for node in ast.walk(parsed(text)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and ":" in node.value:
            yield from node.value.splitlines()

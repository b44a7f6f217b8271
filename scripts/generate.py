"""Write the generated parts of the documents: tables of keys and settings, the picture of the rooms, docs/schema.json.

    generate.py           write them
    generate.py --check   say what is stale, and end with 1 where anything is

A part stands between `<!-- generated: NAME -->` and `<!-- end of NAME -->` in its document. Nothing else is touched.
"""

from __future__ import annotations

import ast
import json
import sys
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

from selftest_core.config import CONFIG_KEYS, shown_agent_keys, shown_named_keys
from selftest_core.schema.registry import schema
from selftest_tui.app.key_tables import all_keys, most_used_keys

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).resolve().parents[1]
README = ROOT / "README.md"
KEYS = ROOT / "docs" / "keys.md"
SETTINGS = ROOT / "docs" / "settings.md"
ARCHITECTURE = ROOT / "docs" / "architecture.md"
SCHEMA = ROOT / "docs" / "schema.json"


def config_table() -> str:
    """The settings as Markdown: key, default, meaning, environment variable."""
    lines = ["| setting | default | meaning | environment |", "| --- | --- | --- | --- |"]
    for key in (*CONFIG_KEYS, *shown_agent_keys(), *shown_named_keys()):
        lines.append(f"| `{key.name}` | `{key.default_text}` | {key.help} | `{key.environment_name}` |")
    return "\n".join(lines) + "\n"


def rooms_picture() -> str:
    """The layers of rooms in each package, from the contracts of import-linter in pyproject.toml."""
    tools = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]
    contracts = tools["importlinter"]["contracts"]
    lines = ["```"]
    for package in next(one["layers"] for one in contracts if "containers" not in one):
        layers = next(one["layers"] for one in contracts if one.get("containers") == [package])
        lines += [package] if len(lines) == 1 else ["   │", "   ▼", package]
        for number, layer in zip(range(len(layers), 0, -1), layers, strict=True):
            for place, room in enumerate(one.strip("() ") for one in layer.split("|")):
                lines.append(f"{'' if place else number:>4}  {room:<14}{_first_line(package, room)}".rstrip())
    return "\n".join([*lines, "```"]) + "\n"


def _first_line(package: str, room: str) -> str:
    """The first line of a room's docstring, "" where there is no such room."""
    folder = ROOT / package.removeprefix("selftest_") / package
    for path in (folder / room / "__init__.py", folder / f"{room}.py"):
        if path.is_file():
            return (ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "").partition("\n")[0]
    return ""


PARTS: dict[Path, dict[str, Callable[[], str]]] = {
    README: {"keys": most_used_keys},
    KEYS: {"keys": all_keys},
    SETTINGS: {"settings": config_table},
    ARCHITECTURE: {"rooms": rooms_picture},
}
"""The generated parts of each document, by name."""


def with_parts(path: Path, text: str) -> str:
    """The text of a document with its generated parts written anew. Raises ValueError where marks are missing."""
    for name, part in PARTS[path].items():
        begin, end = f"<!-- generated: {name} -->\n", f"<!-- end of {name} -->\n"
        before, found_begin, rest = text.partition(begin)
        _, found_end, after = rest.partition(end)
        if not (found_begin and found_end):
            raise ValueError(f"{path.name} has no {begin.strip()} … {end.strip()}")
        text = f"{before}{begin}\n{part()}\n{end}{after}"
    return text


def generated() -> dict[Path, str]:
    """Every file that has generated parts, with the text that it should have."""
    return {
        **{path: with_parts(path, path.read_text(encoding="utf-8")) for path in PARTS},
        SCHEMA: json.dumps(schema(), indent=2, ensure_ascii=False, sort_keys=True) + "\n",
    }


def main(arguments: list[str]) -> int:
    """Write, or compare with `--check`."""
    stale = [
        path
        for path, text in generated().items()
        if not path.is_file() or path.read_text(encoding="utf-8") != text
    ]  # fmt: skip
    if arguments == ["--check"]:
        for path in stale:
            print(f"{path.relative_to(ROOT)} is stale: run `make generate`", file=sys.stderr)
        return 1 if stale else 0
    if arguments:
        print(__doc__, file=sys.stderr)
        return 2
    for path, text in generated().items():
        if path in stale:
            path.write_text(text, encoding="utf-8")
            print(f"wrote {path.relative_to(ROOT)}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

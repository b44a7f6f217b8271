"""Check the structure of the product's code: import circles, crowded folders, unreferenced definitions.

    structure.py            print what breaks a rule, and end with 1 where anything does
    structure.py PACKAGE…   the same for other packages, given as folders (tests use it)

Which room may import which is checked by import-linter, from the contracts in pyproject.toml.

A definition is unreferenced when no product code that is itself in use names it. Tests, benchmarks and scripts do not
count. References are matched by name, so a method that shares its name with one in use is not found; names in
`getattr` tables count when a string constant is that name, with or without a prefix such as `action_`.
"""

from __future__ import annotations

import ast
import importlib
import sys
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = [
    ROOT / "core" / "selftest_core",
    ROOT / "recorder" / "selftest_recorder",
    ROOT / "tui" / "selftest_tui",
]
MOST_MODULES = 15
"""Modules of a folder, `__init__` not counted."""

ALLOWED = {
    "main": "entry point: pyproject.toml or `python -m` starts it",
    "is_at_rest": "tests and scripts/screenshots.py wait for it",
    "HoldingApp.holds_keys": "tests wait until no key is held for a dialog",
    "HeldKeys.is_holding": "read by holds_keys",
    "all_keys": "scripts/generate.py",
    "most_used_keys": "scripts/generate.py",
    "CollectionError.traceback": "tests read why a file cannot be collected",
    "DiffView.coloured_lines": "tests count what was coloured of a long diff",
    "DiffView.is_coloured": "tests wait for it before they take a picture",
    "ReviewPane.text_of": "tests read what a tab shows",
    "ReviewScreen.is_settled": "tests wait for it",
    "ReviewSession.set_apart": "the review's screen, whose keys for rows follow",
    "ReviewSession.rejoin": "as set_apart",
    "share_probes": "loaded/server.py imports its module by name, in mngr's interpreter",
    "Tutorial.preamble": "tests compare all pieces of a file with the file",
    "_Cases.doctype": "the parser of XML calls it for a document type",
    "_Actor.dawdle": "a verb of the scripts that tests/agents gives to the scripted model",
}
"""Names of definitions that code outside the product refers to, with the reason."""
PUBLIC = ("selftest_recorder.e2e.",)
"""Beginnings of modules whose public names are there for other projects: the framework of end-to-end tests."""
HOOKS = ("action_", "on_", "_on_", "watch_", "_watch_", "validate_", "compute_", "key_", "pytest_", "do_", "visit_")
"""Prefixes of methods and functions that a framework calls by name."""
CALLED_BY_NAME = ("action_", "_do_", "do_", "key_")
"""Prefixes that product code puts before a name from a table."""


@dataclass(eq=False)
class Module:
    """A parsed module."""

    name: str
    path: Path
    tree: ast.Module


@dataclass(eq=False)
class Definition:
    """A function, class, method or constant, and what its body refers to."""

    module: str
    name: str
    """Dotted for members of a class."""
    line: int
    node: ast.AST | None
    owner: Definition | None = None
    references: set[tuple[str, str]] = field(default_factory=set)
    """("name", "module:name") for names of modules, ("member", name) for attributes and string constants."""

    def __str__(self) -> str:
        return f"{self.module}:{self.line} {self.name}"


def modules_of(packages: Iterable[Path]) -> dict[str, Module]:
    """Parse every module of these packages, by dotted name."""
    found = {}
    for package in packages:
        for path in sorted(package.rglob("*.py")):
            parts = [package.name, *path.relative_to(package).with_suffix("").parts]
            if parts[-1] == "__init__":
                parts.pop()
            name = ".".join(parts)
            found[name] = Module(name, path, ast.parse(path.read_text(encoding="utf-8")))
    return found


def _source(node: ast.ImportFrom, module: Module) -> str:
    """The absolute name of what an import reads from."""
    if node.level == 0:
        return node.module or ""
    parts = module.name.split(".")
    above = node.level - (module.path.name == "__init__.py")
    return ".".join([*parts[: len(parts) - above], *([node.module] if node.module else [])])


def import_graph(modules: Mapping[str, Module]) -> dict[str, set[str]]:
    """Map each module to those that it imports, anywhere: lazily and for typing too."""
    graph: dict[str, set[str]] = {name: set() for name in modules}
    for name, module in modules.items():
        for node in ast.walk(module.tree):
            if isinstance(node, ast.Import):
                graph[name].update(one.name for one in node.names if one.name in modules)
            elif isinstance(node, ast.ImportFrom):
                source = _source(node, module)
                for one in node.names:
                    inner = f"{source}.{one.name}"
                    if inner in modules:
                        graph[name].add(inner)
                    elif source in modules:
                        graph[name].add(source)
        graph[name].discard(name)
    return graph


def circles(graph: Mapping[str, set[str]]) -> list[list[str]]:
    """List the groups of modules that import each other, directly or through others (Tarjan's components)."""
    order: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(node: str) -> None:
        order[node] = lowest[node] = len(order)
        stack.append(node)
        for other in sorted(graph[node]):
            if other not in order:
                visit(other)
                lowest[node] = min(lowest[node], lowest[other])
            elif other in stack:
                lowest[node] = min(lowest[node], order[other])
        if lowest[node] == order[node]:
            at = stack.index(node)
            if len(group := stack[at:]) > 1:
                found.append(sorted(group))
            del stack[at:]

    for node in sorted(graph):
        if node not in order:
            visit(node)
    return sorted(found)


def crowded_folders(modules: Mapping[str, Module]) -> dict[str, int]:
    """Map each package with too many modules to their number."""
    count: dict[str, int] = defaultdict(int)
    for name, module in modules.items():
        if module.path.name != "__init__.py":
            count[name.rpartition(".")[0]] += 1
    return {name: number for name, number in sorted(count.items()) if number > MOST_MODULES}


class _Collector(ast.NodeVisitor):
    """Collect a module's definitions, and the references that each of them makes."""

    def __init__(self, module: Module, modules: Mapping[str, Module]) -> None:
        self.module = module.name
        self.modules = modules
        self.definitions: list[Definition] = []
        self.top = Definition(module.name, "<module>", 0, None)
        self._within = self.top
        self._imported: dict[str, str] = {}
        """The name of an import here: `module:name` of what it is, or `module:` for a module itself."""
        self._docstrings: set[int] = set()
        for node in ast.walk(module.tree):
            self._note_import(node, module)
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
                self._docstrings.add(id(node.value))

    def _note_import(self, node: ast.AST, module: Module) -> None:
        if isinstance(node, ast.ImportFrom):
            source = _source(node, module)
            for one in node.names:
                inner = f"{source}.{one.name}"
                target = f"{inner}:" if inner in self.modules else f"{source}:{one.name}"
                self._imported[one.asname or one.name] = target
        elif isinstance(node, ast.Import):
            for one in node.names:
                self._imported[one.asname or one.name] = f"{one.name}:"

    def _define(self, name: str, node: ast.AST, line: int) -> Definition:
        owner = self._within if self._within is not self.top else None
        made = Definition(self.module, f"{owner.name}.{name}" if owner else name, line, node, owner)
        self.definitions.append(made)
        return made

    def _enter(self, made: Definition, parts: Iterable[ast.AST]) -> None:
        before, self._within = self._within, made
        for part in parts:
            self.visit(part)
        self._within = before

    def _is_scope(self) -> bool:
        """Whether what is defined here is a module's or a class's (not a local of a function)."""
        return self._within is self.top or isinstance(self._within.node, ast.ClassDef)

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> None:
        for decorator in node.decorator_list:
            self.visit(decorator)
        if not self._is_scope():
            self.generic_visit(node)
            return
        made = self._define(node.name, node, node.lineno)
        self._enter(made, [part for part in ast.iter_child_nodes(node) if part not in node.decorator_list])

    visit_FunctionDef = visit_AsyncFunctionDef = visit_ClassDef = _function  # noqa: N815 -- names of NodeVisitor

    def visit_Assign(self, node: ast.Assign) -> None:
        targets = [one for one in node.targets if isinstance(one, ast.Name)]
        if self._is_scope() and len(targets) == len(node.targets):
            made = [self._define(one.id, node, node.lineno) for one in targets]
            for one in made:
                self._enter(one, [node.value])
        else:
            self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if self._is_scope() and isinstance(node.target, ast.Name):
            made = self._define(node.target.id, node, node.lineno)
            self._enter(made, [node.annotation, *([node.value] if node.value else [])])
        else:
            self.generic_visit(node)

    def visit_TypeAlias(self, node: ast.TypeAlias) -> None:
        self._enter(self._define(node.name.id, node, node.lineno), [node.value])

    def visit_Name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Load):
            self._refer("name", self._imported.get(node.id, f"{self.module}:{node.id}"))
            # Within a class body, and as a keyword of a function's scope, a plain name may be a member.
            if isinstance(self._within.node, ast.ClassDef) or (
                self._within.owner is not None and not isinstance(self._within.node, ast.FunctionDef)
            ):
                self._refer("member", node.id)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        dotted = _dotted(node)
        target = self._imported.get(dotted.rpartition(".")[0], "") if dotted else ""
        if target.endswith(":"):
            self._refer("name", f"{target}{node.attr}")
        if isinstance(node.ctx, ast.Load | ast.Del):
            self._refer("member", node.attr)
        self.visit(node.value)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, str) and id(node) not in self._docstrings and len(node.value) < 200:
            # A name alone ("open_tests"), or one within an action ("app.quit", "go_to('runs')").
            for word in node.value.replace("(", ".").split("."):
                if word.isidentifier():
                    self._refer("member", word)
                    for prefix in CALLED_BY_NAME:
                        self._refer("member", prefix + word)

    def visit_Call(self, node: ast.Call) -> None:
        if isinstance(node.func, ast.Name) and node.func.id == "cast" and isinstance(node.args[0], ast.Constant):
            self.visit(ast.parse(str(node.args[0].value), mode="eval").body)
        self.generic_visit(node)

    def visit_MatchClass(self, node: ast.MatchClass) -> None:
        for name in node.kwd_attrs:
            self._refer("member", name)
        self.generic_visit(node)

    def _refer(self, kind: str, target: str) -> None:
        self._within.references.add((kind, target))


def _dotted(node: ast.expr) -> str:
    """The dotted name that an expression is, "" where it is none."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(parts)]) if isinstance(node, ast.Name) else ""


def unreferenced(modules: Mapping[str, Module], allowed: Mapping[str, str] = ALLOWED) -> list[Definition]:
    """List the definitions that nothing in use refers to, members only of classes that are in use."""
    definitions: list[Definition] = []
    in_use: list[Definition] = []
    for module in modules.values():
        collector = _Collector(module, modules)
        collector.visit(module.tree)
        definitions += collector.definitions
        in_use.append(collector.top)
    by_name: dict[tuple[str, str], list[Definition]] = defaultdict(list)
    members: dict[Definition, list[Definition]] = defaultdict(list)
    for one in definitions:
        short = one.name.rpartition(".")[2]
        if one.owner is None:
            by_name["name", f"{one.module}:{one.name}"].append(one)
            if _is_allowed(one, allowed) or short.startswith((*HOOKS, "__")) or _is_registered(one):
                in_use.append(one)
        else:
            by_name["member", short].append(one)
            members[one.owner].append(one)
    named: set[tuple[str, str]] = set()
    found: set[Definition] = set()
    while in_use:
        one = in_use.pop()
        if one in found:
            continue
        found.add(one)
        in_use += [member for member in members[one] if _is_implied(one, member, named, allowed)]
        for reference in one.references - named:
            named.add(reference)
            in_use += [
                other
                for other in by_name[reference]
                if other.owner is None or other.owner in found
            ]  # fmt: skip
    return sorted(
        (one for one in definitions if one not in found and (one.owner is None or one.owner in found)),
        key=lambda one: (one.module, one.line),
    )


def _is_implied(owner: Definition, member: Definition, named: set[tuple[str, str]], allowed: Mapping[str, str]) -> bool:
    """Whether a member is in use with its class: named already, a field, or called by a framework."""
    short = member.name.rpartition(".")[2]
    if ("member", short) in named or short.startswith((*HOOKS, "__")) or _is_allowed(member, allowed):
        return True
    return _is_registered(member) or short in _of_frameworks(owner) or _is_data(owner, member)


def _is_allowed(one: Definition, allowed: Mapping[str, str]) -> bool:
    short = one.name.rpartition(".")[2]
    is_public = one.module.startswith(PUBLIC) and not any(part.startswith("_") for part in one.name.split("."))
    return is_public or one.name in allowed or short in allowed


def _is_registered(one: Definition) -> bool:
    """Whether a decorator hands a function to a framework: `on`, `work`, `field_validator`, `fixture`."""
    return isinstance(one.node, ast.FunctionDef | ast.AsyncFunctionDef) and any(
        _dotted(decorator.func if isinstance(decorator, ast.Call) else decorator).rpartition(".")[2]
        not in _PLAIN_DECORATORS
        for decorator in one.node.decorator_list
    )


_PLAIN_DECORATORS = {
    "property", "cached_property", "staticmethod", "classmethod", "contextmanager", "asynccontextmanager", "override",
    "overload", "cache", "lru_cache", "abstractmethod", "setter",
}  # fmt: skip


def _is_data(owner: Definition, member: Definition) -> bool:
    """Whether a member is a column of a document or a member of an enum, which values select and not names."""
    if not isinstance(member.node, ast.Assign | ast.AnnAssign):
        return False
    names = {base.__name__ for base in _bases(owner)}
    return bool(names & {"BaseModel", "Enum", "NamedTuple", "Structure"})


def _of_frameworks(owner: Definition) -> set[str]:
    """The names that a class overrides from bases outside the product."""
    return {name for base in _bases(owner) if not base.__module__.startswith("selftest_") for name in vars(base)}


def _bases(owner: Definition) -> Iterator[type]:
    """The bases of a class, as Python resolves them; none of a class that is given by a folder alone."""
    try:
        made: object = importlib.import_module(owner.module)
        for part in owner.name.split("."):
            made = getattr(made, part)
    except (ImportError, AttributeError):
        return
    if isinstance(made, type):
        yield from made.__mro__[1:-1]


def main(arguments: list[str]) -> int:
    """Print what breaks a rule; 1 where anything does."""
    modules = modules_of([Path(one) for one in arguments] or PACKAGES)
    problems = [f"import circle: {', '.join(group)}" for group in circles(import_graph(modules))]
    problems += [
        f"more than {MOST_MODULES} modules in one folder: {name} has {number}"
        for name, number in crowded_folders(modules).items()
    ]
    problems += [f"unreferenced: {one}" for one in unreferenced(modules)]
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

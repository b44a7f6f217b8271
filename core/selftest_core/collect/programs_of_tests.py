"""Find the project's own programs that tests run, from the text of the tests and of the blocks that they cite.

A test runs what its text names: `["shop", "list"]`, `run("shop list")`, `[sys.executable, "-m", "shop"]`, a cited
block. What it uses belongs to it: functions and constants of its file, functions that it imports from other files of
tests, and fixtures, of its conftest.py files too. Methods of objects are not followed.
"""

from __future__ import annotations

import ast
import posixpath
import re
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from selftest_core.collect.imports import imported_module
from selftest_core.frozen import dataclass
from selftest_core.tutorial.citations import each_test
from selftest_core.tutorial.programs import ProgramKind, command_of, commands_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from selftest_core.collect.import_graph import ImportGraph
    from selftest_core.tutorial.citations import Citation
    from selftest_core.tutorial.programs import Command

_LONGEST = 100_000
"""Characters of a text that is read as commands."""
_TOLD = (
    ast.Expr, ast.FunctionDef, ast.AsyncFunctionDef, ast.Name, ast.arg, ast.List, ast.Tuple, ast.Call, ast.Constant,
    ast.JoinedStr,
)  # fmt: skip
"""The nodes that matter; the others are many, and only lead to them."""
_UNKNOWN = "?"
"""A word that is known only when a test runs."""


@dataclass(frozen=True, slots=True)
class OwnProgram:
    """A program of the project as a test calls it. `name`: for the reason; `starts`: the files that it starts in.

    `word`: its first argument that is no option, None if unknown.
    """

    name: str
    word: str | None
    starts: tuple[str, ...]

    @property
    def shown(self) -> str:
        """The program and its command, as they stand in a reason."""
        return self.name if self.word is None else f"{self.name} {self.word}"


@dataclass(frozen=True, slots=True)
class _Definition:
    """A function, class or constant at the top of a file: the programs that its text names, and the names it uses."""

    programs: frozenset[OwnProgram]
    names: frozenset[str]
    is_class: bool


@dataclass(frozen=True, slots=True)
class _File:
    """A file of tests. `tests`: by the part of a node id behind the file. `imported`: files and name, by local name.

    `conftests`: those of its folders, the nearest first.
    """

    tests: Mapping[str, _Definition]
    definitions: Mapping[str, _Definition]
    imported: Mapping[str, tuple[tuple[str, ...], str]]
    conftests: tuple[str, ...]


class ProgramFinder:
    """Finds the project's programs that tests run. `installed`: the names of programs with the files they start in."""

    def __init__(
        self, graph: ImportGraph, installed: Mapping[str, tuple[str, ...]], citations: Iterable[Citation]
    ) -> None:
        self._graph = graph
        self._installed = installed
        self._cited: dict[str, list[str]] = {}
        for citation in citations:
            self._cited.setdefault(citation.test, []).append(citation.text)
        names = [*installed, "python", "./", ".py", ".sh"]
        self._may_name = re.compile("|".join(re.escape(name) for name in names))
        self._files: dict[str, _File] = {}
        self._texts: dict[str, tuple[OwnProgram, ...]] = {}

    def programs_of(self, path: str, test: str) -> tuple[OwnProgram, ...]:
        """Return the programs that a test runs. `test`: its node id without parameters, in the file `path`."""
        found = {program: None for text in self._cited.get(test, ()) for program in self._in_text(text)}
        if not path.endswith(".py"):
            return tuple(found)
        qualified = test.removeprefix(f"{path}::")
        parts = self._file(path).tests.get(qualified)
        left = [] if parts is None else [(path, parts)]
        seen: set[tuple[str, str]] = set()
        if "::" in qualified:
            left += self._named(path, qualified.partition("::")[0], seen)
        while left:
            file, definition = left.pop()
            found.update(dict.fromkeys(sorted(definition.programs, key=lambda one: (one.name, one.word or ""))))
            for name in sorted(definition.names):
                left += self._named(file, name, seen)
        return tuple(found)

    def _named(self, path: str, name: str, seen: set[tuple[str, str]]) -> Iterator[tuple[str, _Definition]]:
        """Yield the definitions that a name means in a file: its own, imported functions, or a fixture above it."""
        if (path, name) in seen:
            return
        seen.add((path, name))
        file = self._file(path)
        if name in file.definitions:
            yield path, file.definitions[name]
        elif name in file.imported:
            others, original = file.imported[name]
            for other in others:
                made = self._file(other).definitions.get(original) if (other, original) not in seen else None
                seen.add((other, original))
                # A class of helpers can do much of which the test uses little.
                if made is not None and not made.is_class:
                    yield other, made
        else:
            for conftest in file.conftests:
                fixture = self._file(conftest).definitions.get(name)
                if fixture is not None:
                    if (conftest, name) not in seen:
                        seen.add((conftest, name))
                        yield conftest, fixture
                    return

    def _file(self, path: str) -> _File:
        if path not in self._files:
            self._files[path] = self._read(path)
        return self._files[path]

    def _read(self, path: str) -> _File:
        tree = self._graph.tree(path)
        definitions: dict[str, _Definition] = {}
        imported: dict[str, tuple[tuple[str, ...], str]] = {}
        for statement in tree.body:
            match statement:
                case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                    definitions[name] = self._definition(statement)
                case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                    definitions[name] = self._definition(statement)
                case _:
                    continue
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom):
                modules = tuple(to for to in self._graph.named_by(imported_module(node, path), path) if to != path)
                for alias in node.names if modules else ():
                    imported[alias.asname or alias.name] = (modules, alias.name)
        tests = {"::".join((*names, test.name)): self._definition(test) for names, test in each_test(tree.body)}
        above = (str(folder / "conftest.py") for folder in PurePosixPath(path).parents)
        conftests = tuple(one for one in above if one in self._graph.files and one != path)
        return _File(tests, definitions, imported, conftests)

    def _definition(self, node: ast.stmt) -> _Definition:
        programs: set[OwnProgram] = set()
        names: set[str] = set()
        left: list[ast.AST] = [node]
        while left:
            one = left.pop()
            if not isinstance(one, _TOLD):
                left.extend(ast.iter_child_nodes(one))
                continue
            match one:
                case ast.Expr(value=ast.Constant()):
                    continue  # a docstring
                case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) if one is not node:
                    if isinstance(node, ast.ClassDef) and name.startswith("test"):
                        continue  # its other tests are no part of a class
                case ast.Name(id=name):
                    names.add(name)
                    continue
                case ast.arg(arg=name):
                    names.add(name)
                case ast.List(elts=words) | ast.Tuple(elts=words):
                    programs.update(self._in_words([_word(word) for word in words]))
                case ast.Call(func=called, args=words):
                    programs.update(self._in_words([_word(word) for word in words]))
                    if isinstance(called, ast.Attribute) and called.attr == "usefixtures":
                        names.update(_word(word) for word in words)
                case ast.Constant(str(text)):
                    programs.update(self._in_text(text) if " " in text else ())
                case ast.JoinedStr():
                    programs.update(self._in_text(_word(one)))
                    continue
                case _:
                    pass
            left.extend(ast.iter_child_nodes(one))
        return _Definition(frozenset(programs), frozenset(names), isinstance(node, ast.ClassDef))

    def _in_text(self, text: str) -> tuple[OwnProgram, ...]:
        """Return the programs of a text that may be commands."""
        if text not in self._texts:
            found = commands_of(text) if len(text) <= _LONGEST and self._may_name.search(text) else ()
            self._texts[text] = tuple(own for command in found if (own := self._own(command)) is not None)
        return self._texts[text]

    def _in_words(self, words: list[str]) -> Iterator[OwnProgram]:
        """Yield the program that a list of arguments runs."""
        if words[1:2] == ["-m"] or (words[:1] == [_UNKNOWN] and words[1:2] and words[1].endswith(".py")):
            words = ["python", *words[1:]]
        if words and not any(character.isspace() for character in words[0]):
            command = command_of(words) if self._may_name.search(" ".join(words[:2])) else None
            own = None if command is None else self._own(command)
            if own is not None:
                yield own

    def _own(self, command: Command) -> OwnProgram | None:
        """Return the project's program that a command runs, None for another."""
        program = command.program
        match program.kind:
            case ProgramKind.NAME:
                name, starts = program.word, self._installed.get(program.word, ())
            case ProgramKind.MODULE:
                name, starts = f"python -m {program.word}", self._module(program.word)
            case ProgramKind.FILE:
                name, starts = program.word, self._script(program.word, set())
        word = next((one for one in command.arguments if not one.startswith("-")), None)
        return OwnProgram(name, None if word is None or _UNKNOWN in word else word, starts) if starts else None

    def _module(self, module: str) -> tuple[str, ...]:
        paths = self._graph.paths_of(module)
        mains = (path.replace("__init__.py", "__main__.py") for path in paths if path.endswith("__init__.py"))
        return (*paths, *(main for main in mains if main in self._graph.files))

    def _script(self, path: str, seen: set[str]) -> tuple[str, ...]:
        """Return the file of a script and those in which the programs of a shell script start."""
        path = posixpath.normpath(path)
        if path not in self._graph.files:
            return self._installed.get(PurePosixPath(path).name, ())
        if path in seen:
            return ()
        seen.add(path)
        starts = [path]
        if not path.endswith(".py"):
            for command in commands_of(self._graph.text(path)[:_LONGEST]):
                if command.program.kind is ProgramKind.FILE:
                    starts += self._script(command.program.word, seen)
                elif (own := self._own(command)) is not None:
                    starts += own.starts
        return tuple(dict.fromkeys(starts))


def _path(node: ast.expr) -> str:
    """Return the text of folders and a file that are joined with `/`: any number of them, so without recursion."""
    parts: list[str] = []
    while isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
        parts.append(_word(node.right))
        node = node.left
    first = _word(node)
    return "/".join([*([] if first == _UNKNOWN else [first]), *reversed(parts)])


def _word(node: ast.expr) -> str:
    """Return the text of an argument, with `?` for each part that is known only when the test runs."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.Attribute(attr="executable"):
            return "python"
        case ast.JoinedStr(values=parts):
            return "".join(_word(part) for part in parts)
        case ast.BinOp(op=ast.Div()):
            return _path(node)
        case ast.Call(func=ast.Name(id="str" | "fspath"), args=[inner]):
            return _word(inner)
        case _:
            return _UNKNOWN

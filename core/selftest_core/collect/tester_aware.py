"""Code of a product that could know that it is tested, found by its syntax: frames, loaded modules, names of testers.

Green tests are run again with their assertions turned round, where they must fail. A product that looks at its tester,
at the text of its tests or at the stack could behave well there, and forge elsewhere. So what lets code look there is
told, and a person decides. An honest change of a product adds such code rarely; only what the file did not have before
counts. It reads Python only: programs in other languages, and data that a program executes, are not looked into.
"""

from __future__ import annotations

import ast
import base64
import builtins
import functools
import re
import sys
from typing import TYPE_CHECKING

from selftest_core.collect.hostile_text import UnreadableError, read_python
from selftest_core.frozen import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

KNOWS_TESTER = "knows that it is tested"

_TESTERS = re.compile(r"(?i)pytest|pluggy|unittest|conftest|doctest|testing_plugin|(?<![a-z])nose2?(?![a-z])")
_VARIABLES = re.compile(r"PYTEST|SELFTEST_|^(CI|CONTINUOUS_INTEGRATION|GITHUB_ACTIONS|TOX_\w+|NOX_\w+)$")
_TEST_PATH = re.compile(
    r"(?i)(^|[/\\])_*tests?[/\\]|(^|[/\\])_*tests$|^tests?\.|[/\\*]test_|_test\.py|\.tests?(\.|$)|^/proc(/|$)"
)
_TEST_MODULE = re.compile(r"(^|\.)(tests?|test_\w+|\w+_test|conftest)(\.|$)")
_ATTRIBUTES = frozenset(
    {
        "f_back", "f_builtins", "f_code", "f_globals", "f_lineno", "f_locals", "f_trace", "tb_frame", "tb_next",
        "gi_frame", "cr_frame", "ag_frame", "gi_code", "cr_code", "__code__", "__closure__", "__globals__",
        "__builtins__", "__subclasses__", "__loader__", "__spec__", "__getattribute__", "__instancecheck__",
        "__subclasscheck__", "__import__", "cell_contents", "co_code", "co_consts", "co_filename", "co_names",
        "_getframe", "_current_frames", "currentframe", "get_objects", "get_referrers", "settrace", "setprofile",
        "addaudithook", "walk_stack", "extract_stack", "format_stack", "print_stack", "catch_warnings", "showwarning",
        "findCaller", "FunctionType", "CodeType", "FrameType", "getsource", "getsourcelines", "getsourcefile",
    }
)  # fmt: skip
"""Names by which code gets at frames, at the code of others, or at all objects. As texts they count too."""
_IN_TEXT = re.compile(r"(?<!\w)(" + "|".join(sorted(one for one in _ATTRIBUTES if "_" in one)) + r")(?!\w)")
_MODULES = frozenset(
    {
        "_ctypes", "_thread", "atexit", "bdb", "cProfile", "cffi", "code", "codeop", "ctypes", "dill",
        "cloudpickle", "dis", "doctest", "executing", "faulthandler", "gc", "guppy", "imp", "linecache", "marshal",
        "mock", "nt", "objgraph", "opcode", "pdb", "pkgutil", "posix", "profile", "psutil", "pydoc", "runpy", "site",
        "subprocess",
        "symtable", "test", "timeit", "trace", "tracemalloc", "unittest", "varname", "zipimport",
    }
)  # fmt: skip
"""Modules that look at running code, run texts as code, or end the process."""
_ALLOWED = {
    "builtins": frozenset(dir(builtins)) - {"breakpoint", "compile", "eval", "exec", "globals", "locals", "vars"},
    "sys": frozenset(
        {
            "api_version", "argv", "base_prefix", "builtin_module_names", "byteorder", "exc_info", "exception",
            "executable", "exit", "float_info", "getdefaultencoding", "getfilesystemencodeerrors",
            "getfilesystemencoding", "getrecursionlimit", "getsizeof", "getwindowsversion", "hash_info", "hexversion",
            "implementation", "int_info", "intern", "is_finalizing", "maxsize", "maxunicode", "platform", "prefix",
            "set_int_max_str_digits", "setrecursionlimit", "stderr", "stdin", "stdlib_module_names", "stdout", "flags",
            "version", "version_info", "__stdout__", "__stderr__", "__stdin__", "getswitchinterval", "exec_prefix",
        }
    ),
    "inspect": frozenset(
        {
            "Parameter", "Signature", "signature", "cleandoc", "getdoc", "isabstract", "isasyncgenfunction",
            "isawaitable", "isbuiltin", "isclass", "iscoroutine", "iscoroutinefunction", "isfunction", "isgenerator",
            "isgeneratorfunction", "ismethod", "ismodule", "isroutine", "BoundArguments", "get_annotations",
            "isasyncgen", "isdatadescriptor", "getmro", "getfullargspec", "iscode",
        }
    ),
    "traceback": frozenset(
        {"format_exc", "format_exception", "format_exception_only", "print_exc", "print_exception", "format_tb"}
    ),
    "importlib": frozenset({"metadata", "resources", "invalidate_caches"}),
}  # fmt: skip
"""Names of modules that look at running code, of which these do not."""
_OF_OS = frozenset(
    {
        "abort", "fork", "forkpty", "getppid", "kill", "killpg", "popen", "posix_spawn", "posix_spawnp", "system",
        *(f"{kind}{end}" for kind in ("exec", "spawn") for end in ("l", "le", "lp", "lpe", "v", "ve", "vp", "vpe")),
    }
)  # fmt: skip
_IMPORT = "importlib.import_module"
_LONGEST = 10_000
"""Characters of a text that is put together."""
_LISTING = frozenset({"walk", "fwalk", "listdir", "scandir", "getcwd", "glob", "iglob"})
_LOADERS = frozenset(
    {"codecs.decode", "pickle.load", "pickle.loads", "pickle.Unpickler", "signal.raise_signal", "logging.config"}
)
_CALLS = frozenset({"exec", "eval", "compile", "globals", "locals", "__import__", "breakpoint"})
_BY_NAME = frozenset({"getattr", "setattr", "delattr", "hasattr", "vars"})


@dataclass(frozen=True, slots=True)
class _Sign:
    """One place: `key` names what is used there, `text` is the statement."""

    key: str
    line: int
    text: str


def find_tester_aware(files: Mapping[str, tuple[str | None, str | None]]) -> Iterator[tuple[str, int, str]]:
    """Compare the Python files of a product that one change touches; yields path, line and what is new there.

    `files`: path to its text before and after, None where there is no such file. Code that moves is not new.
    """
    used = {path: _signs(new) for path, (_, new) in files.items()}
    if all(signs == () for signs in used.values()):
        return  # as nearly always: what was there before does not matter
    before = {path: _signs(old) for path, (old, _) in files.items()}
    moved = {(one.key, one.text) for signs in before.values() for one in signs or ()}
    for path, now in used.items():
        if now is None:
            yield path, 1, "cannot be read as Python"
            continue
        told = {one.key for one in before[path] or ()}
        for one in now:
            if one.key not in told and (one.key, one.text) not in moved:
                told.add(one.key)
                yield path, one.line, one.key


@functools.lru_cache(maxsize=64)
def _signs(text: str | None) -> tuple[_Sign, ...] | None:
    """List what a file uses; None where it cannot be read."""
    if text is None:
        return ()
    try:
        return tuple(_Reader(text).signs())
    except UnreadableError:
        return None


class _Reader:
    """One module: the modules that its names stand for, and names that are one text."""

    def __init__(self, text: str) -> None:
        self._module = read_python(text)
        self._lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
        self._modules: dict[str, str] = {}
        self._imported: dict[str, str] = {}
        self._texts: dict[str, str] = {}
        assigned: set[str] = set()
        for node in ast.walk(self._module):
            if isinstance(node, ast.Import):
                for one in node.names:
                    self._modules[one.asname or one.name.partition(".")[0]] = (
                        one.name if one.asname else one.name.partition(".")[0]
                    )
            elif isinstance(node, ast.ImportFrom):
                module = "." * node.level + (node.module or "")
                self._imported |= {one.asname or one.name: f"{module}.{one.name}" for one in node.names}
            elif isinstance(node, ast.Assign | ast.AnnAssign | ast.NamedExpr):
                for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                    if isinstance(target, ast.Name) and node.value is not None:
                        value = self._text(node.value)
                        if value is not None and target.id not in assigned:
                            self._texts[target.id] = value
                        else:
                            self._texts.pop(target.id, None)
                        assigned.add(target.id)

    def signs(self) -> Iterator[_Sign]:
        """Yield what is used, with its place."""
        left: list[tuple[ast.AST, ast.AST]] = [(self._module, self._module)]
        while left:
            node, statement = left.pop()
            if isinstance(node, ast.stmt):
                statement = node
            children = list(ast.iter_child_nodes(node))
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
                continue  # a docstring
            for key in self._of(node):
                yield _Sign(key, getattr(node, "lineno", getattr(statement, "lineno", 1)), self._line(statement))
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                continue
            if isinstance(node, ast.Call) and (
                (isinstance(node.func, ast.Name) and node.func.id in _BY_NAME)
                or (self._dotted(node.func) == _IMPORT and node.args and self._text(node.args[0]) is not None)
            ):
                children.remove(node.func)
            left.extend((child, statement) for child in reversed(children))

    def _line(self, statement: ast.AST) -> str:
        return self._lines[statement.lineno - 1].strip() if isinstance(statement, ast.stmt) else ""

    def _of(self, node: ast.AST) -> Iterator[str]:
        match node:
            case ast.Import(names=names):
                for one in names:
                    yield from self._of_module(one.name)
            case ast.ImportFrom(module=module, names=names, level=level):
                name = "." * level + (module or "")
                yield from self._of_module(name)
                for one in names:
                    yield from self._of_module(f"{name}.{one.name}")
                    yield from self._of_attribute(name, one.name)
            case ast.Attribute(value=value, attr=attr):
                yield from self._of_attribute(self._dotted(value) if self._is_module(value) else "", attr)
                yield from _of_word(attr)
                if attr in ("rglob", "iterdir", "glob", "cwd"):
                    yield attr
                if isinstance(node.ctx, ast.Store | ast.Del) and self._is_foreign(value):
                    yield f"{self._dotted(node)} is set"
                if attr == "__class__" and isinstance(node.ctx, ast.Store):
                    yield "__class__ is set"
            case ast.Name(id=name):
                if name in _CALLS | _BY_NAME or name in ("__builtins__", "__loader__", "__spec__", "__file__"):
                    yield name
                elif isinstance(node.ctx, ast.Load) and self._modules.get(name, "") in {*_ALLOWED, *_MODULES, "os"}:
                    yield f"{name} is handed on"
                yield from _of_word(name)
            case ast.Call():
                yield from self._of_call(node)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield from _of_word(name)
                if name in ("__eq__", "__ne__") and isinstance(node, ast.FunctionDef) and not _compares(node):
                    yield f"{name} that may not compare"
            case ast.ClassDef(name=name) | ast.arg(arg=name) | ast.keyword(arg=str(name)):
                yield from _of_word(name)
            case ast.MatchClass(kwd_attrs=names):
                for name in names:
                    yield from _of_word(name)
            case ast.ExceptHandler(type=ast.expr() as kind):
                if any(isinstance(one, ast.Name) and one.id == "AssertionError" for one in ast.walk(kind)):
                    yield "AssertionError is caught"
            case _:
                pass
        text = self._text(node) if isinstance(node, ast.expr) and not isinstance(node, ast.Name) else None
        if text is not None:
            yield from _of_text(text)

    def _of_module(self, name: str) -> Iterator[str]:
        if name.partition(".")[0] in _MODULES or (name.startswith("_") and name.partition(".")[0] in _STANDARD):
            yield name.partition(".")[0]
        elif _TESTERS.search(name) or _TEST_MODULE.search(name):
            yield name

    def _of_attribute(self, module: str, name: str) -> Iterator[str]:
        if name == "*" and module in {*_ALLOWED, *_MODULES, "os"}:
            yield f"{module}.*"
        elif (
            (module in _ALLOWED and name not in _ALLOWED[module])
            or (module == "os" and name in _OF_OS)
            or (module in ("os", "glob") and name in _LISTING)
            or f"{module}.{name}" in _LOADERS
            or (module in _STANDARD and re.match(r"_(_(?!name__|doc__|file__)|[a-z])", name))
        ):
            yield f"{module}.{name}"
        elif module in _MODULES:
            yield module

    def _of_call(self, node: ast.Call) -> Iterator[str]:
        called = self._dotted(node.func)
        arguments = node.args
        if called in _BY_NAME and arguments:
            is_open = len(arguments) > 1 and self._text(arguments[1]) is None
            if self._is_foreign(arguments[0]) and (is_open or called in ("setattr", "delattr", "vars")):
                yield f"{called} of {self._dotted(arguments[0])}"
        elif called in ("operator.attrgetter", "operator.methodcaller"):
            if any(self._text(one) is None for one in arguments[:1]):
                yield f"{called} of a name that is made"
        elif called in ("os.getenv", "os.environ.get") and arguments and self._text(arguments[0]) is None:
            yield "a variable of the environment whose name is made"

    def _dotted(self, node: ast.AST) -> str:
        """Return the dotted name of an expression, by the modules that it names; empty for another expression."""
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name):
            return ""
        root = self._modules.get(node.id) or self._imported.get(node.id) or node.id
        return ".".join((root, *reversed(parts)))

    def _is_module(self, node: ast.AST) -> bool:
        """True for an imported module, and what hangs on it."""
        while isinstance(node, ast.Attribute):
            node = node.value
        return isinstance(node, ast.Name) and node.id in self._modules

    def _is_foreign(self, node: ast.AST) -> bool:
        """True for an imported module or class, and what hangs on it; an object that is imported is there to be set."""
        while isinstance(node, ast.Attribute):
            node = node.value
        if not isinstance(node, ast.Name):
            return False
        origin = self._imported.get(node.id, ".")
        return node.id in self._modules or (origin[0] != "." and origin.rpartition(".")[2][:1].isupper())

    def _text(self, node: ast.AST) -> str | None:
        """Return the text that an expression of constants is; None for others."""
        match node:
            case ast.Constant(value=str(text)):
                return text
            case ast.Constant(value=bytes(data)):
                return data.decode("latin-1")
            case ast.Name(id=name):
                return self._texts.get(name)
            case ast.FormattedValue(value=value):
                return self._text(value)
            case ast.JoinedStr(values=values):
                return self._joined(values)
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                return self._joined([left, right])
            case ast.BinOp(left=left, op=ast.Mod(), right=right):
                values = right.elts if isinstance(right, ast.Tuple) else [right]
                return self._joined([left, *values], is_loose=True)
            case ast.Call(func=ast.Attribute(value=left, attr="join"), args=[ast.List() | ast.Tuple() as several]):
                return self._joined(several.elts, self._text(left) or "")
            case ast.Call(func=ast.Attribute(value=left, attr="format"), args=values):
                return self._joined([left, *values], is_loose=True)
            case ast.Call(func=ast.Name(id="chr"), args=[ast.Constant(value=int(number))]) if 0 < number < 0x110000:
                return chr(number)
            case ast.Call(func=ast.Name(id="bytes" | "bytearray"), args=[ast.List() | ast.Tuple() as several]):
                return _of_numbers(several.elts)
            case ast.Call(func=ast.Name(id="map"), args=[ast.Name(id="chr"), ast.List() | ast.Tuple() as several]):
                return _of_numbers(several.elts)
            case ast.Call(func=ast.Attribute(value=left, attr="join"), args=[ast.Call() as inner]):
                return self._text(inner) if self._text(left) == "" else None
            case ast.Call(func=ast.Attribute(attr="fromhex" | "unhexlify" | "b64decode" as how), args=[inner, *_]):
                return _decoded(how, self._text(inner))
            case ast.Call(func=ast.Attribute(value=left, attr="decode" | "encode" | "strip")):
                return self._text(left)
            case ast.Call(func=ast.Attribute(value=left, attr="lower" | "upper" | "swapcase" as how), args=[]):
                inside = self._text(left)
                return None if inside is None else str(getattr(inside, how)())
            case ast.Call(func=ast.Attribute(value=left, attr="replace"), args=[old, new]):
                texts = [self._text(one) or "" for one in (left, old, new)]
                is_small = len(texts[0]) * len(texts[2]) < _LONGEST
                return texts[0].replace(texts[1], texts[2]) or None if is_small and texts[1] else None
            case ast.Subscript(value=ast.Constant() as left, slice=ast.Slice(lower=lower, upper=upper, step=step)):
                whole, cut = self._text(left), [_number(one) for one in (lower, upper, step)]
                return None if whole is None or cut[2] == 0 else whole[cut[0] : cut[1] : cut[2]]
            case _:
                return None

    def _joined(self, nodes: list[ast.expr], between: str = "", *, is_loose: bool = False) -> str | None:
        texts: list[str] = []
        for one in nodes:
            text = self._text(one)
            if text is None or sum(map(len, texts)) > _LONGEST:
                return None
            texts.append(re.sub(r"%[a-z]|\{\w*\}", "", text) if is_loose else text)
        return between.join(texts)[:_LONGEST]


def _number(node: ast.expr | None) -> int | None:
    match node:
        case ast.Constant(value=int(number)):
            return number
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int(number))):
            return -number
        case _:
            return None


def _of_numbers(nodes: list[ast.expr]) -> str | None:
    numbers = [_number(one) for one in nodes]
    return "".join(chr(one) for one in numbers if one is not None and 0 <= one < 0x110000) or None


def _decoded(how: str, text: str | None) -> str | None:
    if text is None:
        return None
    try:
        data = base64.b64decode(text) if how == "b64decode" else bytes.fromhex(text)
    except ValueError:
        return None
    return data.decode("latin-1")


_STANDARD = sys.stdlib_module_names - {"__future__"}


def _of_word(word: str) -> Iterator[str]:
    if word in _ATTRIBUTES:
        yield word
    elif _TESTERS.search(word):
        yield f"the name {word}"


def _of_text(text: str) -> Iterator[str]:
    """Yield what a text names; a sentence may speak of tests."""
    if (found := _TESTERS.search(text)) or (found := _VARIABLES.search(text)):
        yield f"the text {found[0]!r}"
    elif " " not in text and (found := _TEST_PATH.search(text)):
        yield f"the path {text[:60]!r}"
    if found := _IN_TEXT.search(text):
        yield f"the text {found[0]!r}"


def _compares(function: ast.FunctionDef) -> bool:
    """True for a comparison of both objects."""
    names = [one.arg for one in function.args.args]
    returned = [one.value for one in ast.walk(function) if isinstance(one, ast.Return) and one.value is not None]
    is_compared = any(isinstance(one, ast.Compare | ast.Call) for value in returned for one in ast.walk(value))
    return len(names) == 2 and is_compared and all(_is_comparison(one, *names) for one in returned)


def _is_comparison(node: ast.expr, own: str, other: str) -> bool:
    match node:
        case ast.Name(id="NotImplemented") | ast.Constant(value=False):
            return True
        case ast.Call(func=ast.Attribute(value=ast.Call(func=ast.Name(id="super")))):
            return True
        case ast.BoolOp(op=ast.And(), values=values):
            return any(_is_comparison(one, own, other) for one in values)
        case ast.UnaryOp(op=ast.Not(), operand=ast.Compare() as inner):
            return _is_comparison(inner, own, other)
        case ast.Compare(left=left, comparators=[right]):
            names = [{one.id for one in ast.walk(side) if isinstance(one, ast.Name)} for side in (left, right)]
            return own in names[0] | names[1] and other in names[0] | names[1]
        case _:
            return False

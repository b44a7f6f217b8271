"""A pytest plugin that writes each result as it comes. It runs in the project's interpreter, not in ours.

This file is copied into an empty folder, put on PYTHONPATH and loaded with `-p`. It reads its orders from the JSON
file that SELFTEST_VERIFY names: `{"results": path, "tests": [node id] | null, "foreign": [folder], "absent": [path]}`,
and appends JSON lines to `results`:

    {"begun": node id}                                   so that a test that kills the process has a name
    {"ended": node id, "result": word, "seconds": s, "output": text, "absent": path | null, "assertions": number | null}
    {"collected": [node id], "errors": {file: text}, "absent": {file: path}}
    {"foreign": [path]}                                  modules of the project that were not imported from its tree
    {"replaced": [name]}                                 functions of pytest that the project's code has replaced
    {"done": exit status}

The file that the order `wishes` names, if any, gets lines of node ids to run before the others, the most wanted first.
Those in `late` run after all others: what they leave behind in the process reaches none of these.

`tests` null runs everything. Files are collected whole and filtered here: one id that is missing must not stop the
others. Paths in `absent` have no content here, such as submodules: lines say whether one was opened. A canary test of
ours, which the order `canary` names, must fail; where it is reported as passed, somebody rewrites results.

Folders in `own` are of the environment, so not foreign. Those in `first` are the tests' PYTHONPATH, those in `sources`
are where an editable installation has the project in its tree.

Where the order `imports_here` is true, the folder of the tree comes to the path of imports only once pytest and the
installed plugins are loaded: no file of the tree can take their place. The orders are removed as soon as they are read.

It must import nothing but the standard library, and keep to Python 3.8 and pytest 6.
"""

from __future__ import annotations

import ast
import builtins
import itertools
import json
import os
import sys
import time
from typing import Any

VARIABLE = "SELFTEST_VERIFY"
OUTPUT = 20000
"""Characters of a report that are kept: its beginning and its end."""
MANY_REDS = 100
"""Failures of one process after which their reports are plain."""

_OPTIONS = {
    "maxfail": 0, "continue_on_collection_errors": True, "usepdb": False,
    # pytest-xdist would run tests where this plugin does not see them; pytest-rerunfailures would hide flaky ones.
    "dist": "no", "tx": [], "numprocesses": None, "reruns": 0,
}  # fmt: skip

# Taken before any code of the project runs, which could replace them.
_write, _read, _open, _dumps, _clock, _getpid = os.write, os.read, os.open, json.dumps, time.monotonic, os.getpid
_path = os.environ.get(VARIABLE)
"""Read here too: a conftest.py may clear the environment of variables that its tests should not see."""
_orders: Any = None
_originals: Any = {}
_COUNT = "@selftest_assertion"
"""The name by which a test file tells that an assertion held: none that a file can write."""
_held: Any = set()
"""The numbers of the assertions that held in the test that runs."""
_JUDGES = {
    "_pytest.python": (
        "Function.runtest", "Function.setup", "pytest_pyfunc_call", "pytest_pycollect_makeitem", "PyCollector.collect",
    ),
    "_pytest.unittest": ("TestCaseFunction.runtest",),
    "_pytest.runner": (
        "runtestprotocol", "call_and_report", "CallInfo.from_call", "pytest_runtest_makereport", "pytest_runtest_call",
        "pytest_runtest_protocol",
    ),
    "_pytest.reports": (
        "TestReport.__init__", "TestReport.from_item_and_call", "BaseReport.failed", "BaseReport.passed",
    ),
    "_pytest.main": ("Session.perform_collect", "pytest_runtestloop"),
    "_pytest.raises": ("raises", "RaisesExc.__exit__"),
    "_pytest.python_api": ("raises", "RaisesContext.__exit__"),
    "_pytest.assertion.rewrite": ("AssertionRewritingHook.exec_module", "rewrite_asserts"),
    "pluggy._hooks": ("HookCaller.__call__", "_HookCaller.__call__"),
    "pluggy._callers": ("_multicall",),
    "pluggy._manager": ("PluginManager._hookexec",),
    "unittest.case": (
        "TestCase.run", "TestCase.fail", "TestCase.assertEqual", "TestCase.assertTrue", "TestCase._baseAssertEqual",
    ),
}  # fmt: skip
"""What decides a result, by module and name. Those of other versions of pytest are not there, and left out."""


def pytest_load_initial_conftests() -> None:
    """Read the orders, and remember pytest as it is, before any file of the tree is loaded."""
    global _orders
    # It was for the start of pytest alone: programs that tests start must find what lies beside them.
    os.environ.pop("PYTHONSAFEPATH", None)
    if not _path or _orders is not None:
        return
    with open(_path, encoding="utf-8") as file:  # noqa: PTH123 -- pathlib may be patched by a project's tests
        _orders = json.load(file)
    os.unlink(_path)  # noqa: PTH108
    _add_paths(_orders)
    if _orders.get("imports_here"):
        sys.path.insert(0, os.getcwd())  # noqa: PTH109
    _count_assertions()
    _originals.update(_judges())


# What `pytest.hookimpl(tryfirst=True)` does, without importing pytest.
setattr(pytest_load_initial_conftests, "pytest_impl", {"tryfirst": True})  # noqa: B010


def _count_assertions() -> None:
    """Have each `assert` of a file that pytest rewrites tell when it has held."""
    module: Any = sys.modules.get("_pytest.assertion.rewrite")
    rewrite = getattr(module, "rewrite_asserts", None)
    if rewrite is None:
        return

    numbers = itertools.count()

    def counted(tree: Any, *words: Any, **named: Any) -> Any:
        for node in list(ast.walk(tree)):
            for block in (getattr(node, name, None) for name in ("body", "orelse", "finalbody")):
                if not isinstance(block, list) or not any(isinstance(one, ast.Assert) for one in block):
                    continue
                made: list[Any] = []
                for one in block:
                    made.append(one)
                    if isinstance(one, ast.Assert):
                        call = ast.Expr(ast.Call(ast.Name(_COUNT, ast.Load()), [ast.Constant(next(numbers))], []))
                        made.append(ast.fix_missing_locations(ast.copy_location(call, one)))
                block[:] = made
        return rewrite(tree, *words, **named)

    setattr(builtins, _COUNT, _held.add)
    module.rewrite_asserts = counted


def _add_paths(orders: Any) -> None:
    """Import the project from its tree: before the user's checkout, which an editable installation may name.

    It comes after pytest is loaded, and after the installed packages, as editable installations do.
    """
    first, sources = orders.get("first", []), orders.get("sources", [])
    own = [os.path.realpath(folder) + os.sep for folder in orders.get("own", ())]
    foreign = [os.path.realpath(folder) + os.sep for folder in orders["foreign"]]
    at = len(sys.path)
    for place in range(len(sys.path) - 1, -1, -1):
        if _is_below(os.path.realpath(sys.path[place]) + os.sep, foreign, own):
            at = place
    sys.path[at:at] = [path for path in sources if path not in sys.path]
    sys.path[:0] = first
    if first or foreign:  # for programs that tests start
        more = sources if foreign else []
        os.environ["PYTHONPATH"] = os.pathsep.join([os.environ.get("PYTHONPATH", ""), *first, *more])


def _is_below(path: str, folders: Any, but_not: Any) -> bool:
    return any(path.startswith(one) for one in folders) and not any(path.startswith(one) for one in but_not)


def _judges() -> Any:
    """What decides results, as it is now: each function, and its code, which can be exchanged alone."""
    found = {}
    for module, names in _JUDGES.items():
        for name in names:
            # By the dictionaries, so that nothing of a replaced class is called.
            value = sys.modules.get(module)
            for part in name.split("."):
                value = None if value is None else getattr(value, "__dict__", {}).get(part)
            value = getattr(value, "__func__", value)
            if value is not None:
                found[module + "." + name] = (value, getattr(value, "__code__", None))
    return found


def pytest_cmdline_main(config: Any) -> None:
    """Begin once all options are known. Returns None: pytest goes on."""
    if _orders is None or hasattr(config, "workerinput"):
        return
    orders = _orders
    for name, value in _OPTIONS.items():
        if hasattr(config.option, name):
            setattr(config.option, name, value)
    config.pluginmanager.register(Testing(config, orders), "selftest-testing")


class Testing:
    """The hooks of one run, and the file that they write to."""

    def __init__(self, config: Any, orders: Any) -> None:
        self._target = _open(orders["results"], os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_CLOEXEC", 0))
        self._pid = _getpid()
        self._wanted = None if orders["tests"] is None else set(orders["tests"])
        self._late = set(orders.get("late", ()))
        self._foreign = [os.path.realpath(folder) + os.sep for folder in orders["foreign"]]
        self._own = [os.path.realpath(folder) + os.sep for folder in orders.get("own", ())]
        self._seen: set[str] = set()
        self._absent = {os.path.realpath(path): path for path in orders.get("absent", ())}
        self._touched: str | None = None
        self._touched_in: dict[str, str] = {}
        if self._absent:
            sys.addaudithook(self._audit)
        self._from = str(config.invocation_params.dir)
        self._root = str(getattr(config, "rootpath", None) or config.rootdir)
        self._errors: dict[str, str] = {}
        self._phases: dict[str, list[Any]] = {}
        self._begun: dict[str, float] = {}
        self._name_of: dict[str, str] = {}
        self._nonce = orders.get("nonce", "")
        self._canary = orders.get("canary", "canary")
        self._wishes = (
            _open(orders["wishes"], os.O_RDONLY | getattr(os, "O_CLOEXEC", 0)) if "wishes" in orders else None
        )
        self._unread = b""
        self._session: Any = None
        self._finished = self._reds = 0
        self._options = config.option
        self._manager = config.pluginmanager
        self._plugins = {id(one): one for one in self._manager.get_plugins()}
        self._plugins[id(self)] = self

    def _tell(self, **line: Any) -> None:
        # A child that a test forks must not write for its parent.
        if _getpid() == self._pid:
            line["nonce"] = self._nonce
            _write(self._target, _dumps(line).encode() + b"\n")

    def pytest_configure(self, config: Any) -> None:
        """Keep results out of the project's cache."""
        cache = getattr(config, "cache", None)
        if cache is not None:
            cache.set = _ignore

    def pytest_collectreport(self, report: Any) -> None:
        """Keep why a file could not be collected."""
        if report.failed:
            file = self._relative(report.nodeid)
            self._errors[file] = _cut(str(getattr(report, "longreprtext", "")))
            if self._touched is not None:
                self._touched_in[file] = self._touched
        self._touched = None

    # Last of all, so that what other plugins add or take away is seen.
    def pytest_collection_modifyitems(self, session: Any, config: Any, items: Any) -> None:
        """Run only what is wanted, and the canary before it."""
        for item in items:
            self._name_of[item.nodeid] = self._named(item)
        names = [self._name_of[item.nodeid] for item in items]
        self._tell(collected=names, errors=self._errors, absent=self._touched_in)
        if self._wanted is not None:
            chosen = [item for item in items if self._name_of[item.nodeid] in self._wanted]
            items[:] = sorted(chosen, key=self._is_late)
        self._session = session
        canary = _canary(session, self._canary)
        if canary is not None:
            self._name_of[canary.nodeid] = self._canary
            items.insert(0, canary)

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Name the test that begins."""
        name = self._name_of.get(nodeid, nodeid)
        self._begun[nodeid] = _clock()
        self._touched = None
        _held.clear()
        self._tell(begun=name)

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Collect the phases of a test; subtests give several reports of one phase."""
        self._phases.setdefault(report.nodeid, []).append(report)

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        """Write the result of a test whose phases are all there."""
        reports = self._phases.pop(nodeid, [])
        seconds = _clock() - self._begun.pop(nodeid, _clock())
        result, output = _result(reports)
        self._reds += result in ("failed", "error")
        if self._reds > MANY_REDS:
            # pytest parses a whole file for each report of a failure: minutes for thousands of tests in one.
            self._options.tbstyle = "native"
        # Before the result: a later test may end the process.
        self._tell_foreign()
        self._tell_replaced()
        self._tell(
            ended=self._name_of.get(nodeid, nodeid), result=result, seconds=round(seconds, 4), output=_cut(output),
            absent=self._touched, assertions=len(_held) if hasattr(builtins, _COUNT) else None,
        )  # fmt: skip
        self._finished += 1
        self._follow_wishes(nodeid)

    def _follow_wishes(self, nodeid: str) -> None:
        """Move files of tests that are wanted before others, and did not begin yet, to the front."""
        if self._wishes is None:
            return
        *lines, self._unread = (self._unread + _read(self._wishes, 1 << 20)).split(b"\n")
        items = self._session.items
        # The test after this one is fixed: fixtures that it shares are still there.
        at = self._finished + 1
        if not lines or at >= len(items) or items[self._finished - 1].nodeid != nodeid:
            return
        places = {test: place for place, test in enumerate(json.loads(lines[-1].decode()))}
        groups: dict[Any, list[Any]] = {self._group_of(items[at - 1]): []}
        for item in items[at:]:
            groups.setdefault(self._group_of(item), []).append(item)
        begun, *others = groups.values()  # fixtures of a file are made once
        others.sort(
            key=lambda group: (
                self._is_late(group[0]),
                min(places.get(self._name_of[item.nodeid], len(places)) for item in group),
            )
        )
        items[at:] = [item for group in (begun, *others) for item in group]

    def _group_of(self, item: Any) -> Any:
        return self._is_late(item), self._name_of[item.nodeid].partition("::")[0]

    def _is_late(self, item: Any) -> bool:
        return self._name_of[item.nodeid] in self._late

    def pytest_sessionfinish(self, session: Any, exitstatus: Any) -> None:
        """Say that nothing is missing."""
        self._tell_foreign()
        self._tell_replaced()
        self._tell(done=int(exitstatus))

    def _tell_replaced(self) -> None:
        """Name what decides results, and is not what it was."""
        now = _judges()
        found = sorted(name for name, was in _originals.items() if now.get(name) is None or not _same(was, now[name]))
        found += self._late_plugins()
        if found:
            self._tell(replaced=found)

    def _late_plugins(self) -> list[str]:
        """Name plugins of the tree that came after the options were read, other than conftest.py files."""
        new = [one for one in self._manager.get_plugins() if id(one) not in self._plugins]
        self._plugins.update((id(one), one) for one in new)
        if not new:
            return []
        found = []
        root = os.path.realpath(self._from) + os.sep
        for hook in list(vars(self._manager.hook).values()):
            for one in hook.get_hookimpls() if hasattr(hook, "get_hookimpls") else ():
                path = os.path.realpath(getattr(getattr(one.function, "__code__", None), "co_filename", "?"))
                is_own = path.startswith(root) and os.sep + "site-packages" + os.sep not in path
                if any(one.plugin is plugin for plugin in new) and is_own and os.path.basename(path) != "conftest.py":  # noqa: PTH119
                    found.append("the hook " + one.function.__name__ + " of " + os.path.relpath(path, root))
        return sorted(set(found))

    def _tell_foreign(self) -> None:
        """Name modules of the project that came from elsewhere, among those that are new."""
        if len(self._seen) == len(sys.modules):
            return
        new = {name: module for name, module in list(sys.modules.items()) if name not in self._seen}
        self._seen.update(new)
        found = [path for name, module in new.items() if (path := self._foreign_path(name, module)) is not None]
        if found:
            self._tell(foreign=sorted(found)[:20])

    def _foreign_path(self, name: str, module: Any) -> str | None:
        """The file of a module from a foreign folder, or of an installed one whose package is in the tree too."""
        path = getattr(module, "__file__", None)
        if not isinstance(path, str):
            return None
        if _is_below(os.path.realpath(path), self._foreign, self._own):
            return path
        if "site-packages" in path and "." not in name:
            for place in (os.path.join(self._root, "src", name), os.path.join(self._root, name)):  # noqa: PTH118
                if os.path.isfile(os.path.join(place, "__init__.py")):  # noqa: PTH113, PTH118
                    return path
        return None

    def _audit(self, event: str, arguments: Any) -> None:
        """Note what is opened or listed of the paths that have no content here."""
        if event in ("open", "os.listdir", "os.scandir") and arguments and isinstance(arguments[0], (str, bytes)):
            path = os.path.normpath(os.path.join(self._from, os.fsdecode(arguments[0])))  # noqa: PTH118
            for folder, name in self._absent.items():
                if path == folder or path.startswith(folder + os.sep):
                    self._touched = name

    def _named(self, item: Any) -> str:
        """The node id seen from where pytest was started, with slashes."""
        inside = item.nodeid.partition("::")[2]
        path = self._relative(str(getattr(item, "path", None) or item.fspath))
        return path + "::" + inside if inside else path

    def _relative(self, path: str) -> str:
        whole = os.path.normpath(os.path.join(self._root, path.partition("::")[0]))  # noqa: PTH118 -- keeps symlinks
        return os.path.relpath(whole, self._from).replace(os.sep, "/")


# What `pytest.hookimpl(trylast=True)` does, without importing pytest.
setattr(Testing.pytest_collection_modifyitems, "pytest_impl", {"trylast": True})  # noqa: B010


def _same(was: Any, now: Any) -> bool:
    return all(one is other for one, other in zip(was, now))  # noqa: B905 -- Python 3.8


def _canary(session: Any, name: str) -> Any:
    """A test that fails, run by the project's own hooks."""
    import pytest  # there, where this plugin is loaded

    class Function(pytest.Item):
        def runtest(self) -> None:
            raise AssertionError("assert 1 == 2")

        def reportinfo(self) -> Any:
            return "", 0, name

    try:
        return Function.from_parent(session, name=name)
    except Exception:  # an odd pytest: the reader sees that no canary ran, and trusts no result
        return None


def _result(reports: Any) -> Any:
    """The result that all phases give together, and the report of the one that decides."""
    failed = [report for report in reports if report.failed]
    if failed:
        first = failed[0]
        word = "failed" if first.when == "call" else "error"
        return word, _text(first)
    calls = [report for report in reports if report.when == "call"]
    skipped = [report for report in reports if report.skipped]
    if skipped:
        was_expected = any(hasattr(report, "wasxfail") for report in skipped)
        return ("xfailed" if was_expected else "skipped"), _text(skipped[0])
    if not calls:
        return "error", "pytest reported no call of this test"
    if any(hasattr(report, "wasxfail") for report in calls):
        return "xpassed", ""
    return "passed", ""


def _text(report: Any) -> str:
    try:
        if report.skipped and isinstance(report.longrepr, tuple):
            return str(report.longrepr[2])
        parts = [str(report.longreprtext)]
        parts += [f"--- {name}\n{text}" for name, text in getattr(report, "sections", ())]
        return "\n".join(parts)
    except Exception as error:
        return f"no text: {error!r}"


def _cut(text: str) -> str:
    if len(text) <= OUTPUT:
        return text
    return f"{text[: OUTPUT // 4]}\n[{len(text) - OUTPUT} characters left out]\n{text[-(OUTPUT * 3 // 4) :]}"


def _ignore(*_: Any, **__: Any) -> None:
    """Stand for a function that would write."""

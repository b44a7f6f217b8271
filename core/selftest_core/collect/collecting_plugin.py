"""A pytest plugin that writes the collected tests to a file. It runs in the project's interpreter, not in ours.

pytest's output cannot be parsed: `-q`, `-v`, other plugins and prints of the project change it. So this file is copied
into an empty folder, put on PYTHONPATH and loaded with `-p`; it writes JSON to the file in SELFTEST_COLLECTED,
atomically. `<that file>.now` has the file that is being collected, which tells where a collection hangs or crashes.

It must import only the standard library, not even pytest (hooks are found by their names), and work with Python 3.8
and pytest 6: a project may be old. It must change nothing that the project stores, its cache included.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

VARIABLE = "SELFTEST_COLLECTED"
_TARGET = os.environ.get(VARIABLE, "")
_LINES = 30
_CHARACTERS = 4000


def pytest_cmdline_main(config: Any) -> None:
    """Change options before they take effect. Returns None: pytest continues."""
    if not _TARGET or hasattr(config, "workerinput"):
        return
    # Options that would stop a collection at its first error, or ask a question.
    wanted = {
        "collectonly": True,
        "maxfail": 0,
        "continue_on_collection_errors": True,
        "usepdb": False,
        "color": "no",
    }
    for name, value in wanted.items():
        if hasattr(config.option, name):
            setattr(config.option, name, value)
    config.pluginmanager.register(Collecting(config, Path(_TARGET)), "selftest-collecting")


class Collecting:
    """The hooks of one collection, and their results."""

    def __init__(self, config: Any, target: Path) -> None:
        self._target = target
        self._now = target.with_name(target.name + ".now")
        self._from = str(config.invocation_params.dir)
        self._root = str(getattr(config, "rootpath", None) or config.rootdir)
        self._seen: dict[int, int] = {}
        self._deselected = 0
        self._errors: list[dict[str, str]] = []
        self._skipped: list[dict[str, str]] = []
        self._tests: list[dict[str, Any]] = []
        self._broken = ""

    def pytest_configure(self, config: Any) -> None:
        """Let `--lf` read the project's cache, but prevent writing to it."""
        cache = getattr(config, "cache", None)
        if cache is not None:
            cache.set = _ignore

    def pytest_collectstart(self, collector: Any) -> None:
        """Write the name of the next file, and turn sys.exit() in a file into an error of that file only."""
        if "::" not in collector.nodeid:
            self._now.write_text(self._relative(collector.nodeid), "utf-8", "surrogateescape")
            collector.collect = _survives_exit(collector, collector.collect)

    def pytest_itemcollected(self, item: Any) -> None:
        """Remember the order of tests in their files: plugins may shuffle it afterwards."""
        self._seen.setdefault(id(item), len(self._seen))

    def pytest_deselected(self, items: Any) -> None:
        """Count the tests that `-k`, `-m` and plugins deselect."""
        self._deselected += len(items)

    def pytest_collectreport(self, report: Any) -> None:
        """Remember files that failed to collect, and files that skip themselves."""
        if report.failed:
            text = str(getattr(report, "longreprtext", "") or report.longrepr)
            self._errors.append(
                {"path": self._relative(report.nodeid), "message": _message(report.longrepr, text), "end": _end(text)}
            )
        elif report.skipped:
            reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
            self._skipped.append({"path": self._relative(report.nodeid), "message": str(reason), "end": ""})

    def pytest_collection_finish(self, session: Any) -> None:
        """Write the result. pytest calls this in every case, with the tests that are left after all selections."""
        last = len(self._seen)
        items = sorted(session.items, key=lambda item: self._seen.get(id(item), last))
        self._tests = [self._described(item) for item in items]
        self._write()

    def pytest_internalerror(self, excrepr: Any) -> None:
        """Mark the result as incomplete after an internal error of pytest."""
        self._broken = _end(str(excrepr)) or "an internal error of pytest"
        self._write()

    def pytest_keyboard_interrupt(self, excinfo: Any) -> None:
        """Mark the result as interrupted, by Ctrl-C or by a test file that calls pytest.exit()."""
        self._broken = str(excinfo.value) or type(excinfo.value).__name__
        self._write()

    def _described(self, item: Any) -> dict[str, Any]:
        name = str(item.name)
        function = str(getattr(item, "originalname", None) or name)
        has_parameters = name.startswith(function + "[") and name.endswith("]")
        # The id that pytest gives is relative to the folder of its settings; ours to where it was started, since
        # that is what finds the test again on a command line.
        inside = item.nodeid.partition("::")[2]
        path = self._relative(str(getattr(item, "path", None) or item.fspath))
        location = item.location[1]
        return {
            "node_id": path + "::" + inside if inside else path,
            "file": path,
            "line": location + 1 if isinstance(location, int) else None,
            "function": function,
            "class": inside[: -len(name)].rstrip(":") if inside.endswith("::" + name) else "",
            "parameters": name[len(function) + 1 : -1] if has_parameters else "",
            "has_docstring": bool(getattr(getattr(item, "obj", None), "__doc__", None)),
            "markers": list(dict.fromkeys(str(marker.name) for marker in item.iter_markers())),
        }

    def _relative(self, path: str) -> str:
        """Make the path of a node id, or any absolute path, relative to pytest's start folder, with slashes."""
        whole = os.path.normpath(os.path.join(self._root, path.partition("::")[0]))  # noqa: PTH118 -- keeps symlinks
        return os.path.relpath(whole, self._from).replace(os.sep, "/")

    def _write(self) -> None:
        answer = {
            "tests": self._tests,
            "errors": self._errors,
            "skipped": self._skipped,
            "deselected": self._deselected,
            "broken": self._broken,
        }
        draft = self._target.with_name(self._target.name + ".draft")
        draft.write_text(json.dumps(answer), "utf-8")
        draft.replace(self._target)


def _ignore(*_: Any, **__: Any) -> None:
    """Replacement of a function that would write."""


def _survives_exit(collector: Any, collect: Any) -> Any:
    def collected() -> Any:
        try:
            return collect()
        except SystemExit as error:
            raise collector.CollectError(f"SystemExit: {error.code} when it was imported") from error

    return collected


def _message(shown: Any, text: str) -> str:
    """Return the most informative line: the exception, else the last line."""
    crash = getattr(shown, "reprcrash", None)
    if crash is not None and str(crash.message).strip():
        return str(crash.message).strip().splitlines()[0][:500]
    lines = [line for line in text.splitlines() if line.strip()]
    raised = [line[1:].strip() for line in lines if line.startswith("E ")]
    # A syntax error shows its line and a caret first; other errors begin with the exception.
    named = [line for line in raised if ":" in line.partition(" ")[0]]
    chosen = (named or raised or lines or ["pytest did not say why"])[-1 if named else 0]
    return chosen.strip()[:500]


def _end(text: str) -> str:
    return "\n".join(text.rstrip().splitlines()[-_LINES:])[-_CHARACTERS:]

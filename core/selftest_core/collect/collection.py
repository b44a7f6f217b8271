"""Collect the tests of a project with its own pytest.

pytest runs once with `--collect-only` and our plugin (`collecting_plugin`), in the project's interpreter and with its
settings; its output is quoted in errors and never parsed. The arguments that a run passes to pytest are used here too,
so both select the same tests.

Errors of files are part of the result: one file that cannot be imported must not hide the others. No test at all is an
error: a filter that matches nothing would look like success. Collecting imports the tests, and runs none.
"""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import shutil
import tempfile
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from selftest_core.collect import collecting_plugin
from selftest_core.collect.project_python import find_pytest
from selftest_core.errors import ToolFailedError, ToolMissingError, ToolOutputError, ToolTimeoutError, UsageError
from selftest_core.frozen import dataclass
from selftest_core.tools.process import run_async

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from selftest_core.tools.process import Completed

TIMEOUT = 300.0
"""Default timeout of a collection, in seconds."""

_PLUGIN = "selftest_collecting_plugin"
_LARGEST = 256 * 1024 * 1024
_USAGE_ERROR = 4
_LINES = 20
_HINT = "Set `pytest_command` to the interpreter that has the project's tests, such as `.venv/bin/python -m pytest`."


@dataclass(frozen=True, slots=True)
class CollectedTest:
    """One test. `node_id` and `file` are relative to the folder of the collection.

    `line`: 1-based, None if unknown. `class_name`: `Outer::Inner`, empty outside of classes. `parameters`: the text
    in the brackets, or empty. `markers`: each name once, the nearest first.
    """

    node_id: str
    file: str
    line: int | None
    function: str
    class_name: str
    parameters: str
    has_docstring: bool
    markers: tuple[str, ...]

    @property
    def without_parameters(self) -> str:
        """The id of the test function, as citations name it."""
        function = "::".join(part for part in (self.file, self.class_name, self.function) if part)
        return function if self.node_id.startswith(f"{function}[") else self.node_id


@dataclass(frozen=True, slots=True)
class CollectionError:
    """A file (or folder) that could not be collected. `message`: one line. `traceback`: its end, may be empty."""

    path: str
    message: str
    traceback: str


@dataclass(frozen=True, slots=True)
class Collection:
    """The result of a collection: `tests` in the order of their files, each node id once.

    `skipped`: files that skip themselves as a whole. `deselected`: number of tests that `-k`, `-m` and such deselected.
    """

    tests: tuple[CollectedTest, ...]
    errors: tuple[CollectionError, ...] = ()
    skipped: tuple[CollectionError, ...] = ()
    deselected: int = 0


def default_pytest_command(project: Path, environ: Mapping[str, str]) -> tuple[str, ...]:
    """Choose pytest: of the project's environment, wherever that is, else of our own (`find_pytest` warns of it)."""
    return find_pytest(project, environ).command


async def collect(
    root: Path,
    tests: Sequence[str],
    pytest_command: Sequence[str],
    pytest_args: Sequence[str],
    environ: Mapping[str, str],
    timeout: float = TIMEOUT,
) -> Collection:
    """Collect the tests in `root`. `tests`: paths and node ids relative to it, none for the project's own settings.

    `pytest_command` empty means `default_pytest_command(root, environ)`; a relative path in it is relative to `root`.
    Cancelling ends pytest. Raises UsageError (no tests; arguments that pytest refuses), ToolMissingError (no pytest),
    ToolTimeoutError, ToolFailedError (pytest crashed or was stopped) and ToolOutputError.
    """
    with _arranged(root, tests, pytest_command, pytest_args, environ) as asked:
        with asked.explained(timeout):
            done = await run_async(asked.argv, timeout=timeout, cwd=root, env=asked.environment)
        return asked.collected(done)


@dataclass(frozen=True, slots=True)
class _Asked:
    """One call of pytest, and the file for the plugin's answer."""

    argv: tuple[str, ...]
    environment: Mapping[str, str]
    target: Path

    @contextlib.contextmanager
    def explained(self, timeout: float) -> Iterator[None]:
        """Explain a missing pytest, and a timeout."""
        try:
            yield
        except ToolMissingError as error:
            raise ToolMissingError(error.title, error.detail, _HINT, argv=self.argv) from error
        except ToolTimeoutError as error:
            raise _hung(error, timeout, _being_collected(self.target)) from error

    def collected(self, done: Completed) -> Collection:
        answer = _answer(self.target, done)
        if answer is None:
            raise _died(done, _being_collected(self.target))
        return _checked(answer, done)


@contextlib.contextmanager
def _arranged(
    root: Path, tests: Sequence[str], pytest_command: Sequence[str], pytest_args: Sequence[str],
    environ: Mapping[str, str],
) -> Iterator[_Asked]:  # fmt: skip
    command = tuple(pytest_command) or default_pytest_command(root, environ)
    if os.sep in command[0]:
        command = (str(root / command[0]), *command[1:])
    names = [f"./{name}" if name.startswith("-") else name for name in tests]
    with tempfile.TemporaryDirectory(prefix="selftest-collect-") as made:
        folder = Path(made).resolve()
        plugins, target = folder / "plugins", folder / "collected.json"
        plugins.mkdir()
        shutil.copyfile(collecting_plugin.__file__, plugins / f"{_PLUGIN}.py")
        argv = (*command, "-p", _PLUGIN, "--collect-only", *pytest_args, *names)
        yield _Asked(argv, _environment(environ, plugins, target), target)


def _environment(environ: Mapping[str, str], plugins: Path, target: Path) -> dict[str, str]:
    before = environ.get("PYTHONPATH")
    return {
        **environ,
        "PYTHONPATH": f"{plugins}{os.pathsep}{before}" if before else str(plugins),
        collecting_plugin.VARIABLE: str(target),
        "PY_COLORS": "0",
        # The checkout is the user's: write no bytecode and no coverage data.
        "PYTHONDONTWRITEBYTECODE": "1",
        "COVERAGE_FILE": str(target.with_name("coverage")),
    }


def _answer(target: Path, done: Completed) -> dict[str, Any] | None:
    """Read the plugin's answer, None if it wrote nothing."""
    try:
        size = target.stat().st_size
        if size > _LARGEST:
            title = f"pytest collected more than can be read ({size // 1024 // 1024} MiB)"
            raise ToolOutputError(title, hint="Name fewer tests.", argv=done.argv)
        answer = json.loads(target.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError) as error:
        raise ToolOutputError("What pytest collected cannot be read", str(error), argv=done.argv) from error
    if not isinstance(answer, dict):
        raise ToolOutputError("What pytest collected cannot be read", "It is no JSON object.", argv=done.argv)
    return answer


def _checked(answer: dict[str, Any], done: Completed) -> Collection:
    """Convert the answer. Raises the error that pytest or the answer reports."""
    if done.exit_status == _USAGE_ERROR:
        raise UsageError("pytest refused its arguments", _refusal(done), _see(done))
    if answer.get("broken"):
        title = "pytest broke off while it collected the tests"
        raise ToolFailedError(
            title, str(answer["broken"]), _see(done), argv=done.argv, exit_status=done.exit_status, stderr=done.stderr
        )
    try:
        found = Collection(
            tuple(_test(item) for item in answer["tests"]),
            tuple(CollectionError(str(e["path"]), str(e["message"]), str(e["end"])) for e in answer["errors"]),
            tuple(CollectionError(str(e["path"]), str(e["message"]), "") for e in answer["skipped"]),
            int(answer["deselected"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise ToolOutputError("What pytest collected cannot be read", repr(error), argv=done.argv) from error
    if not found.tests:
        raise _no_tests(found, done)
    return _each_once(found)


def _test(item: dict[str, Any]) -> CollectedTest:
    line = item["line"]
    return CollectedTest(
        node_id=str(item["node_id"]),
        file=str(item["file"]),
        line=None if line is None else int(line),
        function=str(item["function"]),
        class_name=str(item["class"]),
        parameters=str(item["parameters"]),
        has_docstring=bool(item["has_docstring"]),
        markers=tuple(str(name) for name in item["markers"]),
    )


def _each_once(found: Collection) -> Collection:
    """Keep the first of several tests with one id, and report the id as an error: they cannot be distinguished."""
    counts = Counter(test.node_id for test in found.tests)
    if len(counts) == len(found.tests):
        return found
    once = {test.node_id: test for test in reversed(found.tests)}
    tests = tuple(once[node_id] for node_id in counts)
    twice = tuple(
        CollectionError(once[node_id].file, f"{count} tests have the id {node_id}: only one of them can be run", "")
        for node_id, count in counts.items()
        if count > 1
    )
    return replace(found, tests=tests, errors=(*found.errors, *twice))


def _no_tests(found: Collection, done: Completed) -> UsageError:
    if found.errors:
        title = f"No tests were collected: {_counted(len(found.errors), 'file')} could not be read"
        hint = "Mend what the messages name, or set `pytest_command` to the interpreter that has what is missing."
    elif found.deselected:
        title = f"No tests were collected: the arguments leave out all {found.deselected}"
        hint = "Look at -k, -m and --deselect, in the arguments and in the project's addopts."
    else:
        title, hint = "No tests were collected", "Name folders, files or node ids that hold tests."
    about = [f"{error.path}: {error.message}" for error in (*found.errors, *found.skipped)]
    return UsageError(title, "\n".join([*_first(about), _said(done)]).strip(), hint)


def _hung(error: ToolTimeoutError, timeout: float, where: str) -> ToolTimeoutError:
    detail = f"It was collecting {where}." if where else "It had not begun to collect."
    hint = "Look at what that file does when it is imported, or name the tests that are meant."
    title = f"pytest had not collected the tests within {timeout:g} s"
    said = "\n".join(part for part in (detail, error.stderr) if part)
    return ToolTimeoutError(title, said, hint, argv=error.argv, stderr=error.stderr)


def _died(done: Completed, where: str) -> UsageError | ToolMissingError | ToolFailedError:
    """Explain why pytest ended without an answer of the plugin."""
    said = _said(done)
    if "No module named pytest" in done.stderr or "No module named 'pytest'" in done.stderr:
        return ToolMissingError("pytest is not installed for this project", said, _HINT, argv=done.argv)
    if _PLUGIN in done.stderr and "Error" in done.stderr and not where:
        hint = "Does `pytest_command` take PYTHONPATH away (`python -I`, a container)? The plugin is loaded from there."
        return ToolFailedError("pytest could not load the collecting plugin", said, hint, argv=done.argv)
    if done.exit_status == _USAGE_ERROR:
        return UsageError("pytest could not begin to collect", _refusal(done), _see(done))
    ended = f"signal {-done.exit_status}" if done.exit_status < 0 else f"status {done.exit_status}"
    title = f"pytest ended with {ended} while it collected {where}" if where else f"pytest ended with {ended}"
    return ToolFailedError(
        title, said or "It printed nothing.", _see(done), argv=done.argv, exit_status=done.exit_status,
        stderr=done.stderr,
    )  # fmt: skip


def _being_collected(target: Path) -> str:
    """Return the file that pytest collected last; empty before the first."""
    try:
        return target.with_name(target.name + ".now").read_text(encoding="utf-8", errors="replace")[:300]
    except OSError:
        return ""


def _said(done: Completed) -> str:
    """Return the last lines of pytest's output: stdout, then the errors on stderr."""
    lines = [line.rstrip() for line in (*done.stdout.splitlines(), *done.stderr.splitlines()) if line.strip()]
    return "\n".join(lines[-_LINES:])[-4000:]


def _refusal(done: Completed) -> str:
    """Return pytest's error message without other output."""
    lines = [line.rstrip() for line in done.stderr.splitlines()]
    errors = [number for number, line in enumerate(lines) if line.startswith("ERROR: ")]
    return "\n".join(_first(lines[errors[0] :]))[:4000] if errors else _said(done)


def _see(done: Completed) -> str:
    place = done.argv.index(_PLUGIN)
    command = shlex.join([*done.argv[: place - 1], *done.argv[place + 1 :]])
    return f"To see it yourself: {command}"


def _first(lines: Iterable[str]) -> list[str]:
    whole = list(lines)
    return whole if len(whole) <= _LINES else [*whole[:_LINES], f"and {len(whole) - _LINES} more"]


def _counted(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"

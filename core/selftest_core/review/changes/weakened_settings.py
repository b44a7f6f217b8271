"""Changes of pytest's settings that make tests easier to pass: found by comparing what is set before and after.

Found are: options that leave tests out, repeat failures or stop early; warnings that are errors no more; limits that
are raised; strictness that is off; settings that choose other tests. It errs towards finding too much: a person looks
at the lines, which come along.
"""

from __future__ import annotations

import itertools
import re
import shlex
from typing import TYPE_CHECKING

from selftest_core.collect.hostile_text import UnreadableError, read_ini, read_toml
from selftest_core.review.changes.weakening import Weakening, with_lines

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

type _Settings = dict[str, tuple[str, ...]]
"""The words of each setting: one for each line or element, options one by one."""

_SECTIONS = {"pytest.ini": "pytest", ".pytest.ini": "pytest", "tox.ini": "pytest", "setup.cfg": "tool:pytest"}
_MOST = 100
"""Places of one file: nobody reads more."""
_TOML = "pyproject.toml"
_LEAVE_OUT = ("--deselect", "--ignore", "-k", "-m", "--last-failed", "--lf", "--stepwise", "--sw", "--collect-only")
_HIDE = (
    "-x",
    "--exitfirst",
    "--maxfail",
    "--reruns",
    "--force-flaky",
    "--retries",
    "-p",
    "--no-cov",
    "--disable-warnings",
    "-o",
    "--override-ini",
)
_STRICT = ("--strict", "--runxfail", "--cov-fail-under", "--timeout", "-W error")
_TAKES_VALUE = frozenset(
    {"--deselect", "--ignore", "--ignore-glob", "-k", "-m", "-p", "-W", "--maxfail", "--reruns", "-n"}
)
_CHOOSES = frozenset(
    {"testpaths", "python_files", "python_classes", "python_functions", "norecursedirs", "usefixtures"}
)
_SWITCHES = re.compile(r"xfail_strict|strict(_\w+)?")
_TIMEOUTS = frozenset({"timeout", "session_timeout"})
_REPEATS = frozenset({"reruns", "retries"})
_TRUE = frozenset({"true", "1", "yes", "on"})


def is_settings_file(path: str) -> bool:
    """Return True for a file in which pytest looks for settings."""
    name = path.rpartition("/")[2]
    return name in _SECTIONS or name == _TOML


def find_weakened_settings(files: Mapping[str, tuple[str | None, str | None]]) -> tuple[Weakening, ...]:
    """Compare files of settings: path to its text before and after, None where there is no such file."""
    found: list[Weakening] = []
    for path, (before, after) in files.items():
        old, new = _read(path, before), _read(path, after)
        if old is None:
            continue
        if new is None:
            found.append(Weakening(path, 1, "cannot be read any more"))
            continue
        if before is None and new and not path.endswith((_TOML, "tox.ini", "setup.cfg")):
            found.append(Weakening(path, 1, "settings of pytest in other files count no more"))
        found += itertools.islice(_compare(path, old, new, before or "", after or ""), _MOST)
    return tuple(with_lines(one, *files[one.path]) for one in found)


def _compare(path: str, old: _Settings, new: _Settings, before: str, after: str) -> Iterator[Weakening]:
    for name in dict.fromkeys((*old, *new)):
        was, now = old.get(name, ()), new.get(name, ())
        there, here = set(was), set(now)
        added = [word for word in now if word not in there]
        removed = [word for word in was if word not in here]
        if name == "addopts":
            for word in added:
                if _is_one_of(word, _LEAVE_OUT):
                    yield Weakening(path, _line_of(after, name, word), "an option leaves tests out")
                elif _is_one_of(word, _HIDE):
                    yield Weakening(
                        path, _line_of(after, name, word), "an option hides failures, or changes how tests run"
                    )
                elif re.match(r"-W ?(ignore|default|once|module)|--pythonwarnings[ =]ignore", word):
                    yield Weakening(path, _line_of(after, name, word), "warnings are ignored")
            for word in removed:
                if _is_one_of(word, _STRICT):
                    yield _gone(path, name, word, before, "an option that makes pytest stricter is removed or changed")
        elif name == "filterwarnings":
            for word in removed:
                if word.startswith("error"):
                    yield _gone(path, name, word, before, "warnings are errors no more")
            for word in added:
                if not word.startswith("error"):
                    yield Weakening(path, _line_of(after, name, word), "warnings are ignored")
        elif was != now and _SWITCHES.fullmatch(name):
            if _is_on(was) and not _is_on(now):
                yield _changed(path, name, now, before, after, f"{name} is off")
        elif was != now and name in _TIMEOUTS | _REPEATS:
            none = float("inf") if name in _TIMEOUTS else 0.0
            if _number(now, none) > _number(was, none):
                yield _changed(path, name, now, before, after, f"the limit {name} is raised or removed")
        elif was != now and name in _CHOOSES:
            yield _changed(path, name, now, before, after, f"{name} is changed: it chooses tests")


def _read(path: str, text: str | None) -> _Settings | None:
    """Return the settings of pytest in a file; none where there is no file, None where it cannot be read."""
    if text is None:
        return {}
    name = path.rpartition("/")[2]
    try:
        found = _from_toml(text) if name == _TOML else _from_ini(text, _SECTIONS[name])
    except UnreadableError:
        return None
    return {key: _options(words) if key == "addopts" else words for key, words in found.items()}


def _from_toml(text: str) -> _Settings:
    tool = read_toml(text).get("tool", {})
    table = tool.get("pytest", {}) if isinstance(tool, dict) else {}
    if not isinstance(table, dict):
        return {}
    inner = table.get("ini_options", {})
    whole = {**table, **(inner if isinstance(inner, dict) else {})}
    return {
        str(key): tuple(map(str, value)) if isinstance(value, list) else _lines(str(value))
        for key, value in whole.items()
        if key != "ini_options"
    }


def _from_ini(text: str, section: str) -> _Settings:
    parser = read_ini(text)
    return {key: _lines(value) for key, value in parser.items(section)} if parser.has_section(section) else {}


def _lines(value: str) -> tuple[str, ...]:
    return tuple(line.strip() for line in value.splitlines() if line.strip())


def _options(lines: Sequence[str]) -> tuple[str, ...]:
    """Split options, each with its value."""
    try:
        words = shlex.split(" ".join(lines), comments=False)
    except ValueError:
        words = " ".join(lines).split()
    found: list[str] = []
    for word in words:
        if found and found[-1] in _TAKES_VALUE:
            found[-1] += f" {word}"
        else:
            found.append(word)
    return tuple(found)


def _is_one_of(word: str, options: Sequence[str]) -> bool:
    return any(
        word == one or word.startswith((f"{one}=", f"{one} ", f"{one}-"))
        or (len(one) == 2 and word.startswith(one))  # -kname
        for one in options
    )  # fmt: skip


def _is_on(words: Sequence[str]) -> bool:
    return bool(words) and words[0].lower() in _TRUE


def _number(words: Sequence[str], none: float) -> float:
    """Return a limit as a number; 0 and what is no number are as none."""
    try:
        return float(words[0]) or none if words else none
    except ValueError:
        return none


def _gone(path: str, name: str, word: str, before: str, what: str) -> Weakening:
    return Weakening(path, _line_of(before, name, word), what, was_deleted=True)


def _changed(path: str, name: str, now: Sequence[str], before: str, after: str, what: str) -> Weakening:
    if not now:
        return Weakening(path, _line_of(before, name), what, was_deleted=True)
    return Weakening(path, _line_of(after, name), what, old_line=_line_of(before, name, default=0))


def _line_of(text: str, name: str, word: str = "", default: int = 1) -> int:
    """Return the number of the line with a word of a setting, else of the setting."""
    lines = text.split("\n")
    starts = [
        number for number, line in enumerate(lines) if re.match(rf"\s*['\"]?{re.escape(name)}['\"]?\s*[=:]", line)
    ]
    if not starts:
        return default
    said = word.split()[-1].partition("=")[2] or word.split()[-1] if word.split() else ""
    return next((number for number in range(starts[0], len(lines)) if said and said in lines[number]), starts[0]) + 1

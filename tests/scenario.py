"""A repository with the repetition of real runs, made from a seed: 273 agents' branches on one base, and the truth.

90 agents change nothing. 70 make one of four fixes, half of them letter for letter, the others in texts of their own.
47 give the tests one and the same home, in twelve texts. 56 improve a test file each, twelve of them with a line of
the changelog. Ten make a fix of their own: two of these change one line in two ways, two put the same guard into
two functions, and two are mistakes.

`truth.json` beside the repository names the agents of each intent, and the mistakes. Other generators that write both
can be read too.
"""

from __future__ import annotations

import json
import os
import random
from dataclasses import dataclass
from typing import TYPE_CHECKING

from selftest_core.git.command import environment
from selftest_core.tools.process import run

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

AGENTS = 273
BOOKS = 60
_UNCHANGED, _FIXES, _CONFTESTS, _TESTS, _LOGGED = 90, 70, 47, 56, 12
_BEGAN = 1_790_000_000

_BOOK = '''\
"""Book {n} of the ledger."""


def balance(entries, opening={n}):
    amount = opening
    for entry in entries:
        amount += entry
    return amount


def interest(entries, rate={n}):
    base = balance(entries)
    return base * rate / 100


def fee(entries, least={n}):
    charged = len(entries) * 2
    if charged < least:
        charged = least
    return charged


def label(entries, name="book {n}"):
    text = name.upper()
    return f"{{text}}: {{balance(entries)}}"
'''
_TEST = """\
from ledger.book_{book:02d} import balance, fee


def test_balance():
    assert balance([1, 2]) == {book} + 3


def test_fee():
    assert fee([]) == {book}
"""

type Texts = tuple[str, ...]

_FIX: tuple[tuple[int, str, Texts], ...] = (
    (
        3,
        "        charged = least\n",
        (
            "        raise ValueError('too few entries')\n",
            '        raise ValueError("too few entries")\n',
            "        # a fee below the least one is a mistake\n        raise ValueError('too few entries')\n",
            "        message = 'too few entries'\n        raise ValueError(message)\n",
        ),
    ),
    (
        7,
        "    return base * rate / 100\n",
        (
            "    return round(base * rate / 100, 2)\n",
            "    return round(base * rate / 100, ndigits=2)\n",
            "    digits = 2\n    return round(base * rate / 100, digits)\n",
            "    earned = base * rate / 100\n    return round(earned, 2)\n",
        ),
    ),
    (
        11,
        "    amount = opening\n",
        (
            "    entries = list(entries)\n    amount = opening\n",
            "    entries = [*entries]\n    amount = opening\n",
            "    entries = tuple(entries)\n    amount = opening\n",
        ),
    ),
    (
        19,
        "    text = name.upper()\n",
        (
            "    text = name.strip().upper()\n",
            "    text = name.upper().strip()\n",
            "    text = name.strip()\n    text = text.upper()\n",
            "    # blanks around a name are a slip\n    text = name.strip().upper()\n",
        ),
    ),
)  # fmt: skip
"""Book, the old text, and the texts of the fix, the usual one first."""

_GUARD = "    if not entries:\n        return 0\n"
_OWN: tuple[tuple[int, str, str], ...] = (
    (30, "    base = balance(entries)\n", _GUARD + "    base = balance(entries)\n"),
    (30, "    charged = len(entries) * 2\n", _GUARD + "    charged = len(entries) * 2\n"),
    (32, "    for entry in entries:\n", "    for entry in sorted(entries):\n"),
    (33, "len(entries) * 2", "len(entries) * 3"),
    (34, "    base = balance(entries)\n", "    base = max(balance(entries), 0)\n"),
    (34, "    base = balance(entries)\n", "    base = abs(balance(entries))\n"),
    (36, "    text = name.upper()\n", "    text = name.title()\n"),
    (37, "    return amount\n", "    return amount + 1\n"),
    (38, "        charged = least\n", "        charged = least + 1\n"),
    (39, "    if charged < least:\n        charged = least\n", "    charged = max(charged, least)\n"),
)
"""Book, old text, new text. 4 and 5 clash, 0 and 1 say the same of two functions, 7 and 8 break the tests of others."""
_MISTAKES = (7, 8)

_HOMES = tuple(
    f"import pytest\n\n\n@pytest.fixture{scope}\ndef {name}(monkeypatch, tmp_path):\n{body}"
    for scope in ("", "(autouse=True)")
    for name in ("ledger_home", "home")
    for body in (
        "    monkeypatch.setenv('LEDGER_HOME', str(tmp_path))\n",
        '    monkeypatch.setenv("LEDGER_HOME", str(tmp_path))\n    yield tmp_path\n',
        "    # monkeypatch undoes it\n    monkeypatch.setenv('LEDGER_HOME', str(tmp_path))\n    return tmp_path\n",
    )
)


@dataclass(frozen=True)
class Scenario:
    """A repository of branches and its truth. `intents`: agents by intent; `mistakes`: intents to be reverted."""

    repository: Path
    base: str
    intents: Mapping[str, tuple[str, ...]]
    mistakes: frozenset[str]
    branches: tuple[str, ...]

    @property
    def intent_of(self) -> dict[str, str]:
        """The intent of each agent that changed something."""
        return {agent: intent for intent, agents in self.intents.items() for agent in agents}


def read_scenario(folder: Path) -> Scenario:
    """Read `repo` and `truth.json` of a folder."""
    truth = json.loads((folder / "truth.json").read_text(encoding="utf-8"))
    intents = {intent: tuple(map(_branch, agents)) for intent, agents in truth["intents"].items()}
    branches = [*(agent for agents in intents.values() for agent in agents), *map(_branch, truth["unchanged"])]
    return Scenario(folder / "repo", truth["base"], intents, frozenset(truth["bad"]), tuple(sorted(branches)))


def make_scenario(folder: Path, seed: int) -> Scenario:
    """Write `repo` and `truth.json` into a folder."""
    dice = random.Random(seed)
    files = _base_files()
    agents = list(range(AGENTS))
    dice.shuffle(agents)
    waiting = iter(agents)
    stream = [_commit("refs/heads/main", -1, "Start"), *(_file(path, text) for path, text in files.items())]
    intents: dict[str, list[int]] = {}
    mistakes: dict[str, int] = {}

    def branch(intent: str, subject: str, changed: Mapping[str, str]) -> int:
        agent = next(waiting)
        intents.setdefault(intent, []).append(agent)
        stream.append(f"{_commit(f'refs/heads/{_branch(agent)}', agent, subject)}from refs/heads/main\n")
        stream.extend(_file(path, text) for path, text in changed.items())
        return agent

    unchanged = [next(waiting) for _ in range(_UNCHANGED)]
    stream += [f"reset refs/heads/{_branch(agent)}\nfrom refs/heads/main\n\n" for agent in unchanged]
    for number in range(_FIXES):
        fix = number % len(_FIX)
        book, old, texts = _FIX[fix]
        text = texts[0] if dice.random() < 0.5 else dice.choice(texts[1:])
        path = _path(book)
        subject = f"[FIX_IMPL] {dice.choice(('Fix', 'Repair', 'Correct'))} {path}"
        branch(f"fix-{fix}", subject, {path: files[path].replace(old, text)})
    for number, (book, old, new) in enumerate(_OWN):
        path = _path(book)
        place = 0 if number != 1 else files[path].index("def fee")
        text = files[path][:place] + files[path][place:].replace(old, new, 1)
        agent = branch(f"own-{number}", f"[FIX_IMPL] Change {number} of {path}", {path: text})
        if number in _MISTAKES:
            mistakes[f"own-{number}"] = agent
    for _ in range(_CONFTESTS):
        subject = f"[FIX_TEST] {dice.choice(('Give tests a home', 'A home for the tests', 'Isolate the tests'))}"
        branch("conftest", subject, {"tests/conftest.py": dice.choice(_HOMES)})
    for number in range(_TESTS):
        book = number % BOOKS
        path = f"tests/test_{number:03d}.py"
        changed = {path: f"{files[path]}\n\ndef test_more():\n    assert balance([{number}]) == {book} + {number}\n"}
        if number < _LOGGED:
            changed["CHANGELOG.md"] = f"{files['CHANGELOG.md']}- Tests of part {number}.\n"
        branch(f"test-{number:03d}", f"[IMPROVE_TEST] More of test {number}", changed)
    base = _import(folder / "repo", "".join(stream))
    truth = {"base": base, "intents": intents, "unchanged": unchanged, "bad": mistakes}
    (folder / "truth.json").write_text(json.dumps(truth, indent=1), encoding="utf-8")
    return read_scenario(folder)


def _base_files() -> dict[str, str]:
    files = {"ledger/__init__.py": "", "CHANGELOG.md": "# Changes\n\n## Unreleased\n\n- First.\n"}
    files |= {_path(book): _BOOK.format(n=book) for book in range(BOOKS)}
    files |= {f"tests/test_{n:03d}.py": _TEST.format(book=n % BOOKS) for n in range(AGENTS)}
    return files | {"tests/conftest.py": "import pytest\n"}


def _path(book: int) -> str:
    return f"ledger/book_{book:02d}.py"


def _branch(agent: int) -> str:
    return f"agent-{agent:03d}"


def _commit(ref: str, agent: int, subject: str) -> str:
    name = "Ada <ada@example.org>" if agent < 0 else f"Agent {agent} <agent{agent}@example.org>"
    when = f"{_BEGAN + 60 * (agent + 1)} +0000"
    return f"commit {ref}\nauthor {name} {when}\ncommitter {name} {when}\ndata {len(subject)}\n{subject}\n"


def _file(path: str, text: str) -> str:
    return f"M 100644 inline {path}\ndata {len(text.encode())}\n{text}\n"


def _import(repository: Path, stream: str) -> str:
    """Make the repository of a stream of `git fast-import`, with main checked out; returns main's commit."""
    repository.mkdir(parents=True)
    environ = environment({"PATH": os.environ["PATH"]})
    for words, given in (
        (("init", "-q", "-b", "main"), None),
        (("fast-import", "--quiet"), stream),
        (("reset", "-q", "--hard", "main"), None),
        (("rev-parse", "main"), None),
    ):
        done = run(("git", *words), timeout=120, cwd=repository, env=environ, input=given)
        if not done.ok:
            raise RuntimeError(f"git {words[0]}: {done.stderr_end}")
    return done.stdout.strip()

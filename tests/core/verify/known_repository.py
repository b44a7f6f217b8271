"""A known line as a repository: real git, real tests, and the same truth. Each change is the branch of one agent."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from core.review.repositories import Repository
from selftest_core.review.evidence import Evidence
from selftest_core.tools.process import run

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from core.verify.known_truth import KnownLine

TEST_FILE = """\
import os
from pathlib import Path

from shop.i{place} import STATE

BREAKS = sorted(Path(__file__).parents[1].glob("shop/breaks*.txt"))


def check(number):
    assert not any(f"test_{place}.py::test_{{number}}" in path.read_text().split() for path in BREAKS)
    assert number not in {flaky} or os.urandom(1)[0] >= {below}
    assert STATE[number]
"""
A_TEST = "\n\ndef test_{number}():\n    check({number})\n"


@dataclass(frozen=True)
class KnownRepository:
    """The repository of a line. `evidence`: what each agent says, which is that all of its tests pass."""

    line: KnownLine
    repository: Repository
    branches: tuple[str, ...]
    evidence: Mapping[str, Evidence]

    @classmethod
    def make(cls, line: KnownLine, folder: Path, more_files: int = 0) -> KnownRepository:
        """Write it to `folder`; `more_files`: modules that nobody changes, forty to a folder."""
        repository = Repository.make(folder)
        base = {"shop/__init__.py": ""}
        base |= {f"more/d{n // 40}/m{n}.py": f"VALUE = {n}\n" * 20 for n in range(more_files)}
        for place in range(line.count):
            base |= _files(line, place, is_applied=False)
        parts = ["commit refs/heads/main\n", _header("Start"), *(_file(path, text) for path, text in base.items())]
        branches = tuple(f"agent{place}" for place in range(line.count))
        for place, branch in enumerate(branches):
            changed = _files(line, place, is_applied=True)
            broken = [test for test, culprit in line.broken_by.items() if culprit == place]
            if broken:
                changed[f"shop/breaks{place}.txt"] = "\n".join(broken) + "\n"
            parts += [
                f"commit refs/heads/{branch}\n",
                _header(f"[FIX_IMPL] Change {place}"),
                "from refs/heads/main\n",
            ]
            parts += [_file(path, text) for path, text in changed.items()]
        argv = ("git", "fast-import", "--quiet")
        done = run(argv, timeout=600, cwd=folder, env=dict(os.environ), input="".join(parts))
        assert done.ok, done.stderr_end
        repository.git("reset", "-q", "--hard", "main")
        evidence = {
            branch: Evidence(tests=tuple((f"tests/{test}", True) for test in line.items[place].tests))
            for place, branch in enumerate(branches)
        }
        return cls(line, repository, branches, evidence)


def _files(line: KnownLine, place: int, *, is_applied: bool) -> dict[str, str]:
    tests = [test for test, owner in line.owner.items() if owner == place]
    state = {}
    text = ""
    for number, test in enumerate(tests):
        if is_applied or line.on_base[test] != "missing":
            text += A_TEST.format(number=number)
        state[number] = test not in line.lies if is_applied else line.on_base[test] == "green"
    flaky = {number for number, test in enumerate(tests) if test in line.flaky}
    head = TEST_FILE.format(place=place, flaky=flaky or "()", below=round(line.flaky_rate * 256))
    word = "mended" if is_applied else "to be mended"
    return {f"shop/i{place}.py": f"# {word}\nSTATE = {state}\n", f"tests/test_{place}.py": head + text}


def _header(subject: str) -> str:
    return f"committer Ada <ada@example.org> 1700000000 +0000\ndata {len(subject)}\n{subject}\n"


def _file(path: str, text: str) -> str:
    return f"M 100644 inline {path}\ndata {len(text.encode())}\n{text}\n"

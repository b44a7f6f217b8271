"""Repositories for measuring the line: many files, and 300 commits of many agents on branches of their own."""

from __future__ import annotations

import os
import random
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from selftest_core.git.command import Git, environment
from selftest_core.tools.process import run

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_NAMES = {
    "GIT_AUTHOR_NAME": "Ada", "GIT_AUTHOR_EMAIL": "ada@example.org",
    "GIT_COMMITTER_NAME": "Ada", "GIT_COMMITTER_EMAIL": "ada@example.org",
}  # fmt: skip


@dataclass(frozen=True)
class History:
    """A repository with its work tree, the base and the branches by name."""

    folder: Path
    user: Git
    environ: Mapping[str, str]
    base: str
    branches: tuple[str, ...]
    commits: int
    files: int

    def git(self, *arguments: str, folder: Path | None = None, check: bool = True, timeout: float = 600) -> str:
        """What git prints, run as the person would."""
        done = run(("git", *arguments), timeout=timeout, cwd=folder or self.folder, env=self.environ)
        if check and not done.ok:
            raise RuntimeError(f"git {arguments[0]}: {done.stderr_end}")
        return done.stdout.strip()


@contextmanager
def history(files: int, commits: int = 300, agents: int = 60) -> Iterator[History]:
    """`commits` of `agents`: most edit a file that few others edit, some a file that many do, some make one."""
    with TemporaryDirectory(prefix="line-bench-") as made:
        folder = Path(made) / "repository"
        folder.mkdir()
        environ = {**environment({"PATH": os.environ["PATH"]}), **_NAMES}
        stream, branches = _stream(files, commits, agents)
        run(("git", "init", "-q", "-b", "main", str(folder)), timeout=60, cwd=folder, env=environ)
        done = run(("git", "fast-import", "--quiet"), timeout=600, cwd=folder, env=environ, input=stream)
        if not done.ok:
            raise RuntimeError(done.stderr_end)
        run(("git", "reset", "-q", "--hard", "main"), timeout=600, cwd=folder, env=environ)
        user = Git(folder / ".git", environ)
        yield History(folder, user, environ, user.resolve("main"), tuple(branches), commits, files)


def _stream(files: int, commits: int, agents: int) -> tuple[str, list[str]]:
    dice = random.Random(files * 1000 + commits)
    names = [f"src/part{n // 100:03}/module{n:05}.py" for n in range(files)]
    texts = {name: [f"# {name} line {n}" for n in range(60)] for name in names}
    out = ["reset refs/heads/main\ncommit refs/heads/main\ncommitter Ada <a@x> 1700000000 +0000\ndata 5\nStart\n"]
    for name in names:
        out.append(_file(name, texts[name]))
    hot = names[:: max(1, files // 20)][:20]
    branches = [f"agent{n:02}" for n in range(agents)]
    when = 1700000000
    for index, branch in enumerate(branches):
        out.append(f"\nreset refs/heads/{branch}\nfrom refs/heads/main\n")
        own: dict[str, list[str]] = {}
        for step in range(commits // agents):
            when += 60
            out.append(f"\ncommit refs/heads/{branch}\ncommitter Ada <a@x> {when} +0000\n")
            message = f"[FIX_IMPL] {branch} step {step}"
            out.append(f"data {len(message)}\n{message}\n")
            match dice.randrange(10):
                case 0 | 1:
                    name = dice.choice(hot)
                case 2:
                    name = f"src/part{dice.randrange(files // 100):03}/new_{branch}_{step}.py"
                case _:
                    name = dice.choice(names)
            lines = own.setdefault(name, list(texts.get(name, [])))
            place = dice.randrange(len(lines) + 1)
            lines.insert(place, f"changed by {branch} at {step}")
            if name in hot and dice.random() < 0.3:
                lines[min(30, len(lines) - 1)] = f"a clash of {index}"
            out.append(_file(name, lines))
    return "".join(out) + "\n", branches


def _file(name: str, lines: list[str]) -> str:
    text = "\n".join(lines) + "\n"
    return f"M 100644 inline {name}\ndata {len(text)}\n{text}\n"

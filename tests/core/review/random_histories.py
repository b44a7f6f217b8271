"""Random small histories, and what git's own cherry-pick makes of them: for the property test and for `make fuzz`."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from core.review.repositories import NAMES, Repository
from selftest_core.git.merges import Side

if TYPE_CHECKING:
    import random
    from pathlib import Path

    from selftest_core.review.resolutions import Answer, Answers

type Files = dict[str, tuple[str, bytes]]
"""By path: mode and content."""

_FOLDERS = ("", "src/", "src/deep/", "docs/", "tests/")


@dataclass
class RandomHistory:
    """A repository on `main` with branches of several agents, each commit by its id, oldest first in its branch."""

    repository: Repository
    base: str
    branches: dict[str, list[str]]

    @property
    def oids(self) -> list[str]:
        return [oid for branch in self.branches.values() for oid in branch]

    def fingerprint(self) -> dict[str, bytes | str]:
        """HEAD, index and configuration byte for byte, and every ref."""
        folder = self.repository.folder / ".git"
        marks: dict[str, bytes | str] = {name: (folder / name).read_bytes() for name in ("HEAD", "index", "config")}
        return {**marks, "refs": self.repository.git("for-each-ref")}


def make_history(folder: Path, dice: random.Random, *, agents: int, steps: int) -> RandomHistory:
    """Branches that edit, add, delete, rename (files and folders), chmod, retype and clash, some identically."""
    repository = Repository.make(folder)
    start = _start(dice)
    stream = [_commit("main", 1, "Start", "", {}, start)]
    when = 1
    acts = [(dice.randrange(13), dice.randrange(1 << 30)) for _ in range(agents * steps)]
    names = [f"agent{number}" for number in range(agents)]
    counts = {}
    for name in names:
        here, counts[name] = dict(start), dice.randint(1, steps)
        stream.append(f"reset refs/heads/{name}\nfrom refs/heads/main\n\n".encode())
        for step in range(counts[name]):
            # One act in three is somebody else's too, so that identical changes, voids and near misses turn up.
            act, seed = dice.choice(acts) if dice.random() < 0.35 else (dice.randrange(13), dice.randrange(1 << 30))
            after = _changed(here, act, seed)
            when += dice.randrange(100)
            kind = dice.choice(["[FIX_IMPL] ", "[FIX_TEST] ", ""])
            stream.append(_commit(name, when, f"{kind}{name} step {step}", name, here, after))
            here = after
    done = subprocess.run(
        ["git", "fast-import", "--quiet"], cwd=folder, input=b"".join(stream), env=repository.environment,
        capture_output=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr.decode()
    repository.git("reset", "-q", "--hard", "main")
    wanted = [f"{name}~{back}" for name in names for back in reversed(range(counts[name]))]
    oids = iter(repository.git("rev-parse", "main", *wanted).split())
    base = next(oids)
    return RandomHistory(repository, base, {name: [next(oids) for _ in range(counts[name])] for name in names})


def _start(dice: random.Random) -> Files:
    files: Files = {}
    for number in range(dice.randint(4, 7)):
        folder = dice.choice(_FOLDERS)
        text = "".join(f"{number} line {line}\n" for line in range(14))
        files[f"{folder}f{number}.txt"] = ("100644", text.encode())
    files["src/kept.txt"] = ("100644", b"kept\n" * 8)
    files["logo.bin"] = ("100644", bytes(range(256)))
    return files


def _changed(before: Files, act: int, seed: int) -> Files:
    """The files after one act, which depends on nothing but its seed where it can be done at all."""
    import random

    dice = random.Random(seed)
    files = dict(before)
    name = dice.choice(sorted(files)) if files else ""
    mode, content = files.get(name, ("100644", b""))
    match act:
        case 0 | 1 | 2 | 3 if content:
            lines = content.splitlines(keepends=True)
            lines[dice.randrange(min(len(lines), 6))] = f"edit {dice.randrange(4)}\n".encode()
            files[name] = (mode, b"".join(lines))
        case 4 if content:
            lines = content.splitlines(keepends=True)
            lines.insert(dice.randrange(len(lines) + 1), f"more {dice.randrange(3)}\n".encode())
            files[name] = (mode, b"".join(lines))
        case 5:
            _put(files, f"{dice.choice(_FOLDERS)}new{dice.randrange(2)}.txt", f"new {dice.randrange(2)}\n".encode())
        case 6 if len(files) > 1:
            del files[name]
        case 7 if files:
            moved = files.pop(name)
            if dice.random() < 0.4:
                moved = (moved[0], moved[1] + b"and edited\n")
            _put(files, f"{dice.choice(('', 'src/', 'moved/', 'docs/'))}m{dice.randrange(2)}.txt", moved[1], moved[0])
        case 8:
            # A whole folder moves: git takes later arrivals along.
            folder = dice.choice([one for one in _FOLDERS if one])
            target = dice.choice(["lib/", "src/other/", "docs2/"])
            for path in [path for path in files if path.startswith(folder)]:
                moved = files.pop(path)
                _put(files, target + path[len(folder) :], moved[1], moved[0])
        case 9 if files and mode != "120000":
            files[name] = ("100755" if mode == "100644" else "100644", content)
        case 10:
            files["logo.bin"] = ("100644", bytes(range(256)) + bytes([dice.randrange(3)]))
        case 11 if files:
            del files[name]
            if dice.random() < 0.5:
                _put(files, f"{name}/inside.txt", b"a folder now\n")
            else:
                _put(files, name, b"kept.txt", "120000")
        case _:
            folder = dice.choice([one for one in _FOLDERS if one])
            for path in [path for path in files if path.startswith(folder)]:
                del files[path]
            if dice.random() < 0.4 or not files:
                _put(files, folder.rstrip("/"), b"a file now\n")
    return files


def _put(files: Files, path: str, content: bytes, mode: str = "100644") -> None:
    """A file where it can be: what stands in its way, as a file or as a folder, stays."""
    parts = path.split("/")
    above = ["/".join(parts[:depth]) for depth in range(1, len(parts))]
    if not any(one in files for one in above) and not any(other.startswith(path + "/") for other in files):
        files[path] = (mode, content)


def _commit(branch: str, when: int, message: str, author: str, before: Files, after: Files) -> bytes:
    who = f"{author or 'ada'} <{author or 'ada'}@example.org> {1700000000 + when} +0000"
    text = message.encode()
    out = [f"commit refs/heads/{branch}\nauthor {who}\ncommitter {who}\ndata {len(text)}\n".encode(), text, b"\n"]
    out += [f"D {path}\n".encode() for path in before if path not in after]
    for path, (mode, content) in after.items():
        if before.get(path) != (mode, content):
            out += [f"M {mode} inline {path}\ndata {len(content)}\n".encode(), content, b"\n"]
    return b"".join([*out, b"\n"])


@dataclass
class CherryPicks:
    """git's own cherry-pick in a work tree of its own; the same pick on the same tree is only ever made once."""

    history: RandomHistory
    folder: Path
    answers: Answers = field(default_factory=dict)
    known: dict[tuple[str, str, frozenset[Answer]], tuple[str, str]] = field(default_factory=dict)
    commits: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        source = self.history.repository
        # A clone, since even a second work tree would write into the repository that must not change.
        source.git("clone", "-q", "--shared", "--no-checkout", str(source.folder), str(self.folder))
        self._work = Repository(self.folder)
        for key, value in (("merge.directoryRenames", "true"), ("advice.mergeConflict", "false"), ("gc.auto", "0")):
            self._work.git("config", key, value)
        self._go(self.history.base)

    def pick(self, tree: str, oid: str) -> tuple[str, str]:
        """What became of it (laid, void, held), and the tree then."""
        key = (tree, oid, frozenset(self.answers.values()))
        if key not in self.known:
            self.known[key] = self._pick(tree, oid)
        return self.known[key]

    def lay(self, oids: list[str]) -> tuple[dict[str, str], str]:
        """One after the other on the base."""
        tree = self.commits_tree(self.history.base)
        became = {}
        for oid in oids:
            became[oid], tree = self.pick(tree, oid)
        return became, tree

    def commits_tree(self, oid: str) -> str:
        tree = self._work.git("rev-parse", f"{oid}^{{tree}}") if oid not in self._trees else self._trees[oid]
        self._trees[oid] = tree
        self.commits.setdefault(tree, oid)
        return tree

    _trees: dict[str, str] = field(default_factory=dict)
    _now: str = ""

    def _go(self, oid: str) -> None:
        self._work.git("reset", "-q", "--hard", oid)
        self._work.git("clean", "-ffdxq")
        self._now = oid

    def _pick(self, tree: str, oid: str) -> tuple[str, str]:
        before = self.commits[tree]
        if self._now != before:
            self._go(before)
        done = subprocess.run(
            ["git", "cherry-pick", "--allow-empty", "--keep-redundant-commits", oid], cwd=self.folder,
            env={**self._work.environment, **NAMES, "GIT_EDITOR": ":"}, capture_output=True, check=False,
            stdin=subprocess.DEVNULL, timeout=120,
        )  # fmt: skip
        if done.returncode and not self._resolve(oid):
            self._now = ""
            (self.folder / ".git" / "CHERRY_PICK_HEAD").unlink(missing_ok=True)
            return "held", tree
        commit, after = self._work.git("rev-parse", "HEAD", "HEAD^{tree}").split()
        self._now = commit
        self.commits.setdefault(after, commit)
        if after != tree:
            return "laid", after
        return "void", tree

    def _resolve(self, oid: str) -> bool:
        """Resolve the conflicts of the pick in the work tree, as a person would; False where an answer is missing."""
        sides: dict[str, list[Side | None]] = {}
        for entry in self._work.git("ls-files", "-u", "-z").split("\0")[:-1]:
            words, _, path = entry.partition("\t")
            mode, blob, stage = words.split()
            sides.setdefault(path, [None, None, None])[int(stage) - 1] = Side(mode, blob)
        found = [(path, self.answers.get((base, ours, theirs))) for path, (base, ours, theirs) in sides.items()]
        if not found or any(answer is None for _, answer in found):
            return False
        for path, answer in found:
            file = self.folder / path
            file.unlink(missing_ok=True)
            if answer is not None and answer.content is not None:
                if answer.mode == "120000":
                    file.symlink_to(answer.content.decode())
                else:
                    file.write_bytes(answer.content)
                    file.chmod(int(answer.mode or "0", 8) & 0o777)
        self._work.git("add", "-A")
        self._work.git("commit", "-q", "--allow-empty", "-C", oid)
        return True


def environment() -> dict[str, str]:
    """For the engine: the caller's, of which it takes next to nothing."""
    return dict(os.environ)

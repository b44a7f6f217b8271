"""Repositories for tests: small histories made with the real git, in folders of their own."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

NAMES = {
    "GIT_AUTHOR_NAME": "Ada", "GIT_AUTHOR_EMAIL": "ada@example.org", "GIT_AUTHOR_DATE": "1700000000 +0000",
    "GIT_COMMITTER_NAME": "Ada", "GIT_COMMITTER_EMAIL": "ada@example.org", "GIT_COMMITTER_DATE": "1700000000 +0000",
}  # fmt: skip


def tree_body(files: Mapping[bytes, str]) -> bytes:
    """The body of a tree object with these files: ids of blobs by name. Names are not checked, as git would."""
    return b"".join(b"100644 " + name + b"\0" + bytes.fromhex(oid) for name, oid in sorted(files.items()))


@dataclass
class Repository:
    """A work tree at `folder`, driven as a person would."""

    folder: Path

    @classmethod
    def make(cls, folder: Path) -> Repository:
        """A new repository on branch `main`, without a commit."""
        folder.mkdir(parents=True)
        made = cls(folder)
        made.git("init", "-q", "-b", "main")
        return made

    @property
    def environment(self) -> dict[str, str]:
        return {
            "PATH": os.environ["PATH"], "HOME": str(self.folder.parent), "GIT_CONFIG_NOSYSTEM": "1",
            "LC_ALL": "C.UTF-8", **NAMES,
        }  # fmt: skip

    def git(self, *arguments: str, check: bool = True, env: Mapping[str, str] | None = None) -> str:
        """What git prints; fails the test where git fails, unless `check` is off."""
        done = subprocess.run(
            ["git", *arguments], cwd=self.folder, env={**self.environment, **(env or {})}, input="",
            capture_output=True, check=False, timeout=300, text=True, encoding="utf-8", errors="surrogateescape",
        )  # fmt: skip
        if check and done.returncode:
            raise AssertionError(f"git {arguments} ended with {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout.strip()

    def commit(self, message: str, files: Mapping[str, str | bytes | None], author: str = "Ada") -> str:
        """Write the files (None deletes), commit everything, and return the id."""
        for name, content in files.items():
            path = self.folder / name
            if content is None:
                path.unlink()
            else:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content if isinstance(content, bytes) else content.encode())
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", message, f"--author={author} <{author.lower()}@example.org>")
        return self.git("rev-parse", "HEAD")

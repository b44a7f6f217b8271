"""Fingerprint of the parts of a user's repository that a run must not change."""

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from selftest_core.git.command import Git

if TYPE_CHECKING:
    from collections.abc import Mapping

    from selftest_core.git.command import Place


def fingerprint(place: Place, environ: Mapping[str, str]) -> dict[str, str]:
    """Hash HEAD, the index, every ref outside `refs/selftest/` (the stash is one) and the settings, by name."""
    asked = ["git", "rev-parse", "--absolute-git-dir"]
    done = subprocess.run(asked, cwd=place.top, env=dict(environ), capture_output=True, text=True, check=True)
    git_dir = Path(done.stdout.removesuffix("\n"))
    git = Git(git_dir, environ)
    refs = {name: oid for name, oid in git.refs().items() if not name.startswith("refs/selftest/")}
    parts = {
        "HEAD": (git_dir / "HEAD").read_bytes(),
        "index": git.ask("ls-files", "--stage", "-z").encode("utf-8", "surrogateescape"),
        "refs": "\n".join(f"{oid} {name}" for name, oid in sorted(refs.items())).encode("utf-8", "surrogateescape"),
        "config": (place.git_dir / "config").read_bytes(),
    }
    return {name: hashlib.sha256(content).hexdigest() for name, content in parts.items()}

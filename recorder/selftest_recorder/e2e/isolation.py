"""Isolation of a test: a HOME, an mngr host folder, a tmux server, a temporary folder and a git repository of its own.

Its environment is made from nothing but PATH: neither the user's settings nor their keys are in it, and mngr has only
the local backend until a test names others. `selftest-tui sweep` removes what a killed test left, as it does for demos.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from selftest_core.cleanup.demo_folders import TEST_PREFIX, Claim, end_world, host_dir_of, tmux_dir_of
from selftest_core.git.command import guarded
from selftest_core.tools import process

if TYPE_CHECKING:
    from collections.abc import Sequence

_PROFILE = "e2e"
_CONNECT = ("-P", "-m", "selftest_recorder.capture.connect")
_GIT_SETTINGS = "[user]\n\tname = A Test\n\temail = test@example.org\n[init]\n\tdefaultBranch = main\n"
_DEADLINE = 60.0


class Isolation:
    """The private folders of one test. Attaches of its mngr are recorded into `recordings`."""

    def __init__(self, recordings: Path) -> None:
        self._claim = Claim(os.environ, TEST_PREFIX)
        self.root = self._claim.path
        self.home = self.root / "h"
        self.repository = self.root / "r"
        self._profile = host_dir_of(self.root) / "profiles" / _PROFILE
        temporary = self.root / "x"
        for folder in (self.home, temporary, tmux_dir_of(self.root), self._profile):
            folder.mkdir(parents=True)
        self.environment = {
            "HOME": str(self.home),
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
            "MNGR_HOST_DIR": str(host_dir_of(self.root)),
            "TMUX_TMPDIR": str(tmux_dir_of(self.root)),
            "TMPDIR": str(temporary),
            "SELFTEST_RECORDINGS": str(recordings),
            "SHELL": shutil.which("bash") or "/bin/sh",
            "TERM": "xterm-256color",
            "LANG": "C.UTF-8",
            "LC_ALL": "C.UTF-8",
            "TZ": "UTC",
            "GIT_CONFIG_NOSYSTEM": "1",
            "BASH_SILENCE_DEPRECATION_WARNING": "1",
        }
        (host_dir_of(self.root) / "config.toml").write_text(f'profile = "{_PROFILE}"\n', encoding="utf-8")
        # Otherwise mngr opens a window with hints at the first attach.
        (self._profile / "tmux_onboarding_shown").touch()
        (self.home / ".gitconfig").write_text(_GIT_SETTINGS, encoding="utf-8")
        self.use_backends(())
        self._make_repository()

    def use_backends(self, names: Sequence[str]) -> None:
        """Let mngr use these backends of providers beside the local one."""
        settings = {
            "enabled_backends": ["local", *names],
            "connect_command": shlex.join([sys.executable, *_CONNECT]),
        }
        lines = [f"{name} = {json.dumps(value)}\n" for name, value in settings.items()]
        (self._profile / "settings.toml").write_text("".join(lines), encoding="utf-8")

    def end(self) -> tuple[str, ...]:
        """End all processes that were started here and remove the folder; return messages about what failed."""
        problems = end_world(self.root)
        self._claim.release()
        return problems

    def keep(self) -> None:
        """Keep everything until `selftest-tui sweep`."""
        self._claim.keep()
        self._claim.release()

    def _make_repository(self) -> None:
        self.repository.mkdir()
        (self.repository / "README").write_text("sample\n", encoding="utf-8")
        for words in (("init", "-q"), ("add", "."), ("commit", "-q", "-m", "Start")):
            process.run(["git", *words], timeout=_DEADLINE, cwd=self.repository, env=guarded(self.environment))

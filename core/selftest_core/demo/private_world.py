"""A private world: HOME, an mngr host folder and a tmux server of its own, in one claimed folder.

Its programs get `environ`: the user's environment without variables that lead mngr, tmux or git to the user's own
files. Its mngr has the local backend only, so it uses no network. TMUX stays for the screen, which opens windows there;
tmux and mngr themselves run with `tools_environ`.
"""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

from selftest_core.cleanup.demo_folders import Claim, end_world, forget, host_dir_of, tmux_dir_of
from selftest_core.errors import ToolMissingError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

_PROFILE = "5e1f7e57"
_SETTINGS = 'enabled_backends = ["local"]\n'
_REMOVED_PREFIXES = (
    "MNGR",
    "GIT_",
    "PYTHON",
    "PYTEST",
    "SELFTEST_RUN",
    "SELFTEST_TEST",
    "SELFTEST_ROLE",
    "SELFTEST_ANSWER",
    "SELFTEST_OUT",
    "SELFTEST_PROMPT_FILE",
    "SELFTEST_ROLE",
)


class PrivateWorld:
    """A private world until `end`. Raises ToolMissingError if a program that it needs is missing."""

    def __init__(self, environ: Mapping[str, str], needs: Sequence[str] = ("tmux", "git")) -> None:
        for program in needs:
            if shutil.which(program, path=environ.get("PATH", os.defpath)) is None:
                raise ToolMissingError(
                    f"{program} is not installed", "The demo runs real agents in real terminals.",
                    f"Install {program}: `sudo apt install {program}`, or `brew install {program}`.", argv=(program,),
                )  # fmt: skip
        self._outer = dict(environ)
        self._claim = Claim(environ)
        self.root = self._claim.path
        try:
            self._write_files()
        except BaseException:
            self.end()
            raise

    @property
    def host_dir(self) -> Path:
        """MNGR_HOST_DIR."""
        return host_dir_of(self.root)

    @property
    def socket(self) -> Path:
        """The socket of the world's tmux server."""
        return tmux_dir_of(self.root) / f"tmux-{os.getuid()}" / "default"

    @property
    def _temporary(self) -> Path:
        return self.root / "x"

    @property
    def environ(self) -> dict[str, str]:
        """The environment of a screen on this world."""
        home = self.root / "h"
        kept = {name: value for name, value in self._outer.items() if not name.startswith(_REMOVED_PREFIXES)}
        return {
            **kept,
            "HOME": str(home),
            "MNGR_HOST_DIR": str(self.host_dir),
            "TMUX_TMPDIR": str(tmux_dir_of(self.root)),
            # Temporary files of agents and their tests are removed with the world.
            "TMPDIR": str(self._temporary),
            "XDG_STATE_HOME": str(home / ".local/state"),
            "XDG_CONFIG_HOME": str(home / ".config"),
            "XDG_CACHE_HOME": str(home / ".cache"),
            "XDG_DATA_HOME": str(home / ".local/share"),
            "GIT_CONFIG_NOSYSTEM": "1",
            # With an empty HOME zsh asks questions, and macOS' bash recommends zsh.
            "SHELL": shutil.which("bash", path=self._outer.get("PATH", os.defpath)) or "/bin/sh",
            "BASH_SILENCE_DEPRECATION_WARNING": "1",
            "TERM": self._outer.get("TERM") or "xterm-256color",
        }

    @property
    def tools_environ(self) -> dict[str, str]:
        """The environment of mngr and tmux in this world: without the tmux that we run in."""
        return {name: value for name, value in self.environ.items() if name not in {"TMUX", "TMUX_PANE"}}

    def keep(self) -> None:
        """Keep the world after this process ends."""
        self._claim.keep()
        self._claim.release()

    def end(self) -> tuple[str, ...]:
        """End every process of this world and remove its folder; return what could not be ended."""
        problems = end_world(self.root)
        self._claim.release()
        if not problems:
            forget(self._outer, self.root)
        return problems

    def _write_files(self) -> None:
        profile = self.host_dir / "profiles" / _PROFILE
        for folder in (self.root / "h", self._temporary, tmux_dir_of(self.root), profile):
            folder.mkdir(parents=True)
        (self.host_dir / "config.toml").write_text(f'profile = "{_PROFILE}"\n', encoding="utf-8")
        (profile / "settings.toml").write_text(_SETTINGS, encoding="utf-8")
        # Otherwise mngr opens a window with hints at the first attach.
        (profile / "tmux_onboarding_shown").touch()

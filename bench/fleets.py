"""Fleets to measure: real agents of the real mngr, or a thousand that cost nothing; each in a private world."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from selftest_core.demo.private_world import PrivateWorld
from selftest_core.errors import ToolFailedError
from selftest_core.tools.loaded.loaded_mngr import LoadedMngr
from selftest_core.tools.mngr import find_mngr
from selftest_core.tools.process import run
from simulated.fleet import fake_environ, lay_out

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_CREATES_AT_ONCE = 2
_LONGEST_CREATE = 120.0


@dataclass(frozen=True, slots=True)
class MeasuredFleet:
    """A fleet that is up. `folders` are mngr's folders of its agents, by agent name; `is_real`: mngr made them."""

    world: PrivateWorld
    environ: dict[str, str]
    folders: dict[str, Path]
    is_real: bool

    @property
    def size(self) -> int:
        """How many agents there are."""
        return len(self.folders)

    @property
    def name(self) -> str:
        """For the notes of a result."""
        return f"{self.size} {'real' if self.is_real else 'fake'} agents"

    @property
    def cwd(self) -> Path:
        """A repository, where a screen is opened."""
        return self.world.root / "r"


def base_environ() -> dict[str, str]:
    """Our environment as from a plain terminal."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("TMUX", "SELFTEST", "TEXTUAL"))}
    return {**kept, "TERM": "xterm-256color", "COLORTERM": "truecolor", "LC_ALL": "C.UTF-8"}


@contextlib.contextmanager
def a_world() -> Iterator[PrivateWorld]:
    """A private world with a repository."""
    world = PrivateWorld(base_environ())
    try:
        repository = world.root / "r"
        repository.mkdir()
        (repository / "README").write_text("measured\n", encoding="utf-8")
        identity = ("-c", "user.name=bench", "-c", "user.email=bench@example.org")
        for words in (("init", "-q", "-b", "main"), ("add", "."), (*identity, "commit", "-q", "-m", "Start")):
            run(("git", *words), timeout=30, cwd=repository, env=world.tools_environ)
        yield world
    finally:
        world.end()


@contextlib.contextmanager
def real_fleet(size: int) -> Iterator[MeasuredFleet]:
    """Agents made by the real mngr, loaded once, in place. Half of them are marked as working."""
    with a_world() as world, contextlib.closing(LoadedMngr(find_mngr(world.environ), world.tools_environ)) as loaded:
        cwd = world.root / "r"

        def create(number: int) -> None:
            name = f"st-7f-real-{number:03}"
            with choosing:
                program = loaded.path()
            argv = (
                str(program), "create", name, "--type", "command", "--transfer", "none", "--no-connect", "--headless",
                "--format", "json", "--", "sleep", "100000",
            )  # fmt: skip
            done = run(argv, timeout=_LONGEST_CREATE, cwd=cwd, env=world.tools_environ)
            if not done.ok:
                raise ToolFailedError("mngr could not create an agent", done.stderr_end, argv=argv)

        choosing = threading.Lock()
        create(0)  # alone: it writes the files that all agents share
        with ThreadPoolExecutor(_CREATES_AT_ONCE) as pool:
            for made, _ in enumerate(pool.map(create, range(1, size)), 2):
                sys.stderr.write(f"\r{made} of {size} real agents created ")
                sys.stderr.flush()
        sys.stderr.write("\n")

        folders: dict[str, Path] = {}
        for folder in sorted((world.host_dir / "agents").iterdir()):
            folders[str(json.loads((folder / "data.json").read_bytes())["name"])] = folder
        for number, folder in enumerate(folders.values()):
            if number % 2:
                (folder / "active").touch()
        yield MeasuredFleet(world, world.environ, dict(sorted(folders.items())), is_real=True)


@contextlib.contextmanager
def fake_fleet(size: int, flapping: int = 0) -> Iterator[MeasuredFleet]:
    """As many agents as wanted, on one real tmux server, listed by the fake mngr; `flapping` ones more are remote."""
    with a_world() as world:
        agents = lay_out(world, size, flapping=flapping)
        folders = {agent.name: agent.folder for agent in agents if agent.kind in ("working", "waiting")}
        everything = {agent.name: agent.folder for agent in agents}
        yield MeasuredFleet(world, fake_environ(world, world.environ), {**folders, **everything}, is_real=False)

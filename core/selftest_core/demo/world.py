"""The demo's world: a private world with the sample repository and the cast, made by the real mngr.

`start` is quick, so that a screen can be painted at once; `launch` goes on behind it, and the agents appear one by
one. Dead demos of before are cleared by the same thread, not before the first paint.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from selftest_core.demo.launch import Launch, Order
from selftest_core.demo.private import PrivateWorld
from selftest_core.demo.sample import FILES
from selftest_core.demo.scenarios import RUN, cast
from selftest_core.errors import ConfigError, ToolFailedError, UsageError
from selftest_core.tools.mngr import find_mngr
from selftest_core.tools.process import run

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Self

    from selftest_core.demo.launch import Progress
    from selftest_core.demo.scenarios import Role

AGENTS = 8
MOST_AGENTS = 200
PROGRAM = "demo-agent"
"""The program name of the agents: 15 characters at most, for `ps` cuts there and mngr would not find it."""
SPEED_VARIABLE = "SELFTEST_DEMO_SPEED"
_HERE = Path(__file__).parent


class DemoWorld:
    """A running demo. `end` it, or use it as a context manager."""

    def __init__(self, world: PrivateWorld, mngr: Path, roles: tuple[Role, ...], *, keep: bool, speed: float) -> None:
        self._world = world
        self._mngr = mngr
        self._keep = keep
        self._speed = speed
        self._launch: Launch | None = None
        self.roles = roles

    @classmethod
    def start(cls, environ: Mapping[str, str], agents: int = AGENTS, keep: bool = False) -> Self:
        """Claim a folder and lay the sample repository there: a tenth of a second, no agent yet.

        Raises UsageError for a number of agents that is no demo, ToolMissingError, ConfigError.
        """
        if not 1 <= agents <= MOST_AGENTS:
            raise UsageError(
                f"A demo cannot have {agents} agents", f"Each is a real process: 1 to {MOST_AGENTS}.",
                "Say `--agents 8`, or leave it out.",
            )  # fmt: skip
        speed = _speed(environ)
        mngr = find_mngr(environ).path
        made = cls(PrivateWorld(environ), mngr, cast(agents), keep=keep, speed=speed)
        try:
            made._lay()
        except BaseException:
            made._world.end()
            raise
        return made

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    @property
    def environ(self) -> dict[str, str]:
        """The environment for a watch and a screen."""
        return self._world.environ

    @property
    def root(self) -> Path:
        """The folder that holds all of it."""
        return self._world.root

    @property
    def repository(self) -> Path:
        """The sample repository: the folder that the demo's screen is opened in."""
        return self._world.root / "acme-shop"

    def launch(self, on_progress: Callable[[Progress], None] = lambda _: None, *, patience: float = 0.0) -> None:
        """Make the agents, behind the caller's back. They wait `patience` seconds for a person, 0 for ever."""
        for role in self.roles:
            (self._stories / f"{role.name}.json").write_text(json.dumps(role.story), encoding="utf-8")
        self._launch = Launch(
            self._mngr,
            [self._order(role, patience) for role in self.roles],
            cwd=self.repository,
            env=self._world.tools_environ,
            logs=self._stories,
            on_progress=on_progress,
        )
        self._launch.start()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until all agents are made; False when the time was over first."""
        return self._launch is None or self._launch.wait(timeout)

    def end(self) -> tuple[str, ...]:
        """End the demo and remove it, unless it is kept; returns what could not be ended, in words."""
        if self._launch is not None:
            self._launch.stop()
        if self._keep:
            self._world.keep()
            return ()
        return self._world.end()

    def how_to_reach(self) -> str:
        """For `--keep`: the lines that lead back to this world."""
        environ = self.environ
        there = " ".join(f"{name}={environ[name]}" for name in ("HOME", "MNGR_HOST_DIR", "TMUX_TMPDIR", "SHELL"))
        return (
            f"The demo stays in {self.root}\n"
            f"  look     cd {self.repository} && env -u TMUX -u XDG_STATE_HOME {there} selftest-tui\n"
            f"  attach   env -u TMUX tmux -S {self._world.socket} attach\n"
            f"  remove   selftest-tui sweep --yes"
        )

    @property
    def _stories(self) -> Path:
        return self.root / "s"

    def _order(self, role: Role, patience: float) -> Order:
        actor = (sys.executable, "-I", "-S", str(self._stories / "actor.py"))
        story = (str(self._stories / f"{role.name}.json"), f"{self._speed:g}", f"{patience:g}")
        return Order(
            role.name,
            (
                "create", role.name, "--type", "command", "--no-connect", "--headless", "--format", "json",
                "--label", f"selftest_run={RUN}", "--label", "selftest_role=tester",
                "--label", f"selftest_test={role.test}", "--tmux-width", "120", "--tmux-height", "40",
                "--", str(self._stories / PROGRAM), *actor, *story,
            ),
        )  # fmt: skip

    def _lay(self) -> None:
        self._stories.mkdir()
        shutil.copyfile(_HERE / "actor.py", self._stories / "actor.py")
        shutil.copyfile(_HERE / "wrapper.sh", self._stories / PROGRAM)
        (self._stories / PROGRAM).chmod(0o755)
        for name, text in FILES.items():
            path = self.repository / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        for arguments in (
            ("init", "-q", "-b", "main"),
            ("config", "user.name", "demo agent"),
            ("config", "user.email", "demo@example.org"),
            ("add", "."),
            ("commit", "-q", "-m", "Open the shop"),
        ):
            done = run(("git", *arguments), timeout=30, cwd=self.repository, env=self._world.tools_environ)
            if not done.ok:
                raise ToolFailedError(
                    "git could not make the sample repository", done.stderr_end, argv=done.argv,
                    exit_status=done.exit_status, stderr=done.stderr,
                )  # fmt: skip


def _speed(environ: Mapping[str, str]) -> float:
    said = environ.get(SPEED_VARIABLE) or "1"
    try:
        speed = float(said)
    except ValueError:
        speed = 0.0
    if not 0.01 <= speed <= 1000:
        raise ConfigError(
            f"{SPEED_VARIABLE} is {said!r}", "It divides every pause of the demo's agents: 0.01 to 1000.",
            f"Unset it, or say {SPEED_VARIABLE}=2.",
        )  # fmt: skip
    return speed

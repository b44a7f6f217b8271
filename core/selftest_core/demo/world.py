"""The demo's world: a private world with the sample repository, and a run of its tests by scripted agents.

The run is a normal one, on the real mngr: prepared, begun and conducted as by `selftest-tui run`. Only the agents are
scripted, and the world is private, so that all of it can be removed.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from selftest_core.config import ENVIRONMENT_PREFIX, FILE_NAME, load_config
from selftest_core.demo import claude
from selftest_core.demo.other_roles import OTHER_ROLES
from selftest_core.demo.private_world import PrivateWorld
from selftest_core.demo.scenarios import CAST, cast, files
from selftest_core.demo.staging import make_repository, short_timeout, write_settings, write_stage
from selftest_core.errors import ConfigError, UsageError
from selftest_core.run.conduct.policy import Policy
from selftest_core.tools.mngr import find_mngr

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path
    from typing import Self

    from selftest_core.config_values import Value
    from selftest_core.demo.scenarios import Role
    from selftest_core.run.store import RunFolder

AGENTS = len(CAST)
CLAUDE_FIRST = (
    "test_redirect_keeps_query",
    "test_tax_rounds_half_up",
    "test_refund_never_exceeds_payment",
    "test_total",
)
"""The first tests of a demo with Claude Code: two fixes, a question to a user, and one without a change."""
MOST_AGENTS = 200
AT_ONCE, CLAUDES_AT_ONCE = 40, 12
SPEED_VARIABLE = "SELFTEST_DEMO_SPEED"
PLAIN_PYTEST = "PYTEST_DISABLE_PLUGIN_AUTOLOAD"
"""Without it pytest loads all plugins that are installed, of which the sample's tests need none."""
WATCHED_TIMEOUT = 420.0
"""Seconds that an agent may take while somebody watches: enough to answer one, and to see one hang."""
WATCHED_PATIENCE = 240.0
UNWATCHED_SPEED, UNWATCHED_PATIENCE = 20.0, 4.0
_MAY_ASK = "\n[agents.claude]\nauto_disable_questions = false\n"
POLICY = Policy(poll=0.5, last_looks=1)
"""One last look is enough: files of this machine are there when their agent has ended."""


class DemoWorld:
    """A running demo. `end` it, or use it as a context manager."""

    def __init__(self, world: PrivateWorld, roles: tuple[Role, ...], *, keep: bool) -> None:
        self._world = world
        self._keep = keep
        self.roles = roles
        self._variables: dict[str, str] = {}

    @classmethod
    def start(
        cls,
        environ: Mapping[str, str],
        agents: int | None = None,
        keep: bool = False,
        *,
        is_watched: bool = True,
        agent: str = "command",
    ) -> Self:
        """Claim a folder and make the sample repository there: a tenth of a second, no agent yet.

        `is_watched`: agents work at a user's speed and wait for answers. `agent`: command for scripts, claude for the
        real Claude Code on a scripted model, which takes some seconds more. Raises UsageError for a wrong number of
        agents, ToolMissingError, ToolFailedError, ConfigError.
        """
        is_claude = agent == "claude"
        if agents is None:
            agents = claude.AGENTS if is_claude else AGENTS
        if not 1 <= agents <= MOST_AGENTS:
            raise UsageError(
                f"A demo cannot have {agents} agents", f"Each is a real process: 1 to {MOST_AGENTS}.",
                f"Use `--agents {AGENTS}`, or leave it out.",
            )  # fmt: skip
        speed = _speed(environ, 1.0 if is_watched else UNWATCHED_SPEED)
        mngr = find_mngr(environ)
        if is_claude:
            environ = claude.without_accounts(environ)
            claude.check_programs(environ)
        demo = cls(PrivateWorld(environ), cast(agents, CLAUDE_FIRST if is_claude else ()), keep=keep)
        try:
            if is_claude:
                claude.check_plugin(mngr.path, demo._world.tools_environ, demo.root)
                demo._make_files_for_claude(agents, speed, is_watched=is_watched)
            else:
                demo._make_files(agents, speed, is_watched=is_watched)
        except BaseException:
            demo._world.end()
            raise
        return demo

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    @property
    def environ(self) -> dict[str, str]:
        """The environment of a poller and a screen."""
        return {**self._world.environ, **self._variables, PLAIN_PYTEST: "1"}

    @property
    def tools_environ(self) -> dict[str, str]:
        """The environment of a conductor: without the tmux that we run in, and without the user's settings."""
        kept = {
            name: value for name, value in self._world.tools_environ.items() if not name.startswith(ENVIRONMENT_PREFIX)
        }
        return {**kept, **self._variables, PLAIN_PYTEST: "1"}

    @property
    def is_whole(self) -> bool:
        """All of the cast plays, as scripts: then a draft and a sync follow."""
        return not self._variables and len(self.roles) >= AGENTS

    @property
    def root(self) -> Path:
        """The folder of the private world."""
        return self._world.root

    @property
    def repository(self) -> Path:
        """The sample repository, in which the demo's screen is opened."""
        return self._world.root / "acme-shop"

    def begin(self, say: Callable[[str], None]) -> RunFolder:
        """Plan the run of the demo's tests and make its folder; no agent yet. Raises as `prepare` does."""
        from selftest_core.run.plan.preparation import RunOptions, begin, prepare  # not needed for the first frame

        environ = self.tools_environ
        config = load_config(self.repository, environ)
        wanted = RunOptions(tests=tuple(role.test for role in self.roles))
        return begin(asyncio.run(prepare(wanted, config, environ, self.repository, say)), environ)

    def end(self) -> tuple[str, ...]:
        """End and remove the demo, unless it is kept; return what could not be ended."""
        if self._keep:
            self._world.keep()
            return ()
        return self._world.end()

    def how_to_reach(self) -> str:
        """Return the lines that lead back to a kept world."""
        environ = self.environ
        there = " ".join(f"{name}={environ[name]}" for name in ("HOME", "MNGR_HOST_DIR", "TMUX_TMPDIR", "SHELL"))
        return (
            f"The demo stays in {self.root}\n"
            f"  look     cd {self.repository} && env -u TMUX -u XDG_STATE_HOME {there} selftest-tui\n"
            f"  attach   env -u TMUX tmux -S {self._world.socket} attach\n"
            f"  remove   selftest-tui sweep --yes"
        )

    def _make_files(self, agents: int, speed: float, *, is_watched: bool) -> None:
        make_repository(self.repository, files(agents), self._world.tools_environ)
        stage = self.root / "s"
        stage.mkdir()
        patience = WATCHED_PATIENCE if is_watched else UNWATCHED_PATIENCE
        command = write_stage(stage, (*self.roles, *OTHER_ROLES), speed=speed, patience=patience)
        timeout = WATCHED_TIMEOUT if is_watched else short_timeout(self._world.tools_environ)
        agent: dict[str, Value] = {"agent": "command", "agent_command": command}
        write_settings(self.repository, agent, timeout, min(agents, AT_ONCE))

    def _make_files_for_claude(self, agents: int, speed: float, *, is_watched: bool) -> None:
        environ = self._world.tools_environ
        make_repository(self.repository, files(agents), environ)
        claude.write_home(self.root / "h")
        url = claude.start_model(
            self.root, (*self.roles, *OTHER_ROLES), environ, speed=speed, is_watched=is_watched, keep=self._keep
        )
        self._variables = claude.variables(url)
        agent: dict[str, Value] = {"agent": "claude", "env": (PLAIN_PYTEST,)}
        write_settings(self.repository, agent, WATCHED_TIMEOUT, min(agents, CLAUDES_AT_ONCE))
        if is_watched:
            with (self.repository / FILE_NAME).open("a", encoding="utf-8") as file:
                file.write(_MAY_ASK)


def _speed(environ: Mapping[str, str], otherwise: float) -> float:
    text = environ.get(SPEED_VARIABLE) or f"{otherwise:g}"
    try:
        speed = float(text)
    except ValueError:
        speed = 0.0
    if not 0.01 <= speed <= 1000:
        raise ConfigError(
            f"{SPEED_VARIABLE} is {text!r}", "It divides every pause of the demo's agents: 0.01 to 1000.",
            f"Unset it, or set {SPEED_VARIABLE}=2.",
        )  # fmt: skip
    return speed

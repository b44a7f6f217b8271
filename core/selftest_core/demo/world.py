"""The demo's world: a private world with the sample repository, and a run of its tests by scripted agents.

The run is an ordinary one: prepared, begun and conducted by what `selftest-tui run` uses, on the real mngr. Only the
agents are scripted, and the world is private, so that all of it can be removed again.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from selftest_core.config import ENVIRONMENT_PREFIX, FILE_NAME, load_config
from selftest_core.demo import claude
from selftest_core.demo.private import PrivateWorld
from selftest_core.demo.scenarios import CAST, cast, files
from selftest_core.demo.staging import lay_out, short_timeout, write_settings, write_stage
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
"""The tests that a small demo with Claude Code has: two fixes, a question to a person, and nothing to do."""
MOST_AGENTS = 200
AT_ONCE, CLAUDES_AT_ONCE = 40, 12
SPEED_VARIABLE = "SELFTEST_DEMO_SPEED"
WATCHED_TIMEOUT = 420.0
"""Seconds that an agent may take while somebody watches: time to answer one, and to see one hang."""
WATCHED_PATIENCE = 240.0
UNWATCHED_SPEED, UNWATCHED_PATIENCE = 20.0, 4.0
_MAY_ASK = "\n[agents.claude]\nauto_disable_questions = false\n"
POLICY = Policy(poll=0.5, last_looks=1)
"""One last look: what is on this machine is there when its agent has ended."""


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
        """Claim a folder and lay the sample repository there: a tenth of a second, no agent yet.

        `is_watched`: somebody is there, so the agents take a person's time and wait for answers. `agent`: command for
        scripts, claude for the real Claude Code on a scripted model, which takes some seconds more. Raises UsageError
        for a number of agents that is no demo, ToolMissingError, ToolFailedError, ConfigError.
        """
        is_claude = agent == "claude"
        if agents is None:
            agents = claude.AGENTS if is_claude else AGENTS
        if not 1 <= agents <= MOST_AGENTS:
            raise UsageError(
                f"A demo cannot have {agents} agents", f"Each is a real process: 1 to {MOST_AGENTS}.",
                f"Say `--agents {AGENTS}`, or leave it out.",
            )  # fmt: skip
        speed = _speed(environ, 1.0 if is_watched else UNWATCHED_SPEED)
        mngr = find_mngr(environ)
        if is_claude:
            environ = claude.without_accounts(environ)
            claude.check_programs(environ)
        made = cls(PrivateWorld(environ), cast(agents, CLAUDE_FIRST if is_claude else ()), keep=keep)
        try:
            if is_claude:
                claude.check_plugin(mngr.path, made._world.tools_environ, made.root)
                made._lay_for_claude(agents, speed, is_watched=is_watched)
            else:
                made._lay(agents, speed, is_watched=is_watched)
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
        return {**self._world.environ, **self._variables}

    @property
    def tools_environ(self) -> dict[str, str]:
        """The environment for a conductor: nothing of a tmux around us, and none of the person's settings."""
        kept = {
            name: value for name, value in self._world.tools_environ.items() if not name.startswith(ENVIRONMENT_PREFIX)
        }
        # Plugins that happen to be installed beside us are nothing that the sample's tests need.
        return {**kept, **self._variables, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}

    @property
    def root(self) -> Path:
        """The folder that holds all of it."""
        return self._world.root

    @property
    def repository(self) -> Path:
        """The sample repository: the folder that the demo's screen is opened in."""
        return self._world.root / "acme-shop"

    def begin(self, say: Callable[[str], None]) -> RunFolder:
        """Plan the run of the cast's tests and make its folder; no agent yet. Raises what `prepare` raises."""
        from selftest_core.run.plan.preparation import RunOptions, begin, prepare  # not needed for a first paint

        environ = self.tools_environ
        config = load_config(self.repository, environ)
        wanted = RunOptions(tests=tuple(role.test for role in self.roles))
        return begin(asyncio.run(prepare(wanted, config, environ, self.repository, say)), environ)

    def end(self) -> tuple[str, ...]:
        """End the demo and remove it, unless it is kept; returns what could not be ended, in words."""
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

    def _lay(self, agents: int, speed: float, *, is_watched: bool) -> None:
        lay_out(self.repository, files(agents), self._world.tools_environ)
        stage = self.root / "s"
        stage.mkdir()
        patience = WATCHED_PATIENCE if is_watched else UNWATCHED_PATIENCE
        command = write_stage(stage, self.roles, speed=speed, patience=patience)
        timeout = WATCHED_TIMEOUT if is_watched else short_timeout(self._world.tools_environ)
        agent: dict[str, Value] = {"agent": "command", "agent_command": command}
        write_settings(self.repository, agent, timeout, min(agents, AT_ONCE))

    def _lay_for_claude(self, agents: int, speed: float, *, is_watched: bool) -> None:
        environ = self._world.tools_environ
        lay_out(self.repository, files(agents), environ)
        claude.furnish(self.root / "h")
        url = claude.start_model(self.root, self.roles, environ, speed=speed, is_watched=is_watched, keep=self._keep)
        self._variables = claude.variables(url)
        agent: dict[str, Value] = {"agent": "claude", "env": ("PYTEST_DISABLE_PLUGIN_AUTOLOAD",)}
        write_settings(self.repository, agent, WATCHED_TIMEOUT, min(agents, CLAUDES_AT_ONCE))
        if is_watched:
            with (self.repository / FILE_NAME).open("a", encoding="utf-8") as file:
                file.write(_MAY_ASK)


def _speed(environ: Mapping[str, str], otherwise: float) -> float:
    said = environ.get(SPEED_VARIABLE) or f"{otherwise:g}"
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

"""Run jobs on other hosts: the port `Verifier` over command agents of mngr, one for each slot.

Each slot is two: a folder here, in which trees are laid to be read (no code of theirs runs here), and an agent there,
which lays them again and runs pytest. Results come back as the plugin's lines, and go through the same reader. A host
that fails costs a job one more try on the next place; then its tests are unknown, with the reason.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import shlex
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from selftest_core.agents import LOCAL_PROVIDER
from selftest_core.errors import RefusedError, ToolError
from selftest_core.frozen import dataclass
from selftest_core.git.command import GUARDED_GIT, Git
from selftest_core.run.plan.copy_setup import AUTO, uv_sync
from selftest_core.run.plan.preflight import know_provider
from selftest_core.run.providers import places, provider_of, providers_of
from selftest_core.tools.mngr import Mngr, find_mngr
from selftest_core.tools.process import run
from selftest_core.verify import testing_plugin
from selftest_core.verify.commands.junit import is_reported
from selftest_core.verify.elsewhere.host_agent import HostAgent, new_agent_id, remove_agents
from selftest_core.verify.elsewhere.host_runner import LONGEST_NEWS
from selftest_core.verify.environment import Environment, Testing
from selftest_core.verify.local import LocalVerifier
from selftest_core.verify.runner import PLUGIN, START_TIMEOUT, PytestProcess
from selftest_core.verify.sandbox import HOST, Isolation
from selftest_core.verify.slots import Slot

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from selftest_core.config import Config
    from selftest_core.verify.elsewhere.host_agent import Ended
    from selftest_core.verify.runner import Collected, Ran
    from selftest_core.verify.schedule import Order
    from selftest_core.verify.verdicts import Execution

MODAL = "modal"
_LIFE = 3600
"""Seconds that a sandbox of Modal lives at most: one that was lost costs no more."""
_PACK = 280.0
_AGENTS = "agents"
_MOST = 256 * 1024 * 1024
"""Bytes of results that are read."""


def isolation_elsewhere(on: str, config: Config) -> Isolation:
    """Name what keeps tests from this machine. Raises RefusedError where a sandbox is required."""
    where = ", ".join(places(on))
    if config.verify_isolation == "require":
        detail = f"Tests on {where} run with the rights of the user of that host, which is not this machine."
        hint = 'Set verify_isolation = "auto" if that is enough, or verify here.'
        raise RefusedError("The setting verify_isolation requires a sandbox", detail, hint)
    return Isolation(HOST, f"on {where}")


def refuse_unknown_providers(on: str, environ: Mapping[str, str]) -> None:
    """Raise UsageError, with the known ones, where mngr knows no provider of one of these places. Raises ToolError."""

    async def ask() -> None:
        mngr = Mngr(find_mngr(environ), environ, Path("/"))
        wanted = [provider for provider in providers_of(on) if provider != LOCAL_PROVIDER]
        await asyncio.gather(*(know_provider(mngr, provider) for provider in wanted))

    asyncio.run(ask())


def elsewhere_testing(top: Path, on: str, config: Config, environ: Mapping[str, str]) -> Testing:
    """Describe how tests run there. Its digest names the places: results are kept apart. Raises RefusedError."""
    isolation = isolation_elsewhere(on, config)
    words = config.verify_command or config.pytest_command
    if is_reported(words):
        hint = "Verify on this machine, or set verify_command to what runs pytest there."
        raise RefusedError("Only pytest runs on other machines", "verify_command writes JUnit XML.", hint)
    variables = tuple((name, environ[name]) for name in config.env if name in environ)
    parts = [places(on), words, config.setup_command, sorted(variables)]
    digest = hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:24]
    environment = Environment(tuple(words), f"on-{digest}", (), top, variables)
    return Testing(environment, isolation, config.verify_timeout, config.verify_network)


@dataclass(frozen=True, slots=True)
class _Hosts:
    """Tools that the slots share: mngr, run in a small repository of ours, and where agents are made."""

    mngr: Mngr
    places: tuple[str, ...]
    config: Config
    agents: Path

    def note(self, agent_id: str) -> None:
        """Note an agent before it is made: the next verification here removes it if this one is killed."""
        with self.agents.open("a") as file:
            file.write(f"{agent_id}\n")
            file.flush()
            os.fsync(file.fileno())


class FarSlot(Slot):
    """A slot here, in which trees are only read, and an agent that runs them at a place."""

    def __init__(self, folder: Path, git: Git, hosts: _Hosts, number: int) -> None:
        super().__init__(folder, git)
        self.hosts, self._number = hosts, number
        self._agent: HostAgent | None = None

    def _bring_up(self) -> None:
        """Nothing: no test runs here."""

    def agent(self) -> HostAgent:
        """Return the agent; make it where there is none. Raises ToolError."""
        if self._agent is None:
            place = self.hosts.places[self._number % len(self.hosts.places)]
            agent_id = new_agent_id()
            self.hosts.note(agent_id)
            arguments = list(self.hosts.config.create_args)
            if provider_of(place) == MODAL and not any("timeout=" in word for word in arguments):
                arguments += ["-b", f"timeout={_LIFE}"]
            name = f"verify-{agent_id.removeprefix('agent-')[:12]}"
            self._agent = HostAgent.make(self.hosts.mngr, place, agent_id, name, arguments)
        return self._agent

    def give_up(self) -> None:
        """Leave the place, which failed: the next agent is made at the next one."""
        self.leave()
        self._number += 1

    def leave(self) -> None:
        """Remove the agent."""
        if self._agent is not None:
            self._agent.remove()
            self._agent = None

    def pack(self, target: Path) -> None:
        """Write the objects of the laid tree that the host lacks."""
        agent = self.agent()
        if self._laid in agent.objects:
            return
        wanted = "".join(f"{line}\n" for line in (self._laid, *(f"^{tree}" for tree in sorted(agent.objects))))
        argv = self.git.argv("pack-objects", "--revs", "-q", str(target / "pack"))
        done = run(argv, timeout=_PACK, cwd=self.untouched, env=self.git.environment, input=wanted)
        if not done.ok:
            raise ToolError(f"The tree {self._laid[:12]} cannot be packed", done.stderr_end)
        for path in target.glob("pack-*"):
            if path.suffix == ".pack":
                path.rename(target / "objects.pack")
            else:
                path.unlink()


class FarProcess(PytestProcess):
    """One process of pytest on another host, read by the same reader."""

    _slot: FarSlot

    def _go(self, files: Sequence[str]) -> tuple[int | None, bool]:
        ended = self._run(files)
        if ended is None:
            return None, False
        if ended.failure:
            raise RefusedError(f"the tests could not be run on {self._slot.agent().place}", ended.failure)
        self._output.take(ended.output.encode())
        return ended.status, ended.was_timeout

    def _run(self, files: Sequence[str]) -> Ended | None:
        """Send the job, and read its results until it ends; None where it was stopped."""
        slot, agent = self._slot, self._slot.agent()
        job = self._nonce
        target = slot.exchange / f"job-{job}"
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir(parents=True)
        there = agent.folder / "jobs" / job
        slot.pack(target)
        shutil.copyfile(testing_plugin.__file__, target / f"{PLUGIN}.py")
        orders = self._orders(there / "results", [])
        environment = self._testing.environment
        work = {
            "tree": slot.laid, "command": list(environment.command), "files": list(files), "plugin": PLUGIN,
            "variables": dict(environment.variables), "timeout": self._testing.timeout, "setup": self._setup(),
            "start_timeout": max(self._testing.timeout, START_TIMEOUT), "git": shlex.split(GUARDED_GIT),
        }  # fmt: skip
        (target / "orders.json").write_text(json.dumps(orders))
        (target / "job.json").write_text(json.dumps(work))
        agent.upload(target, job)
        agent.objects.add(slot.laid)
        return self._follow_there(agent, job)

    def _follow_there(self, agent: HostAgent, job: str) -> Ended | None:
        self._results.unlink(missing_ok=True)
        self._source = os.open(self._results, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_APPEND, 0o600)
        offset = 0
        try:
            while not self._should_stop():
                news = agent.news(job, offset)
                offset += len(news.data)
                os.write(self._source, news.data)
                while self._offset < offset and self._offset < _MOST:
                    self._read()
                if news.ended is not None and len(news.data) < LONGEST_NEWS:
                    return news.ended
            return None
        finally:
            os.close(self._source)

    def _setup(self) -> str:
        """Return the command that makes the environment there."""
        command = self._slot.hosts.config.setup_command
        if command != AUTO:
            return command
        manifest = self._slot.untouched / "pyproject.toml"
        text = manifest.read_text(encoding="utf-8", errors="replace") if manifest.is_file() else ""
        return uv_sync(text) if (self._slot.untouched / "uv.lock").is_file() else ""


class RemoteVerifier(LocalVerifier):
    """Slots whose tests run on other hosts. Close it: the agents, and hosts made for them, are removed."""

    def __init__(
        self, folder: Path, git: Git, testing: Testing, jobs: int, on: str, config: Config, environ: Mapping[str, str]
    ) -> None:
        """`on`: places as `run --on` takes them. Raises ToolMissingError without mngr."""
        folder.mkdir(parents=True, exist_ok=True)
        self.hosts = _Hosts(
            Mngr(find_mngr(environ), environ, _seed(folder, environ)), places(on), config, folder / _AGENTS
        )
        _remove_lost(self.hosts)
        super().__init__(folder, git, testing, jobs)
        self.makes_environments = bool(config.setup_command)

    _start = FarProcess

    def _make_slot(self, folder: Path, git: Git, number: int) -> Slot:
        return FarSlot(folder, git, self.hosts, number)

    def _collect_in(self, slot: Slot, files: Sequence[str]) -> Collected:
        return self._tried(slot, lambda: super(RemoteVerifier, self)._collect_in(slot, files))

    def _run_in(self, slot: Slot, tests: Sequence[str], on_run: Callable[[str, Execution], None], order: Order) -> Ran:
        return self._tried(slot, lambda: super(RemoteVerifier, self)._run_in(slot, tests, on_run, order))

    def _tried[T](self, slot: Slot, work: Callable[[], T]) -> T:
        """Do a job; where its host or mngr fails, once more at the next place."""
        assert isinstance(slot, FarSlot)
        try:
            return work()
        except ToolError:
            if self.is_stopped:
                raise
            slot.give_up()
        try:
            return work()
        except ToolError:
            slot.give_up()
            raise

    def close(self) -> None:
        """End what runs, and remove agents and slots."""
        self._is_stopped.set()
        self._pool.shutdown(wait=True, cancel_futures=True)
        while not self._slots.empty():
            slot = self._slots.get()
            assert isinstance(slot, FarSlot)
            slot.leave()
        _remove_lost(self.hosts)
        super().close()


def _seed(folder: Path, environ: Mapping[str, str]) -> Path:
    """Make the repository that agents are mirrored from: one empty commit, nothing of the user's."""
    seed = folder / "seed"
    if not (seed / "HEAD-made").exists():
        shutil.rmtree(seed, ignore_errors=True)
        seed.mkdir(parents=True)
        git = Git(seed / ".git", environ)
        for words in (
            ("init", "-q", "-b", "main", str(seed)),
            ("-c", "user.name=selftest-tui", "-c", "user.email=selftest-tui@localhost", "commit", "-q",
             "--allow-empty", "-m", "Nothing"),
        ):  # fmt: skip
            done = run(("git", *words), timeout=60, cwd=seed, env=git.environment)
            if not done.ok:
                raise ToolError("The repository for agents cannot be made", done.stderr_end)
        (seed / ".git" / "info").mkdir(exist_ok=True)
        (seed / ".git" / "info" / "exclude").write_text("HEAD-made\n")
        (seed / "HEAD-made").touch()
    return seed


def _remove_lost(hosts: _Hosts) -> None:
    """Remove agents that were noted and not removed: of a verification that was killed, or whose host failed."""
    remove_noted(hosts.mngr, hosts.agents.parent)
    hosts.agents.unlink(missing_ok=True)


def noted_agents(folder: Path) -> tuple[str, ...]:
    """Return the ids of agents that a verification with this folder of slots noted, and did not remove."""
    try:
        return tuple((folder / _AGENTS).read_text().split())
    except FileNotFoundError:
        return ()


def remove_noted(mngr: Mngr, folder: Path) -> str:
    """Remove these agents; return why that failed."""
    noted = noted_agents(folder)
    return remove_agents(mngr, noted) if noted else ""

"""Agent and host: frozen values, made from `mngr list` by `selftest_core.fleet.sources.mngr_list`.

Names, titles and labels are untrusted text, kept unchanged; screens make them safe. Times are seconds since the epoch,
UTC.
"""

from __future__ import annotations

from dataclasses import field
from enum import StrEnum
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from selftest_core.frozen import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping

LOCAL_PROVIDER = "local"
_NOTHING: Mapping[str, Any] = MappingProxyType({})


class State(StrEnum):
    """Lifecycle states of mngr 0.3; an unknown word becomes UNKNOWN, and is kept in `Agent.state_word`."""

    RUNNING = "RUNNING"
    WAITING = "WAITING"
    DONE = "DONE"
    STOPPED = "STOPPED"
    REPLACED = "REPLACED"
    RUNNING_UNKNOWN_AGENT_TYPE = "RUNNING_UNKNOWN_AGENT_TYPE"
    UNKNOWN = "UNKNOWN"


class AgentKey(NamedTuple):
    """Identity of an agent: mngr's ids are unique per host only."""

    host_id: str
    agent_id: str


@dataclass(frozen=True, slots=True)
class Ssh:
    """Access to a remote host; `command` is a shell string, to be run by `sh -c`."""

    command: str
    user: str | None = None
    host: str | None = None
    port: int | None = None
    key_path: str | None = None
    known_hosts_path: str | None = None


@dataclass(frozen=True, slots=True)
class Host:
    """A host of agents. `state` is mngr's word, None for none."""

    id: str
    name: str
    provider: str
    state: str | None = None
    ssh: Ssh | None = None
    image: str | None = None
    boot_time: float | None = None
    is_locked: bool = False
    failure_reason: str | None = None

    @property
    def is_local(self) -> bool:
        """True for this machine's own host."""
        return self.provider == LOCAL_PROVIDER


@lru_cache(maxsize=8192)
def _key(host_id: str, agent_id: str) -> AgentKey:
    """Make an identity once: a screen of a thousand agents asks for six thousand with each view."""
    return AgentKey(host_id, agent_id)


@dataclass(frozen=True, slots=True)
class Agent:
    """One agent as `mngr list` describes it."""

    id: str
    name: str
    type: str
    host: Host
    state: State
    state_word: str
    command: str = ""
    work_dir: str = ""
    branch: str | None = None
    created_at: float | None = None
    started_at: float | None = None
    pid: int | None = None
    url: str | None = None
    user_activity_at: float | None = None
    agent_activity_at: float | None = None
    idle_seconds: float | None = None
    idle_mode: str | None = None
    start_on_boot: bool = False
    waiting_reason: str | None = None
    labels: Mapping[str, str] = field(default_factory=lambda: _NOTHING)
    plugin: Mapping[str, Any] = field(default_factory=lambda: _NOTHING)

    @property
    def key(self) -> AgentKey:
        """The identity of this agent over all hosts."""
        return _key(self.host.id, self.id)

    @property
    def address(self) -> str:
        """The unambiguous address for mngr: `ID@HOST_ID.PROVIDER`."""
        return f"{self.id}@{self.host.id}.{self.host.provider}"

    @property
    def run(self) -> str | None:
        """Its run, None outside runs."""
        return self.labels.get("selftest_run")

    @property
    def test(self) -> str | None:
        """Its test, None outside runs."""
        return self.labels.get("selftest_test")

    @property
    def project(self) -> str | None:
        """mngr's project label."""
        return self.labels.get("project")

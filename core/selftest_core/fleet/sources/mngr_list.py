"""Listing of agents: run `mngr list --format json` and check all of its answer.

An agent that cannot be read is left out and named among the errors. A truncated, empty or missing answer is an error.
Exit status 1 with a complete answer means that some provider failed: the answer is used, with its errors.
"""

from __future__ import annotations

import json
import time
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from selftest_core.agents import Agent, Host, Ssh, State
from selftest_core.errors import ToolOutputError
from selftest_core.fleet.observations import Listed, ListingError
from selftest_core.tools.mngr import LIST_TIMEOUT, answer_error, how_ended, list_arguments, split_error
from selftest_core.tools.mngr_files import replace_surrogates

if TYPE_CHECKING:
    from selftest_core.agents import AgentKey
    from selftest_core.fleet.sources.mngr_models import AgentModel, HostModel
    from selftest_core.tools.mngr import Mngr

_EMPTY: MappingProxyType[str, Any] = MappingProxyType({})
_SHOWN = 200


async def list_agents(
    mngr: Mngr,
    provider: str | None = None,
    timeout: float = LIST_TIMEOUT,
    *,
    tmux_socket: str | None = None,
    include: str = "",
) -> Listed:
    """Run `mngr list` for `provider` (None: all), on the default tmux server or on `tmux_socket`.

    `include`: a CEL expression that the agents must match, checked by mngr.

    Raises ToolError: mngr is missing, broken, over its deadline, cut short, or reported why it failed.
    """
    done = await mngr.call(list_arguments(provider, include), timeout=timeout, tmux_socket=tmux_socket)
    return parse_listing(
        done.stdout, at=time.time(), provider=provider, seconds=done.seconds, stderr=done.stderr,
        exit_status=done.exit_status,
    )  # fmt: skip


def parse_listing(
    text: str, *, at: float, provider: str | None, seconds: float = 0.0, stderr: str = "", exit_status: int = 0
) -> Listed:
    """Parse an answer for `provider` (None: all) that came at `at` (seconds since the epoch).

    Raises ToolFailedError if mngr reported why it has no answer, ToolOutputError if its answer cannot be read.
    """
    document = _document(text, stderr, exit_status)
    agent_entries, error_entries = document.get("agents"), document.get("errors")
    if agent_entries is None and error_entries:
        agent_entries = []
    is_event = "event" in document  # a line of --format jsonl, where a host has `agents` too
    if is_event or not isinstance(agent_entries, list) or not isinstance(error_entries, list | None):
        raise ToolOutputError(
            "mngr list printed something else than a listing",
            f"It begins with: {text.strip()[:_SHOWN]}",
            "`selftest-tui doctor` shows its version; 0.3 is known to work.",
            exit_status=exit_status,
            stderr=stderr,
        )
    errors = [_listing_error(entry, provider) for entry in error_entries or ()]
    agents: dict[AgentKey, Agent] = {}
    hosts: dict[Host, Host] = {}
    for entry in agent_entries:
        read = _agent(entry, hosts, provider)
        if isinstance(read, ListingError):
            errors.append(read)
        elif read.key in agents:
            errors.append(ListingError(read.host.provider, f"{read.name} ({read.id}) is listed twice on one host"))
        else:
            agents[read.key] = read
    if exit_status != 0 and not errors:
        detail, hint = split_error(stderr)
        errors.append(ListingError(provider, detail or f"mngr list {how_ended(exit_status)}", hint))
    return Listed(at, provider, tuple(agents.values()), tuple(errors), seconds)


def _document(text: str, stderr: str, exit_status: int) -> dict[str, Any]:
    stripped = text.strip()
    if not stripped:
        raise answer_error("mngr list", stderr=stderr, exit_status=exit_status)
    try:
        document = _decoded(stripped)
    except (ValueError, RecursionError) as error:
        is_begun = stripped.startswith("{") or '{"agents"' in stripped
        title = "mngr list was cut short" if is_begun else "mngr list printed no JSON"
        shown = f"…{stripped[-_SHOWN:]}" if is_begun else stripped[:_SHOWN]
        raise ToolOutputError(
            title, f"It {how_ended(exit_status)}. {error}\n{shown}",
            "It is retried automatically; `mngr list --format json` in a shell shows its output.",
            exit_status=exit_status, stderr=stderr,
        ) from error  # fmt: skip
    if not isinstance(document, dict):
        raise ToolOutputError(
            "mngr list printed something else than a listing", f"It begins with: {stripped[:_SHOWN]}",
            exit_status=exit_status, stderr=stderr,
        )  # fmt: skip
    return document


def _decoded(text: str) -> object:
    try:
        return json.loads(text, parse_constant=_nothing)
    except ValueError:
        # Plugins may print lines around the answer, which is one line.
        for line in text.splitlines():
            if line.startswith('{"agents"'):
                return json.loads(line, parse_constant=_nothing)
        raise


def _nothing(constant: str) -> None:
    """Read NaN and the infinities, which are not JSON, as null."""


def _agent(entry: object, hosts: dict[Host, Host], provider: str | None) -> Agent | ListingError:
    from pydantic import ValidationError

    from selftest_core.fleet.sources.mngr_models import AgentModel

    try:
        read = AgentModel.model_validate(entry)
    except ValidationError as error:
        return _unreadable(entry, error, provider)
    except RecursionError:
        return ListingError(provider, "An agent of the listing is nested too deep to be read")
    host = _host(read.host)
    return _made(read, hosts.setdefault(host, host))


def _made(read: AgentModel, host: Host) -> Agent:
    state = State(read.state) if read.state in State else State.UNKNOWN
    return Agent(
        id=read.id,
        name=read.name,
        type=read.type,
        host=host,
        state=state,
        state_word=read.state,
        command=read.command,
        work_dir=read.work_dir,
        branch=read.initial_branch,
        created_at=read.create_time,
        started_at=read.start_time,
        pid=read.pid,
        url=read.url,
        user_activity_at=read.user_activity_time,
        agent_activity_at=read.agent_activity_time,
        idle_seconds=read.idle_seconds,
        idle_mode=read.idle_mode,
        start_on_boot=read.start_on_boot,
        waiting_reason=_waiting_reason(read.plugin),
        labels=MappingProxyType(read.labels) if read.labels else _EMPTY,
        plugin=MappingProxyType(read.plugin) if read.plugin else _EMPTY,
    )


def _host(entry: HostModel) -> Host:
    from pydantic import ValidationError

    from selftest_core.fleet.sources.mngr_models import SshModel

    ssh = None
    if entry.ssh:
        try:
            read = SshModel.model_validate(entry.ssh)
            ssh = Ssh(read.command, read.user, read.host, read.port, read.key_path, read.known_hosts_path)
        except ValidationError:
            ssh = None  # without a command the host cannot be reached
    return Host(
        id=entry.id,
        name=entry.name or entry.id,
        provider=entry.provider,
        state=entry.state,
        ssh=ssh,
        image=entry.image,
        boot_time=entry.boot_time,
        is_locked=entry.is_locked,
        failure_reason=entry.failure_reason,
    )


def _waiting_reason(plugin: dict[str, Any]) -> str | None:
    """Return the reason for which an agent waits, from any plugin (`plugin.claude.waiting_reason`)."""
    for values in plugin.values():
        reason = values.get("waiting_reason") if isinstance(values, dict) else None
        if isinstance(reason, str) and reason:
            return reason
    return None


def _unreadable(entry: object, error: Any, provider: str | None) -> ListingError:
    fields: dict[str, Any] = entry if isinstance(entry, dict) else {}
    host: dict[str, Any] = fields["host"] if isinstance(fields.get("host"), dict) else {}
    name = _string(fields.get("name"))
    reasons = "; ".join(
        f"{'.'.join(str(part) for part in each['loc']) or 'it'}: {each['msg']}" for each in error.errors()[:3]
    )
    return ListingError(
        _string(host.get("provider_name")) or provider,
        f"{name or 'An agent'} of the listing cannot be read: {reasons}",
        "It is left out. `mngr list --format json` in a shell shows its entry.",
        host_id=_string(host.get("id")),
        agent_id=_string(fields.get("id")),
    )


def _string(value: object) -> str | None:
    return replace_surrogates(value) if isinstance(value, str) and value else None


def _listing_error(entry: object, provider: str | None) -> ListingError:
    from selftest_core.fleet.sources.mngr_models import ErrorModel

    if not isinstance(entry, dict):
        return ListingError(provider, f"mngr reported an error of a form that is not known: {str(entry)[:_SHOWN]}")
    read = ErrorModel.model_validate(entry)
    message = read.message or read.short_reason or read.exception_type or "mngr reported an error without a message"
    where = f"{read.host_id}: " if read.host_id and read.host_id not in message else ""
    return ListingError(
        read.provider_name or (None if read.host_id or read.agent_id else provider),
        where + message,
        read.short_remediation or read.help_text,
        read.is_provider_inaccessible,
        read.host_id,
        read.agent_id,
    )

"""From the text of `mngr list --format json` to `Listed`: nothing that mngr prints gets past here unexamined.

One agent that cannot be read costs that agent, named among the errors, never the others. An answer that is cut short,
empty or no answer at all is an error that says so. Exit status 1 beside a whole answer is how mngr says that some
provider failed: the answer stands, with its errors. It must not run anything, and knows no clock.
"""

from __future__ import annotations

import json
import re
import signal
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from selftest_core.agents import Agent, Host, Ssh, State
from selftest_core.errors import ToolError, ToolFailedError, ToolOutputError
from selftest_core.fleet.observations import Listed, ListingError
from selftest_core.fleet.sources.listed_text import whole_text

if TYPE_CHECKING:
    from selftest_core.agents import AgentKey
    from selftest_core.fleet.sources.mngr_models import SaidAgent, SaidHost

_EMPTY: MappingProxyType[str, Any] = MappingProxyType({})
_ERROR_LINE = re.compile(r"^(?:Error|ERROR): (?P<says>.*)", re.DOTALL | re.MULTILINE)
_HINT = re.compile(r"\s{2,}\[(?P<hint>[^\[\]]*(?:\[[^\]]*\][^\[\]]*)*)\]\s*$", re.DOTALL)
_SHOWN = 200


def parse_listing(
    text: str, *, at: float, provider: str | None, seconds: float = 0.0, stderr: str = "", exit_status: int = 0
) -> Listed:
    """What mngr listed, asked for `provider` (None: all), answered at `at` (seconds since the epoch).

    Raises ToolFailedError where mngr said why it has no answer, ToolOutputError where its answer cannot be read.
    """
    document = _document(text, stderr, exit_status)
    said_agents, said_errors = document.get("agents"), document.get("errors")
    if said_agents is None and said_errors:
        said_agents = []
    is_event = "event" in document  # a line of --format jsonl, where a host has `agents` too
    if is_event or not isinstance(said_agents, list) or not isinstance(said_errors, list | None):
        raise ToolOutputError(
            "mngr list answered something else than a listing",
            f"It begins with: {text.strip()[:_SHOWN]}",
            "`selftest-tui doctor` says which mngr this is; 0.3 is the one that is known to work.",
            exit_status=exit_status,
            stderr=stderr,
        )
    errors = [_listing_error(said, provider) for said in said_errors or ()]
    agents: dict[AgentKey, Agent] = {}
    hosts: dict[Host, Host] = {}
    for said in said_agents:
        read = _agent(said, hosts, provider)
        if isinstance(read, ListingError):
            errors.append(read)
        elif read.key in agents:
            errors.append(ListingError(read.host.provider, f"{read.name} ({read.id}) is listed twice on one host"))
        else:
            agents[read.key] = read
    if exit_status != 0 and not errors:
        detail, hint = split_error(stderr)
        errors.append(ListingError(provider, detail or f"mngr list {_ended(exit_status)}", hint))
    return Listed(at, provider, tuple(agents.values()), tuple(errors), seconds)


def split_error(stderr: str) -> tuple[str, str]:
    """What mngr's stderr says as (detail, hint): its last `Error: …  [hint]`, else its last lines without a hint.

    Of a traceback it is the end: the exception, and what stands below it.
    """
    found = [match for match in _ERROR_LINE.finditer(stderr) if match["says"].strip()]
    if not found:
        lines = stderr.strip().splitlines()
        if any(line.startswith("Traceback ") for line in lines):
            last_frame = max(number for number, line in enumerate(lines) if line.startswith((" ", "Traceback ")))
            lines = lines[last_frame + 1 :] or lines
        return "\n".join(lines[-5:]), ""
    # The pattern runs to the end, so the last error is cut out by where it begins.
    start = max(stderr.rfind("Error: "), stderr.rfind("ERROR: "))
    says = stderr[start + len("Error: ") :] if start >= 0 else found[-1]["says"]
    hint = _HINT.search(says)
    if hint is None:
        return says.strip(), ""
    return says[: hint.start()].strip(), hint["hint"].strip()


def failure(what: str, *, stderr: str, exit_status: int) -> ToolError:
    """The error for an mngr that ended without an answer: what it said of the reason, else how it ended."""
    detail, hint = split_error(stderr)
    if exit_status > 0 and detail:
        return ToolFailedError(f"{what} failed", detail, hint, exit_status=exit_status, stderr=stderr)
    return ToolOutputError(
        f"{what} gave no answer", "\n".join(part for part in (f"It {_ended(exit_status)}.", detail) if part), hint,
        exit_status=exit_status, stderr=stderr,
    )  # fmt: skip


def _ended(exit_status: int) -> str:
    if exit_status >= 0:
        return f"ended with {exit_status}"
    try:
        return f"was ended by {signal.Signals(-exit_status).name}"
    except ValueError:
        return f"was ended by signal {-exit_status}"


def _document(text: str, stderr: str, exit_status: int) -> dict[str, Any]:
    stripped = text.strip()
    if not stripped:
        raise failure("mngr list", stderr=stderr, exit_status=exit_status)
    try:
        document = _decoded(stripped)
    except (ValueError, RecursionError) as error:
        is_begun = stripped.startswith("{") or '{"agents"' in stripped
        title = "mngr list was cut short" if is_begun else "mngr list answered no JSON"
        shown = f"…{stripped[-_SHOWN:]}" if is_begun else stripped[:_SHOWN]
        raise ToolOutputError(
            title, f"It {_ended(exit_status)}. {error}\n{shown}",
            "It is asked again by itself; `mngr list --format json` in a shell shows what it prints.",
            exit_status=exit_status, stderr=stderr,
        ) from error  # fmt: skip
    if not isinstance(document, dict):
        raise ToolOutputError(
            "mngr list answered something else than a listing", f"It begins with: {stripped[:_SHOWN]}",
            exit_status=exit_status, stderr=stderr,
        )  # fmt: skip
    return document


def _decoded(text: str) -> object:
    try:
        return json.loads(text, parse_constant=_nothing)
    except ValueError:
        # A plugin may print lines of its own around the answer, which mngr prints as one line.
        for line in text.splitlines():
            if line.startswith('{"agents"'):
                return json.loads(line, parse_constant=_nothing)
        raise


def _nothing(constant: str) -> None:
    """NaN and the infinities, which are not JSON, tell nothing."""


def _agent(said: object, hosts: dict[Host, Host], provider: str | None) -> Agent | ListingError:
    from pydantic import ValidationError

    from selftest_core.fleet.sources.mngr_models import SaidAgent

    try:
        read = SaidAgent.model_validate(said)
    except ValidationError as error:
        return _unreadable(said, error, provider)
    except RecursionError:
        return ListingError(provider, "An agent of the listing is nested too deep to be read")
    host = _host(read.host)
    return _made(read, hosts.setdefault(host, host))


def _made(read: SaidAgent, host: Host) -> Agent:
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


def _host(said: SaidHost) -> Host:
    from pydantic import ValidationError

    from selftest_core.fleet.sources.mngr_models import SaidSsh

    ssh = None
    if said.ssh:
        try:
            read = SaidSsh.model_validate(said.ssh)
            ssh = Ssh(read.command, read.user, read.host, read.port, read.key_path, read.known_hosts_path)
        except ValidationError:
            ssh = None  # without a command there is no way in, as if mngr had named none
    return Host(
        id=said.id,
        name=said.name or said.id,
        provider=said.provider,
        state=said.state,
        ssh=ssh,
        image=said.image,
        boot_time=said.boot_time,
        is_locked=said.is_locked,
        failure_reason=said.failure_reason,
    )


def _waiting_reason(plugin: dict[str, Any]) -> str | None:
    """Why an agent waits, from whichever plugin knows (`plugin.claude.waiting_reason`)."""
    for told in plugin.values():
        reason = told.get("waiting_reason") if isinstance(told, dict) else None
        if isinstance(reason, str) and reason:
            return reason
    return None


def _unreadable(said: object, error: Any, provider: str | None) -> ListingError:
    fields: dict[str, Any] = said if isinstance(said, dict) else {}
    host: dict[str, Any] = fields["host"] if isinstance(fields.get("host"), dict) else {}
    name = _string(fields.get("name"))
    reasons = "; ".join(
        f"{'.'.join(str(part) for part in each['loc']) or 'it'}: {each['msg']}" for each in error.errors()[:3]
    )
    return ListingError(
        _string(host.get("provider_name")) or provider,
        f"{name or 'An agent'} of the listing cannot be read: {reasons}",
        "It is left out. `mngr list --format json` in a shell shows what is said of it.",
        host_id=_string(host.get("id")),
        agent_id=_string(fields.get("id")),
    )


def _string(value: object) -> str | None:
    return whole_text(value) if isinstance(value, str) and value else None


def _listing_error(said: object, provider: str | None) -> ListingError:
    from selftest_core.fleet.sources.mngr_models import SaidError

    if not isinstance(said, dict):
        return ListingError(provider, f"mngr reported an error of a form that is not known: {str(said)[:_SHOWN]}")
    read = SaidError.model_validate(said)
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

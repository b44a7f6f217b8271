"""JSON of `selftest-tui list`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from selftest_core.agent_types.condition import reason
from selftest_core.fleet.host_cost import host_cost
from selftest_core.fleet.problems import ALL, PROBE
from selftest_core.schema.model import EPOCH, Instant, Line, Shape, Text, UsageItem, instant, usage_item

if TYPE_CHECKING:
    from collections.abc import Mapping

    from selftest_core.agents import Agent, Host
    from selftest_core.fleet.observations import TmuxSession
    from selftest_core.fleet.view import FleetView, Problem, Row


class HostItem(Shape):
    """The host of an agent."""

    id: Text
    name: Text
    state: Text | None = Field(description="The host's state as mngr reports it, null where it reports none.")


class HostCostItem(Shape):
    """Cost of a host on Modal until now."""

    usd: float
    label: Literal["metered", "estimated"] = Field(
        description="metered: told by Modal, in whole hours of the last week; estimated: the host's age times the "
        "setting modal_usd_per_hour."
    )


class AgentItem(Shape):
    """One agent. `host.id` and `id` together identify it."""

    id: Text
    name: Text
    type: Text
    state: Text = Field(description="As in `mngr list`: RUNNING, WAITING, DONE, STOPPED, REPLACED, …")
    category: str = Field(description="The group in the order of attention: needs you, failed, working, waiting, …")
    attention: bool = Field(description="True where the agent needs a person.")
    reason: Text = Field(description="Why the agent needs a person; empty where it does not.")
    condition: str | None = Field(
        description="What the agent does or waits for: working, compacting, retrying, ready, permission, question, "
        "plan, "
        "dialog, error, turn ended, interrupted, crashed; null where only the state is known."
    )
    doing: Text = Field(description="The condition in words, with the question, the error, or what is retried.")
    stale: bool = Field(
        description="True where the provider's newest answer failed; `as_of` is the time of the last good one."
    )
    as_of: Instant | None = Field(description="The time of the answer that this state is from.")
    source: str = Field(description="The source of the state: probe, mngr or remembered (from the cache).")
    provider: Text
    host: HostItem
    address: Text = Field(description="The unambiguous name of the agent for mngr.")
    branch: Text | None
    labels: dict[Text, Text]
    session: Text | None = Field(description="The agent's tmux session, if it is on this machine.")
    socket: Text | None = Field(description="The socket of the session's tmux server.")
    pane: Text | None
    title: Text = Field(description="The title of the pane, set by its program.")
    run: Text | None
    test: Text | None
    project: Text | None
    command: Text
    work_dir: Text
    pid: int | None
    url: Text | None
    exit_status: int | None = Field(description="The exit status of the agent's command, where it was recorded.")
    created_at: Instant | None
    started_at: Instant | None
    idle_since: Instant | None
    usage: UsageItem | None = Field(description="Usage until now, null where nothing is metered.")
    host_cost: HostCostItem | None = Field(None, description="Cost of its host until now, null where it is not known.")


class SessionItem(Shape):
    """A tmux session that belongs to no agent."""

    name: Text
    socket: Text
    id: Text
    windows: int
    attached: int
    command: Text
    title: Text
    created_at: Instant | None
    activity_at: Instant | None


class ErrorItem(Shape):
    """An error. `message`: title and detail."""

    key: Text = Field(description="An id that stays the same as long as the error lasts.")
    provider: Text | None
    message: Text
    hint: Text


class ListDocument(Shape):
    """`selftest-tui list --json`: agents by time of creation."""

    as_of: Instant
    agents: list[AgentItem]
    sessions: list[SessionItem]
    errors: list[ErrorItem]
    expecting: list[Text] = Field(
        description="Providers that have not answered yet; `remote`: all except this machine."
    )


class ListLine(Line, ListDocument):
    """`selftest-tui list --batch`."""

    event: Literal["summary"] = "summary"


def list_document(view: FleetView) -> ListDocument:
    """Convert the fleet for `list`."""
    answered = {lane.lane: lane.answered_at for lane in view.lanes}
    return ListDocument(
        as_of=instant(view.at) or EPOCH,
        agents=[agent_item(row, _as_of(row, answered, view.at), _cost_item(row.agent.host, view)) for row in view.rows],
        sessions=[_session_item(session) for session in view.sessions],
        errors=[_error_item(problem) for problem in view.problems],
        expecting=sorted(view.expecting),
    )


def agent_item(row: Row, as_of: float | None, cost: HostCostItem | None = None) -> AgentItem:
    """Convert one row; `as_of`: the time of the answer that it is from; `cost`: of its host."""
    agent: Agent = row.agent
    return AgentItem(
        id=agent.id,
        name=agent.name,
        type=agent.type,
        state=agent.state_word or agent.state.value,
        category=row.category.value,
        attention=row.attention is not None,
        reason=row.attention or "",
        condition=row.condition.kind.value if row.condition is not None else None,
        doing=reason(row.condition) if row.condition is not None else "",
        stale=row.stale_since is not None,
        as_of=instant(as_of),
        source=row.source,
        provider=agent.host.provider,
        host=HostItem(id=agent.host.id, name=agent.host.name, state=agent.host.state),
        address=agent.address,
        branch=agent.branch,
        labels=dict(agent.labels),
        session=row.session.name if row.session is not None else None,
        socket=row.session.socket if row.session is not None else None,
        pane=row.pane_id,
        title=row.title,
        run=agent.run,
        test=agent.test,
        project=agent.project,
        command=agent.command,
        work_dir=agent.work_dir,
        pid=agent.pid,
        url=agent.url,
        exit_status=row.exit_status,
        created_at=instant(agent.created_at),
        started_at=instant(agent.started_at),
        idle_since=instant(row.idle_since),
        usage=usage_item(row.usage),
        host_cost=cost,
    )


def _cost_item(host: Host, view: FleetView) -> HostCostItem | None:
    cost = host_cost(host, view.modal_costs, view.at)
    return None if cost is None else HostCostItem(usd=cost.usd, label=cost.label)


def _as_of(row: Row, answered: Mapping[str, float | None], at: float) -> float:
    if row.stale_since is not None:
        return row.stale_since
    if row.source == PROBE:
        return answered.get(PROBE) or at
    times = [answered.get(lane) for lane in (row.agent.host.provider, ALL)]
    return max((time for time in times if time is not None), default=at)


def _session_item(session: TmuxSession) -> SessionItem:
    return SessionItem(
        name=session.ref.name,
        socket=session.ref.socket,
        id=session.session_id,
        windows=session.windows,
        attached=session.attached,
        command=session.command,
        title=session.title,
        created_at=instant(session.created_at),
        activity_at=instant(session.activity_at),
    )


def _error_item(problem: Problem) -> ErrorItem:
    message = f"{problem.title}: {problem.detail}" if problem.detail else problem.title
    return ErrorItem(key=problem.key, provider=problem.provider, message=message, hint=problem.hint)

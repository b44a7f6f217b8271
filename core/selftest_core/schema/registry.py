"""Every shape of JSON that we print for programs, as models: the documents of `--json` and the lines of `--batch`.

Scripts rely on these: fields may come, none goes or changes its meaning. `schema` is printed by `selftest-tui schema`
from the very models that the output is made with. pydantic is slow to import, so this module is imported by the
commands that print JSON and by nothing else in the core.

Text of agents is kept as it came (JSON escapes what a terminal would obey), except for halves of surrogate pairs, which
no other JSON reader accepts: they become U+FFFD. Times are ISO 8601, UTC, with a Z.
"""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from pydantic.json_schema import models_json_schema

from selftest_core.agent_types.condition import reason
from selftest_core.fleet.problems import ALL, PROBE

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from selftest_core.agents import Agent
    from selftest_core.doctor.doctor import Check
    from selftest_core.errors import SelftestError
    from selftest_core.fleet.observations import TmuxSession
    from selftest_core.fleet.view import FleetView, Problem, Row
    from selftest_core.usage.tokens import Usage


def safe_text(value: object) -> object:
    """The text with every half of a surrogate pair replaced; anything else as it is."""
    if isinstance(value, str) and not value.isascii():
        return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return value


def instant(at: float | None) -> str | None:
    """Seconds since the epoch as ISO 8601 with milliseconds and a Z; None for no time and for impossible ones."""
    if at is None or not math.isfinite(at):
        return None
    try:
        return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    except (OverflowError, ValueError, OSError):
        return None


type Text = Annotated[str, BeforeValidator(safe_text)]
type Instant = Annotated[str, Field(json_schema_extra={"format": "date-time"}, examples=["2026-11-21T09:35:00.000Z"])]


class Shape(BaseModel):
    """Anything that is printed as JSON."""

    model_config = ConfigDict(frozen=True, hide_input_in_errors=True, json_schema_serialization_defaults_required=True)


class HostItem(Shape):
    """Where an agent runs."""

    id: Text
    name: Text
    state: Text | None = Field(description="What mngr says of the host, null where it says nothing.")


class UsageItem(Shape):
    """What was used: tokens, whose counts do not overlap, and dollars."""

    input: int = Field(description="Tokens that were read, neither from the cache nor written to it.")
    cached: int = Field(description="Tokens that were read from the cache.")
    cache_write: int = Field(description="Tokens that were written to the cache.")
    output: int = Field(description="Tokens that the model wrote.")
    usd: float | None = Field(description="Dollars, null where no price is known.")
    label: Literal["metered", "imputed", "estimated"] = Field(
        description="metered: counted by the agent's program, at known prices; imputed: counted, and some price is "
        "borrowed or missing; estimated: by usd_per_agent."
    )
    model: Text | None = Field(description="The model that wrote most.")


class AgentItem(Shape):
    """One agent. `host.id` and `id` together identify it."""

    id: Text
    name: Text
    type: Text
    state: Text = Field(description="As in `mngr list`: RUNNING, WAITING, DONE, STOPPED, REPLACED, …")
    category: str = Field(description="The group in the order of attention: needs you, failed, working, waiting, …")
    attention: bool = Field(description="True where it needs a person.")
    reason: Text = Field(description="Why it needs a person; empty where it does not.")
    condition: str | None = Field(
        description="What it does or waits for: working, compacting, retrying, ready, permission, question, plan, "
        "dialog, error, turn ended, interrupted, crashed; null where nothing tells more than the state."
    )
    doing: Text = Field(description="The condition in words, with what it asks, its error, or what it retries.")
    stale: bool = Field(description="True where its provider gave no newer answer; `as_of` is the last good one.")
    as_of: Instant | None = Field(description="The time of the answer that this is from.")
    source: str = Field(description="Who said the state: probe, mngr or remembered.")
    provider: Text
    host: HostItem
    address: Text = Field(description="The spelling that mngr takes for no other agent.")
    branch: Text | None
    labels: dict[Text, Text]
    session: Text | None = Field(description="Its tmux session, where one of this machine's servers has it.")
    socket: Text | None = Field(description="The tmux server that has the session.")
    pane: Text | None
    title: Text = Field(description="The title that the pane has set.")
    run: Text | None
    test: Text | None
    project: Text | None
    command: Text
    work_dir: Text
    pid: int | None
    url: Text | None
    exit_status: int | None = Field(description="What its command left, where a wrapper of ours wrote it down.")
    created_at: Instant | None
    started_at: Instant | None
    idle_since: Instant | None
    usage: UsageItem | None = Field(description="What it used until now, null where nothing metered it.")


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
    """Something that failed. `message` is the title and what is known beside it."""

    key: Text = Field(description="Stable while it lasts.")
    provider: Text | None
    message: Text
    hint: Text


class ListDocument(Shape):
    """`selftest-tui list --json`: agents in order of creation."""

    as_of: Instant
    agents: list[AgentItem]
    sessions: list[SessionItem]
    errors: list[ErrorItem]
    expecting: list[Text] = Field(description="Providers that have not answered yet; `remote`: all but this machine.")


class CheckItem(Shape):
    """One thing that the doctor looked at."""

    name: Text
    status: Literal["ok", "warning", "failed"]
    says: Text
    hint: Text


class DoctorDocument(Shape):
    """`selftest-tui doctor --json`. `ok`: nothing has failed; warnings leave it."""

    ok: bool
    checks: list[CheckItem]


class Line(Shape):
    """What every line of `--batch` has. The last line is the summary, or the error that ended the command."""

    event: str
    at: Instant
    run: Annotated[Text | None, Field(description="The run that it belongs to, null where there is none.")] = None


class ListLine(Line, ListDocument):
    """`selftest-tui list --batch`."""

    event: Literal["summary"] = "summary"


class DoctorLine(Line, DoctorDocument):
    """`selftest-tui doctor --batch`."""

    event: Literal["summary"] = "summary"


class ErrorLine(Line):
    """The line that a command ends with when it failed."""

    event: Literal["error"] = "error"
    title: Text
    detail: Text
    hint: Text
    exit_status: int


def list_document(view: FleetView) -> ListDocument:
    """The fleet as `list --json` prints it."""
    answered = {lane.lane: lane.answered_at for lane in view.lanes}
    return ListDocument(
        as_of=instant(view.at) or "1970-01-01T00:00:00.000Z",
        agents=[agent_item(row, _as_of(row, answered, view.at)) for row in view.rows],
        sessions=[_session_item(session) for session in view.sessions],
        errors=[_error_item(problem) for problem in view.problems],
        expecting=sorted(view.expecting),
    )


def agent_item(row: Row, as_of: float | None) -> AgentItem:
    """One row; `as_of` is the time of the answer that it is from."""
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
    )


def usage_item(usage: Usage | None) -> UsageItem | None:
    """Tokens and dollars, where anything was metered or estimated."""
    if usage is None:
        return None
    return UsageItem(
        input=usage.input,
        cached=usage.cached,
        cache_write=usage.cache_write,
        output=usage.output,
        usd=usage.usd,
        label=usage.label.value,
        model=usage.model or None,
    )


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


def doctor_document(checks: Iterable[Check]) -> DoctorDocument:
    """What the doctor found, as `doctor --json` prints it."""
    items = [CheckItem(name=check.name, status=check.status, says=check.says, hint=check.hint) for check in checks]
    return DoctorDocument(ok=all(item.status != "failed" for item in items), checks=items)


def error_line(error: SelftestError, at: float) -> ErrorLine:
    """The last line of a command that failed at `at`."""
    return ErrorLine(
        at=instant(at) or "1970-01-01T00:00:00.000Z",
        title=error.title,
        detail=error.detail,
        hint=error.hint,
        exit_status=error.exit_status,
    )


_DOCUMENTS: dict[str, type[Shape]] = {
    "list --json": ListDocument,
    "list --batch": ListLine,
    "doctor --json": DoctorDocument,
    "doctor --batch": DoctorLine,
    "--batch, a line": Line,
    "--batch, an error": ErrorLine,
}


def _documents() -> dict[str, type[Shape]]:
    """Every document by the command that prints it. The commands' own modules of shapes build on this one."""
    from selftest_core.schema.check import CheckDocument, CheckLine
    from selftest_core.schema.record import RecordDocument, RecordLine
    from selftest_core.schema.replay import ReplayLine
    from selftest_core.schema.review import ReviewLine
    from selftest_core.schema.run import RunLine, RunsDocument, RunsLine, RunSummary
    from selftest_core.schema.run_detail import RunDetailDocument, RunDetailLine
    from selftest_core.schema.run_plan import OfferDocument, OfferLine
    from selftest_core.schema.sweep import SweepDocument, SweepLine

    return {
        **_DOCUMENTS,
        "check --json": CheckDocument,
        "check --batch": CheckLine,
        "record --json": RecordDocument,
        "record --batch": RecordLine,
        "replay --batch": ReplayLine,
        "review --batch": ReviewLine,
        "run --dry-run --json": OfferDocument,
        "run --dry-run --batch": OfferLine,
        "run --batch, a line of the journal": RunLine,
        "run --batch, the summary": RunSummary,
        "runs --json": RunsDocument,
        "runs --batch": RunsLine,
        "runs PATH --json": RunDetailDocument,
        "runs PATH --batch": RunDetailLine,
        "sweep --json": SweepDocument,
        "sweep --batch": SweepLine,
    }


def schema() -> dict[str, Any]:
    """JSON Schema (2020-12) of every document and line. `documents` says which one each command prints.

    `outcome.json` among them is what an agent writes: printed from the model that reads it.
    """
    from selftest_core.run.outcome import outcome_schema

    documents = _documents()
    references, definitions = models_json_schema(
        [(model, "serialization") for model in dict.fromkeys(documents.values())],
        ref_template="#/$defs/{model}",
    )
    by_model = {model: reference for (model, _), reference in references.items()}
    outcome = outcome_schema()
    within = outcome.pop("$defs", {})
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "selftest-tui",
        "description": "What selftest-tui prints for programs. Fields may come, none goes.",
        "documents": {
            **{name: by_model[model] for name, model in documents.items()},
            "outcome.json": {"$ref": "#/$defs/OutcomeShape"},
        },
        "anyOf": [by_model[model] for model in dict.fromkeys(documents.values())],
        "$defs": {**definitions["$defs"], **within, "OutcomeShape": outcome},
    }

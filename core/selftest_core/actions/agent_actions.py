"""Actions on agents: message, stop, start, destroy, with a result for each target.

mngr acts on many agents in one call, but its calls are not reliable: one unknown address makes it skip all others (with
exit status 0 for `message` and `destroy`), a large `destroy` was seen killed half-way, and `start` reports "started"
for an agent that it did not touch. So: at most ten targets in a call; one call never mixes tmux servers or providers
(each runs against the server that has the agents, since mngr would start duplicates elsewhere); mngr's JSON is read; a
call that did nothing is repeated in parts; stopped and destroyed agents are confirmed by a new listing. A message that
may have been delivered is never sent twice.

There is no confirmation here: the caller has shown the exact targets to the user.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import groupby
from typing import TYPE_CHECKING

from selftest_core.agents import State
from selftest_core.errors import ToolError, ToolTimeoutError
from selftest_core.fleet.sources.mngr_list import list_agents
from selftest_core.frozen import dataclass
from selftest_core.tools.mngr import (
    DONE_WORD,
    Act,
    Answer,
    answer_error,
    destroy_arguments,
    message_arguments,
    read_answer,
    start_arguments,
    stop_arguments,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from selftest_core.agents import AgentKey
    from selftest_core.fleet.observations import Listed
    from selftest_core.fleet.view import Row
    from selftest_core.tools.mngr import Mngr
    from selftest_core.tools.process import Completed

__all__ = ["BATCH", "Act", "ActResult", "Target", "steer", "target_of"]

BATCH = 10
"""Targets in one call of mngr."""
TIMEOUT = 180.0
"""Seconds for one call: a message waits until each agent has accepted it, a start until a remote host is up."""
_AT_ONCE = 3
_DOUBT_HINT = "Wait a moment; if a tmux server does not answer, repair or end it first."

MAY_HAVE_ARRIVED = "It may have arrived: look at the agent before sending again."


@dataclass(frozen=True, slots=True)
class Target:
    """One agent to act on. `socket`: the tmux server of its session, None for mngr's default or none.

    `doubt`: why it is not known whether it has a session. Such an agent is not stopped, started or destroyed: mngr
    could start it twice, or remove its work dir while it runs.
    """

    key: AgentKey
    address: str
    name: str
    provider: str
    socket: str | None = None
    state: State = State.UNKNOWN
    doubt: str = ""


@dataclass(frozen=True, slots=True)
class ActResult:
    """Result for one target: in words, and what to do after a failure."""

    target: Target
    ok: bool
    text: str
    hint: str = ""


def target_of(row: Row) -> Target:
    """Make the target of a row."""
    agent = row.agent
    socket = row.session.socket if row.session is not None and agent.host.is_local else None
    is_unseen = agent.host.is_local and row.session is None and agent.state is State.UNKNOWN
    doubt = "no tmux session of it was seen, but it may have one" if is_unseen else ""
    return Target(row.key, agent.address, agent.name, agent.host.provider, socket, agent.state, doubt)


async def steer(
    mngr: Mngr,
    act: Act,
    targets: Sequence[Target],
    text: str = "",
    on_result: Callable[[ActResult], None] | None = None,
    *,
    timeout: float = TIMEOUT,
) -> tuple[ActResult, ...]:
    """Run an action on each target, and return one result for each, in their order. Errors are in the results.

    `timeout` is in seconds, for one call of mngr. `on_result` is called as soon as mngr has answered for a target, and
    again where the new listing disagrees. Cancelling ends the running mngr; what it has done by then is not undone.
    """
    import asyncio

    unique = tuple({target.key: target for target in targets}.values())
    results = _Results(unique, on_result)
    if act is Act.MESSAGE and not text.strip():
        return tuple(results.put(ActResult(target, False, "the message is empty")) for target in unique)
    try:
        await mngr.check()
    except ToolError as error:
        return tuple(results.put(_failed(target, error)) for target in unique)
    known = unique if act is Act.MESSAGE else tuple(target for target in unique if not target.doubt)
    for target in unique:
        if target not in known:
            results.put(ActResult(target, False, target.doubt, _DOUBT_HINT))
    turns = asyncio.Semaphore(_AT_ONCE)

    async def one_group(group: tuple[Target, ...]) -> None:
        async with turns:
            await _GroupAction(mngr, act, text, group, results, timeout).run()

    async with asyncio.TaskGroup() as tasks:
        for group in _groups(act, known, mngr):
            tasks.create_task(one_group(group))
    return tuple(results.of(target) for target in unique)


class _Results:
    """Results so far; calls `on_result` for each new one."""

    def __init__(self, targets: Sequence[Target], on_result: Callable[[ActResult], None] | None) -> None:
        self._asked = {target.key: target for target in targets}
        self._on_result = on_result
        self._by_key: dict[AgentKey, ActResult] = {}

    def put(self, result: ActResult) -> ActResult:
        result = replace(result, target=self._asked[result.target.key])
        if self._by_key.get(result.target.key) != result:
            self._by_key[result.target.key] = result
            if self._on_result is not None:
                self._on_result(result)
        return result

    def of(self, target: Target) -> ActResult:
        return self._by_key[target.key]


def _groups(act: Act, targets: Sequence[Target], mngr: Mngr) -> Iterator[tuple[Target, ...]]:
    """Group targets that may share a call: the same tmux server, provider, and need of a restart."""

    def place(target: Target) -> tuple[str, str, bool]:
        return target.socket or "", target.provider, _needs_restart(act, target)

    own = [replace(t, socket=None) if t.socket == mngr.default_socket else t for t in targets]
    for _, group in groupby(sorted(own, key=place), key=place):
        yield tuple(group)


def _batches(targets: Sequence[Target]) -> Iterator[tuple[Target, ...]]:
    """Split targets into batches of ten without equal names: mngr answers by name, and hosts may share names."""
    left = list(targets)
    while left:
        batch: dict[str, Target] = {}
        for target in left:
            if len(batch) < BATCH:
                batch.setdefault(target.name, target)
        taken = {target.key for target in batch.values()}
        left = [target for target in left if target.key not in taken]
        yield tuple(batch.values())


def _needs_restart(act: Act, target: Target) -> bool:
    return act is Act.START and target.state is State.DONE


class _GroupAction:
    """One action on the targets of one group, in several calls."""

    def __init__(
        self, mngr: Mngr, act: Act, text: str, targets: tuple[Target, ...], results: _Results, timeout: float
    ) -> None:
        self._mngr = mngr
        self._act = act
        self._text = text
        self._targets = targets
        self._results = results
        self._timeout = timeout
        self._settled: set[AgentKey] = set()
        self._socket = targets[0].socket
        self._provider = targets[0].provider

    async def run(self) -> None:
        for batch in _batches(self._targets):
            await self._batch(batch)
        if self._act in (Act.STOP, Act.DESTROY):
            await self._verify(self._targets)

    async def _batch(self, batch: tuple[Target, ...]) -> None:
        try:
            done = await self._call(batch)
        except ToolTimeoutError as error:
            await self._doubt(batch, error)
            return
        except ToolError as error:
            self._fail(batch, error)
            return
        answers = read_answer(self._act, done.stdout)
        if answers is None and done.exit_status < 0:
            reason = answer_error(f"mngr {self._act}", stderr=done.stderr, exit_status=done.exit_status)
            await self._doubt(batch, reason)
            return
        unanswered = self._take(batch, answers or {})
        if unanswered and answers and answers.keys() - {target.name for target in batch}:
            unanswered = self._take(await self._renamed(unanswered), answers)
        if not unanswered:
            return
        if len(unanswered) < len(batch) or len(batch) == 1:
            await self._explain(unanswered, done)
        elif answers is None and done.exit_status > 0 and self._act is Act.MESSAGE and not _is_unknown(done):
            # It may have died after some messages, so nothing is sent again.
            self._fail(batch, answer_error("mngr message", stderr=done.stderr, exit_status=done.exit_status))
        else:
            await self._take_apart(unanswered)

    async def _call(self, batch: Sequence[Target]) -> Completed:
        addresses = [target.address for target in batch]
        match self._act:
            case Act.MESSAGE:
                arguments = message_arguments(addresses)
            case Act.STOP:
                arguments = stop_arguments(addresses)
            case Act.START:
                arguments = start_arguments(addresses, restart=_needs_restart(self._act, batch[0]))
            case Act.DESTROY:
                arguments = destroy_arguments(addresses)
        text = self._text if self._act is Act.MESSAGE else None
        return await self._mngr.call(arguments, timeout=self._timeout, text=text, tmux_socket=self._socket)

    def _take(self, batch: Sequence[Target], answers: Mapping[str, Answer]) -> tuple[Target, ...]:
        """Note mngr's answers; return the targets without one."""
        left = []
        for target in batch:
            answer = answers.get(target.name)
            if answer is None:
                left.append(target)
            elif self._act is Act.START and answer.ok and target.state is State.REPLACED:
                # mngr reports "started" for every agent with a session, and does not touch it.
                text = "left as it is: another program runs in its place"
                self._results.put(ActResult(target, False, text, "Stop it first, then start it."))
            else:
                self._results.put(ActResult(target, answer.ok, answer.text, answer.hint))
        return tuple(left)

    async def _renamed(self, targets: Sequence[Target]) -> tuple[Target, ...]:
        """Give the targets their current names, which mngr uses in its answers."""
        try:
            names = {agent.key: agent.name for agent in (await self._list()).agents}
        except ToolError:
            return tuple(targets)
        return tuple(replace(target, name=names.get(target.key, target.name)) for target in targets)

    async def _take_apart(self, targets: Sequence[Target]) -> None:
        """Repeat a call that did nothing, most likely because one agent is gone: without it, or each target alone."""
        try:
            listed = await self._list()
        except ToolError:
            left = tuple(targets)  # the calls report the error themselves
        else:
            left = tuple(target for target in targets if not self._settle_from(listed, target))
        if len(left) == len(targets):
            for target in left:
                await self._batch((target,))
        elif left:
            await self._batch(left)

    def _settle_from(self, listed: Listed, target: Target) -> bool:
        """Note a result that the listing alone decides: the agent is gone, or already in the wanted state."""
        agent = {agent.key: agent for agent in listed.agents}.get(target.key)
        if agent is None:
            if _may_hide(listed, target):
                return False
            self._results.put(_gone(self._act, target))
            self._settled.add(target.key)
            return True
        # In the wanted state already: no further call.
        is_restarted = _needs_restart(self._act, target) and agent.state in (State.RUNNING, State.WAITING)
        if is_restarted or (self._act is Act.STOP and agent.state is State.STOPPED):
            self._results.put(ActResult(target, True, DONE_WORD[self._act]))
            self._settled.add(target.key)
            return True
        return False

    async def _explain(self, targets: Sequence[Target], done: Completed) -> None:
        """Note targets without an answer: gone, or failed for the reason on stderr."""
        if done.exit_status == 0 or _is_unknown(done):
            for target in targets:
                self._results.put(_gone(self._act, target))
        else:
            self._fail(targets, answer_error(f"mngr {self._act}", stderr=done.stderr, exit_status=done.exit_status))

    async def _doubt(self, batch: Sequence[Target], error: ToolError) -> None:
        """Note a call that was ended before its answer: it is not known what it did."""
        if self._act is Act.MESSAGE:
            for target in batch:
                self._results.put(ActResult(target, False, error.title, MAY_HAVE_ARRIVED))
        else:
            self._fail(batch, error)
            if self._act is Act.START:
                await self._verify(batch)

    def _fail(self, targets: Sequence[Target], error: ToolError) -> None:
        for target in targets:
            self._results.put(_failed(target, error))

    async def _list(self) -> Listed:
        return await list_agents(self._mngr, self._provider, tmux_socket=self._socket)

    async def _verify(self, targets: Sequence[Target]) -> None:
        """Check each result by a new listing, which overrides the answer."""
        targets = [target for target in targets if target.key not in self._settled]
        if not targets:
            return
        try:
            listed = await self._list()
        except ToolError as error:
            for target in targets:
                result = self._results.of(target)
                if result.ok:
                    self._results.put(replace(result, hint=result.hint or f"Not verified: {error.title}."))
            return
        now = {agent.key: agent for agent in listed.agents}
        for target in targets:
            agent = now.get(target.key)
            if agent is None and _may_hide(listed, target):
                continue
            self._results.put(_verified(self._act, self._results.of(target), None if agent is None else agent.state))


def _verified(act: Act, result: ActResult, state: State | None) -> ActResult:
    """Correct a result by the agent's state afterwards (None: it is gone)."""
    again = "Try again: mngr may have been interrupted."
    if state is None:
        return result if result.ok and act is Act.DESTROY else _gone(act, result.target)
    match act:
        case Act.DESTROY:
            return replace(
                result, ok=False, text=_despite(result, f"it is still there ({state})"), hint=result.hint or again
            )
        case Act.STOP if state is State.STOPPED:
            return result if result.ok else replace(result, ok=True, text="stopped", hint="")
        case Act.STOP:
            return replace(result, ok=False, text=_despite(result, f"it is still {state}"), hint=result.hint or again)
        case Act.START if not result.ok and state in (State.RUNNING, State.WAITING):
            return replace(result, ok=True, text="started", hint="")
        case _:
            return result


def _despite(result: ActResult, fact: str) -> str:
    return f"mngr says {result.text}, but {fact}" if result.ok else f"{result.text}; {fact}"


def _gone(act: Act, target: Target) -> ActResult:
    if act is Act.DESTROY:
        return ActResult(target, True, "gone")
    return ActResult(target, False, "it is not there any more", "It was destroyed meanwhile; nothing was done.")


def _failed(target: Target, error: ToolError) -> ActResult:
    detail = error.detail.strip().splitlines()
    return ActResult(target, False, ": ".join(part for part in (error.title, *detail[:3]) if part), error.hint)


def _may_hide(listed: Listed, target: Target) -> bool:
    """True if an error of the listing may hide the agent."""
    host_id, agent_id = target.key
    for error in listed.errors:
        if error.agent_id is not None or error.host_id is not None:
            if error.agent_id in (None, agent_id) and error.host_id in (None, host_id):
                return True
        elif error.provider in (None, target.provider):
            return True
    return False


def _is_unknown(done: Completed) -> bool:
    """True if mngr found no agent with the address (exit status 8, or these words)."""
    return done.exit_status == 8 or "Agent not found" in done.stderr or "Could not find agent" in done.stderr

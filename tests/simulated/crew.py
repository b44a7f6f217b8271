"""A simulated crew: agents without processes or network, in simulated time, repeatable by seed.

Tests, `make chaos` and `make bench` conduct runs with it. A `SimulatedWorld` outlives its conductors as real agents
do. Each agent plays one `Role`; the seed determines durations and failures.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import random
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from selftest_core.errors import ToolFailedError
from selftest_core.fleet.clusters import limit_line
from selftest_core.run.crew.crew import BUNDLE, OUTCOME, Delivery, DoubtfulMessageError, LaunchError, Life, Seen
from selftest_core.run.fetch.bundles import Taken, UnusableBundleError
from selftest_core.run.fetch.conversations import NO_CONVERSATION
from selftest_core.run.plan.prompt import PROMPT_LINE
from selftest_core.run.smoke import report_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from selftest_core.run.fetch.conversations import Conversation
    from selftest_core.run.fold import Member
    from simulated.clock import SimulatedClock

_BUNDLE_WORDS = "simulated bundle"
_GIANT = 50 * 1024 * 1024
"""Bytes of an outcome that is far too large."""


class Role(StrEnum):
    """The behaviours of a simulated agent."""

    SUCCEEDS = "succeeds"
    CHANGES_NOTHING = "changes nothing"
    STAYS_RED = "stays red"
    BLOCKED = "blocked"
    CRASHES = "crashes"
    HANGS = "hangs"
    WRITES_NONSENSE = "writes nonsense"
    WRITES_SLOWLY = "writes slowly"
    BREAKS_ITS_BUNDLE = "breaks its bundle"
    VANISHES_ONCE = "vanishes once"
    VANISHES = "vanishes"
    FAILS_TO_LAUNCH_ONCE = "fails to launch once"
    FAILS_TO_LAUNCH = "fails to launch"
    NEEDS_A_REMINDER = "needs a reminder"
    FORGETS = "forgets"
    ASKS = "asks"
    IS_LIMITED = "is limited"
    FALLS_SILENT = "falls silent"
    WRITES_A_GIANT = "writes a giant"
    WRITES_ANOTHER_SHAPE = "writes another shape"
    OPENS_A_DIALOG = "opens a dialog"
    SHOWS_A_DIALOG_ONCE = "shows a dialog once"
    CANNOT_GO_ON = "cannot go on"


_BLOCKED = (Role.BLOCKED, Role.CANNOT_GO_ON)


@dataclass(slots=True)
class SimulatedAgent:
    """One agent. Times are seconds of simulated time; it is there from `there_at` on, and works for `seconds`."""

    member: Member
    role: Role
    there_at: float
    seconds: float
    stopped_at: float | None = None
    prompted_at: list[float] = field(default_factory=list)
    reminded_at: float | None = None
    dialogs: int = 0
    told: list[str] = field(default_factory=list)
    told_at: float | None = None
    went_on_at: float | None = None

    @property
    def is_doomed(self) -> bool:
        """True where its host goes away while it works."""
        is_first = self.member.attempt == 1
        return self.role in (Role.VANISHES, Role.FALLS_SILENT) or (self.role is Role.VANISHES_ONCE and is_first)


@dataclass(slots=True)
class SimulatedWorld:
    """The state that outlives a conductor: all agents, the calls for them, and violations (`wrongs`).

    `roles` by test (planned agent name); others succeed. `trouble`: how often a call fails for no reason, 0 to 1.
    `answers`: what agents were told: test, attempt, and the answer that they have then.
    `outages`: from when to when, in seconds of simulated time, no call reaches anybody. `provider`: of all agents.
    `slots`: agents for which there is room; more are refused in the words of mngr on Modal.
    `is_interactive`: agents begin when they get their prompt; `has_transcripts`: and whether they got it can be read.
    """

    seed: int = 0
    roles: Mapping[str, Role] = field(default_factory=dict)
    trouble: float = 0.0
    outages: tuple[tuple[float, float], ...] = ()
    slots: int | None = None
    provider: str = "simulated"
    is_interactive: bool = False
    has_transcripts: bool = True
    agents: dict[str, SimulatedAgent] = field(default_factory=dict)
    creates: list[str] = field(default_factory=list)
    reminders: list[str] = field(default_factory=list)
    pulls: list[str] = field(default_factory=list)
    stops: list[tuple[str, ...]] = field(default_factory=list)
    most_at_once: int = 0
    wrongs: list[str] = field(default_factory=list)
    answers: list[tuple[str, int, str]] = field(default_factory=list)
    _asked: dict[str, int] = field(default_factory=dict)

    def dice(self, what: str) -> random.Random:
        """Return the random numbers of the next `what`: the same for the same seed and history."""
        number = self._asked[what] = self._asked.get(what, 0) + 1
        return random.Random(f"{self.seed} {what} {number}")

    def live(self, now: float) -> list[SimulatedAgent]:
        """Return the agents that are there and were not stopped, without those of gone hosts."""
        return [
            agent
            for agent in self.agents.values()
            if agent.stopped_at is None and not (agent.is_doomed and now >= agent.there_at + agent.seconds / 2)
        ]

    def restart(self, now: float) -> None:
        """Restart the machine: every agent on it has stopped."""
        for agent in self.live(now):
            agent.stopped_at = now


class SimulatedCrew:
    """The crew of a `SimulatedWorld`, seen by one conductor."""

    def __init__(self, world: SimulatedWorld, clock: SimulatedClock) -> None:
        self.world = world
        self.clock = clock

    async def create(self, member: Member) -> Seen:
        """Make the agent in some seconds. After a cancel it exists or not, by chance."""
        world = self.world
        dice = world.dice(f"create {member.agent_id}")
        role = world.roles.get(member.test, Role.SUCCEEDS)
        if member.agent_id in world.agents:
            raise LaunchError("An agent with this id exists already", member.agent_id)
        self._refuse_in_outage()
        if world.slots is not None and len(world.live(self.clock.passed)) >= world.slots:
            raise LaunchError("mngr could not create the agent", "ModalProxyRateLimitError: workspace limit reached")
        world.creates.append(member.agent_id)
        duration = 0.5 + 2.5 * dice.random()
        seconds = 20.0 + 100.0 * random.Random(f"{world.seed} {member.agent_id}").random()
        agent = SimulatedAgent(member, role, self.clock.passed + duration, seconds)
        fails = role is Role.FAILS_TO_LAUNCH or (role is Role.FAILS_TO_LAUNCH_ONCE and member.attempt == 1)
        if member.answer is not None:
            agent.role = Role.SUCCEEDS
            world.answers.append((member.test, member.attempt, member.answer.text))
        try:
            if not fails:
                world.agents[member.agent_id] = agent
            await asyncio.sleep(duration)
        except asyncio.CancelledError:
            if dice.random() < 0.5:
                world.agents.pop(member.agent_id, None)
            raise
        if fails:
            raise LaunchError("mngr could not create the agent", f"Error: quota of host 10.0.0.{dice.randrange(255)}")
        self._count(member)
        return Seen(Life.WORKING, host_id=_host(member), provider=self.world.provider)

    async def restart(self, member: Member) -> Seen:
        """Start it again in some seconds; its results are away at once. After a cancel it was started or not."""
        agent = self.world.agents.get(member.agent_id)
        await self._take(0.2, 2.0, f"restart {member.agent_id}")
        if agent is None or self._is_gone(agent) or agent.role is Role.CANNOT_GO_ON:
            raise LaunchError("the agent cannot go on", "it is not there any more")
        agent.went_on_at = self.clock.passed
        agent.told_at = None
        await asyncio.sleep(1.0)
        agent.member, agent.stopped_at = member, None
        self._count(member)
        return Seen(Life.WORKING, host_id=_host(member), provider=self.world.provider)

    def _count(self, member: Member) -> None:
        live = [one for one in self.world.live(self.clock.passed) if one.member.test == member.test]
        if len(live) > 1:
            self.world.wrongs.append(f"two agents at once for {member.test}")
        self.world.most_at_once = max(self.world.most_at_once, len(self.world.live(self.clock.passed)))

    async def look(self, members: Sequence[Member]) -> Mapping[str, Seen]:
        """Observe them."""
        await self._take(0.05, 0.5, "look")
        return {member.agent_id: self._see(member) for member in members}

    async def pull(self, member: Member, staging: Path) -> None:
        """Write what the agent left by now."""
        self.world.pulls.append(member.agent_id)
        await self._take(0.2, 2.0, f"pull {member.agent_id}")
        agent = self.world.agents.get(member.agent_id)
        if agent is None or self._is_gone(agent):
            raise ToolFailedError("mngr rsync failed", "Error: host is unreachable")
        (staging / "transcript.txt").write_text(f"$ pytest {member.node_id}\n", encoding="utf-8")
        written = self._written(agent)
        if written is not None:
            (staging / OUTCOME).write_bytes(written)
            if agent.role is Role.WRITES_A_GIANT:
                os.truncate(staging / OUTCOME, _GIANT)
            if agent.role is Role.BREAKS_ITS_BUNDLE:
                (staging / BUNDLE).write_text("no bundle")
            elif agent.member.node_id and (
                agent.told_at is not None or agent.role not in (Role.CHANGES_NOTHING, Role.BLOCKED, Role.CANNOT_GO_ON)
            ):
                (staging / BUNDLE).write_text(f"{_BUNDLE_WORDS} 2")

    async def conversation(self, member: Member) -> Conversation:
        """Return no conversation."""
        await self._take(0.05, 0.3, f"conversation {member.agent_id}")
        return NO_CONVERSATION

    async def limits(self, members: Sequence[Member]) -> Mapping[str, str]:
        """Return the rate limits on their screens."""
        return {agent_id: limit_line(text) for agent_id, text in (await self.screens(members)).items()}

    async def screens(self, members: Sequence[Member]) -> Mapping[str, str]:
        """Return their screens' texts."""
        await self._take(0.05, 0.3, f"screen {members[0].agent_id}")
        agents = (self.world.agents.get(member.agent_id) for member in members)
        return {
            agent.member.agent_id: self._screen(agent)
            for agent in agents
            if agent and agent.stopped_at is None and not self._is_gone(agent)
        }

    def _screen(self, agent: SimulatedAgent) -> str:
        if agent.role is Role.IS_LIMITED and self.clock.passed < agent.there_at + agent.seconds:
            return "> go on\nAPI Error: Rate limit reached\n"
        return f"{agent.role} at 0x{agent.member.agent_id[6:14]}\n"

    async def send(self, member: Member, text: str) -> None:
        """Send the prompt, an answer, or a reminder."""
        if text == PROMPT_LINE:
            await self._prompt(member)
            return
        if "You ended your turn" not in text:
            await self._tell(member, text)
            return
        self.world.reminders.append(member.agent_id)
        await self._take(0.5, 1.0, f"remind {member.agent_id}")
        agent = self.world.agents.get(member.agent_id)
        if agent is None or agent.stopped_at is not None:
            raise ToolFailedError("the message did not arrive", "Error: Agent is not running")
        agent.reminded_at = agent.reminded_at or self.clock.passed

    async def _prompt(self, member: Member) -> None:
        """Send the prompt. After a cancel it has arrived or not, by chance."""
        dice = self.world.dice(f"prompt {member.agent_id}")
        self._refuse_in_outage()
        agent = self.world.agents.get(member.agent_id)
        is_first = agent is not None and agent.dialogs == 0
        if agent is None or agent.stopped_at is not None:
            raise ToolFailedError("the message did not arrive", "Agent is not running (state: STOPPED)")
        if agent.role is Role.OPENS_A_DIALOG or (agent.role is Role.SHOWS_A_DIALOG_ONCE and is_first):
            agent.dialogs += 1
            await asyncio.sleep(1.0)
            raise ToolFailedError("the message did not arrive", "A dialog is open in the agent's terminal")
        try:
            await asyncio.sleep(0.5 + dice.random())
        except asyncio.CancelledError:
            if dice.random() < 0.5:
                agent.prompted_at.append(self.clock.passed)
            raise
        if dice.random() < self.world.trouble:
            if dice.random() < 0.5:
                agent.prompted_at.append(self.clock.passed)
            raise DoubtfulMessageError("it is not known whether the message arrived")
        agent.prompted_at.append(self.clock.passed)

    async def _tell(self, member: Member, text: str) -> None:
        """Send an answer. After a cancel it has arrived or not, by chance."""
        dice = self.world.dice(f"tell {member.agent_id}")
        self._refuse_in_outage()
        agent = self.world.agents.get(member.agent_id)
        if agent is None or agent.stopped_at is not None:
            raise ToolFailedError("the message did not arrive", "Agent is not running (state: STOPPED)")
        try:
            await asyncio.sleep(0.5 + dice.random())
        except asyncio.CancelledError:
            if dice.random() < 0.5:
                self._note_told(agent, text)
            raise
        self._note_told(agent, text)

    def _note_told(self, agent: SimulatedAgent, text: str) -> None:
        if agent.went_on_at is None and self._written(agent) is not None:
            self.world.wrongs.append(f"{agent.member.test} was told before its results were away")
        agent.told.append(text)
        agent.told_at = self.clock.passed
        self.world.answers.append((agent.member.test, agent.member.attempt, text))

    async def check_delivery(self, member: Member, text: str) -> Delivery:
        """Tell whether it was prompted, or told this."""
        await self._take(0.05, 0.5, f"heard {member.agent_id}")
        agent = self.world.agents.get(member.agent_id)
        if agent is None or not self.world.has_transcripts:
            return Delivery.UNKNOWN
        if text != PROMPT_LINE:
            return Delivery.YES if text in agent.told else Delivery.NO
        return Delivery.YES if agent.prompted_at else Delivery.NO

    async def stop(self, members: Sequence[Member]) -> Mapping[str, str]:
        """Stop them; a host that is gone never answers."""
        agents = [self.world.agents[member.agent_id] for member in members if member.agent_id in self.world.agents]
        self.world.stops.append(tuple(member.agent_id for member in members))
        if any(self._is_gone(agent) for agent in agents):
            await asyncio.sleep(100_000.0)
        await self._take(1.0, 3.0, f"stop {members[0].agent_id}")
        for agent in agents:
            if agent.stopped_at is None:
                agent.stopped_at = self.clock.passed
        return dict.fromkeys((member.agent_id for member in members), "")

    async def _take(self, least: float, most: float, what: str) -> None:
        dice = self.world.dice(what)
        await asyncio.sleep(least + (most - least) * dice.random())
        self._refuse_in_outage()
        if dice.random() < self.world.trouble:
            raise ToolFailedError("mngr failed", "Error: connection reset by peer")

    def _refuse_in_outage(self) -> None:
        if any(begin <= self.clock.passed < end for begin, end in self.world.outages):
            raise ToolFailedError("mngr failed", "Error: network is unreachable")

    def _is_gone(self, agent: SimulatedAgent) -> bool:
        return agent.is_doomed and self.clock.passed >= agent.there_at + agent.seconds / 2

    def _see(self, member: Member) -> Seen:
        agent = self.world.agents.get(member.agent_id)
        host = _host(member)
        if agent is None:
            return Seen(Life.ABSENT)
        if self.clock.passed < agent.there_at:
            return Seen(Life.UNSEEN, detail="it is being made")
        if self._is_gone(agent) and agent.role is Role.FALLS_SILENT:
            return Seen(Life.UNSEEN, detail=f"host {host} does not answer")
        if self._is_gone(agent):
            return Seen(Life.LOST, detail=f"host {host} is gone")
        written = self._written(agent)
        stamp = "" if written is None else hashlib.sha256(written).hexdigest()[:12]
        return Seen(self._life(agent), stamp, host, self.world.provider)

    def _life(self, agent: SimulatedAgent) -> Life:
        if agent.stopped_at is not None:
            return Life.STOPPED
        if self.world.is_interactive and not agent.prompted_at:
            return Life.TURN_ENDED
        if agent.told_at is not None:
            return Life.WORKING
        if agent.went_on_at is not None:
            return Life.TURN_ENDED if self.world.is_interactive else Life.WORKING
        is_through = self.clock.passed >= self._begun_at(agent) + agent.seconds
        match agent.role:
            case Role.HANGS:
                return Life.WORKING
            case Role.FORGETS if is_through:
                return Life.TURN_ENDED
            case Role.NEEDS_A_REMINDER if is_through:
                return Life.TURN_ENDED if agent.reminded_at is None else Life.WORKING
            case Role.ASKS if is_through:
                return Life.ASKS
            case Role.CRASHES | Role.WRITES_NONSENSE | Role.WRITES_ANOTHER_SHAPE | Role.WRITES_A_GIANT if is_through:
                return Life.EXITED
            case _:
                return Life.WORKING  # an agent that is done is there until somebody stops it

    def _begun_at(self, agent: SimulatedAgent) -> float:
        return agent.prompted_at[0] if agent.prompted_at else agent.there_at

    def _written(self, agent: SimulatedAgent) -> bytes | None:
        """Return the content of its outcome file; None without one."""
        if self.world.is_interactive and not agent.prompted_at:
            return None
        if agent.told_at is not None:
            ended_at = self.clock.passed if agent.stopped_at is None else agent.stopped_at
            answered = _report(Role.SUCCEEDS) | {"summary_markdown": f"Told: {len(agent.told)}"}
            return json.dumps(answered).encode() if ended_at >= agent.told_at + 15.0 else None
        if agent.went_on_at is not None:
            return None  # its results are away
        begun_at = self._begun_at(agent)
        passed = self.clock.passed - begun_at
        if agent.stopped_at is not None:
            passed = min(passed, agent.stopped_at - begun_at)
        is_smoke = not agent.member.node_id
        whole = (report_of(agent.member.agent_id) if is_smoke else json.dumps(_report(agent.role))).encode()
        match agent.role:
            case Role.CRASHES | Role.HANGS | Role.FORGETS | Role.ASKS:
                return None
            case Role.NEEDS_A_REMINDER:
                return whole if agent.reminded_at is not None and self.clock.passed >= agent.reminded_at + 5.0 else None
            case Role.WRITES_SLOWLY if agent.seconds <= passed < agent.seconds + 30.0:
                return whole[: int(len(whole) * (passed - agent.seconds) / 30.0)]
            case Role.WRITES_NONSENSE if passed >= agent.seconds:
                return b"All tests pass now!\n"
            case Role.WRITES_ANOTHER_SHAPE if passed >= agent.seconds:
                return b'{"result": "fixed", "errored": "no"}'
            case Role.WRITES_A_GIANT if passed >= agent.seconds:
                return b"{"  # `pull` makes it as large as it is
            case _:
                return whole if passed >= agent.seconds else None


class SimulatedBundles:
    """Takes the bundles that simulated agents leave."""

    async def take(self, bundle: Path, member: Member) -> Taken:
        """Read how many commits it stands for."""
        text = bundle.read_text(encoding="utf-8")
        if not text.startswith(_BUNDLE_WORDS):
            raise UnusableBundleError("The bundle cannot be used", "it is no bundle")
        return Taken(hashlib.sha1(member.test.encode(), usedforsecurity=False).hexdigest(), int(text.split()[-1]))


def _host(member: Member) -> str:
    return f"host-{int(member.agent_id[6:14], 16) % 4}"


def _report(role: Role) -> dict[str, object]:
    kind = {"FIX_IMPL": {"status": "SUCCEEDED", "summary_markdown": "Fixed the total."}}
    escalations = [{"kind": "BLOCKER", "title": "Needs a decision", "detail_markdown": "Which of the two is meant?"}]
    return {
        "changes": {} if role in (Role.CHANGES_NOTHING, *_BLOCKED) else kind,
        "errored": False,
        "tests_passing_before": role is Role.CHANGES_NOTHING,
        "tests_passing_after": role is not Role.STAYS_RED,
        "summary_markdown": f"This agent {role}.",
        "test_runs": [],
        "escalations": escalations if role in _BLOCKED else [],
    }

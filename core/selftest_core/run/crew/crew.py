"""The port `Crew`: how a conductor makes, observes and stops agents, and the values that pass it.

`run.crew.mngr_crew` implements it with mngr; the tests have a simulated crew. One contract test holds both to the same
answers. A crew knows no rules of a run: it reports what it sees.

Every method may take long and may raise ToolError, which affects only the agents that it was called for.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

from selftest_core.errors import ToolError
from selftest_core.frozen import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from selftest_core.agent_types.condition import Kind
    from selftest_core.run.fetch.conversations import Conversation
    from selftest_core.run.fold import Member

OUTCOME = "outcome.json"
BUNDLE = "branch.bundle"


class Life(StrEnum):
    """The states of an agent that a run distinguishes.

    `WORKING`: it runs (a command agent that mngr calls WAITING works all its life). `TURN_ENDED`: an interactive agent
    waits for a message. `ASKS`: a dialog or a question blocks it. `EXITED`: its program ended. `STOPPED`: its session
    is gone. `ABSENT`: a complete listing does not have it. `LOST`: its host is gone. `UNSEEN`: its state is not known
    now, or it is being made.
    """

    WORKING = "working"
    TURN_ENDED = "turn ended"
    ASKS = "asks"
    EXITED = "exited"
    STOPPED = "stopped"
    ABSENT = "absent"
    LOST = "lost"
    UNSEEN = "unseen"


PRESENT = (Life.WORKING, Life.TURN_ENDED, Life.ASKS, Life.EXITED)
"""States of an agent that can be stopped."""


@dataclass(frozen=True, slots=True)
class Seen:
    """One observation of an agent. `outcome`: a stamp that changes with its outcome file; empty without one.

    `host_id`, `provider`: where it was found. `detail`: why it is unseen, or what it asks. `kind`: what it waits for;
    None if that is not known. `needs_you`: the fleet would show that it needs the user. `setup`: seconds that the
    setup of its copy took, right after it was made.
    """

    life: Life
    outcome: str = ""
    host_id: str = ""
    provider: str = ""
    detail: str = ""
    setup: float | None = None
    kind: Kind | None = None
    needs_you: bool = False


class Delivery(StrEnum):
    """The delivery of a message to an agent, according to the agent's transcript.

    `YES`: it is there. `NO`: the transcript can be read and does not have it. `UNKNOWN`: no transcript can be read.
    `PENDING`: a message to the agent is being sent now.
    """

    YES = "yes"
    NO = "no"
    UNKNOWN = "unknown"
    PENDING = "pending"


class LaunchError(ToolError):
    """An agent could not be made."""


class SetupError(LaunchError):
    """The setup command of a copy failed; it would fail in another copy too."""


class DoubtfulMessageError(ToolError):
    """A message that may have arrived: check its delivery before sending it again."""


class Crew(Protocol):
    """Makes, observes, fetches from and stops the agents of one run."""

    async def create(self, member: Member) -> Seen:
        """Make the agent without a prompt. Raises ToolError; then only `look` tells whether it is there."""
        ...

    async def restart(self, member: Member) -> Seen:
        """Start the ended agent again, with its conversation, for `member.answer`, which is put into its copy.

        Its old outcome and bundle are renamed away first. Can be repeated. Raises ToolError if it cannot go on.
        """
        ...

    async def look(self, members: Sequence[Member]) -> Mapping[str, Seen]:
        """Observe these agents; the answer has all of them, by agent id."""
        ...

    async def pull(self, member: Member, staging: Path) -> None:
        """Copy the agent's out folder, with the bundle of its branch, into the empty folder `staging`."""
        ...

    async def conversation(self, member: Member) -> Conversation:
        """Return its conversation so far, masked, or the reason why there is none. Raises ToolError."""
        ...

    async def limits(self, members: Sequence[Member]) -> Mapping[str, str]:
        """Return the rate-limit message of each agent, by agent id; empty for no limit, missing where unknown."""
        ...

    async def screens(self, members: Sequence[Member]) -> Mapping[str, str]:
        """Return the screens' texts by agent id, without those of gone sessions. Never starts an agent."""
        ...

    async def send(self, member: Member, text: str) -> None:
        """Send a message. Raises ToolFailedError if it did not arrive, another ToolError if it may have."""
        ...

    async def check_delivery(self, member: Member, text: str) -> Delivery:
        """Look in the agent's transcript for this message."""
        ...

    async def stop(self, members: Sequence[Member]) -> Mapping[str, str]:
        """Stop these agents, all of one host; return the failure by agent id, empty for stopped."""
        ...

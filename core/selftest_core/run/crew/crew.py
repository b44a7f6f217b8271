"""What conducting a run needs of whoever makes and keeps agents: the port `Crew`, and the values that pass it.

`run.crew.mngr_crew` does it with the real mngr; the tests have a simulated one. One contract test
holds both to the same answers. A crew knows nothing of a run's rules: it is asked, and tells what it sees.

Every method may take long and may fail: it raises ToolError, which costs the agents that were asked for and no other.
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
    """What an agent is doing, as far as a run cares.

    `WORKING`: it is there (a command agent that mngr calls WAITING works all its life). `TURN_ENDED`: an interactive
    agent waits for words. `ASKS`: a dialog holds it up. `EXITED`: its program ended. `STOPPED`: its session is gone.
    `ABSENT`: a whole answer does not have it. `LOST`: its host is gone. `UNSEEN`: nobody can tell just now, or it is
    being made.
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
"""Of an agent that has something to stop."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What was seen of one agent. `outcome`: a stamp of its outcome file, that changes with it; empty without one.

    `host_id` and `provider` where it was found. `says`: words beside it, such as why it is unseen, or what it asks.
    `kind`: what it waits for (`condition.Kind`), None where nothing tells. `needs_you`: it needs a person by the
    judgement of the fleet. `setup`: seconds that the setup of its copy took, of one that was
    made just now.
    """

    life: Life
    outcome: str = ""
    host_id: str = ""
    provider: str = ""
    says: str = ""
    setup: float | None = None
    kind: Kind | None = None
    needs_you: bool = False


class Heard(StrEnum):
    """Whether an agent has got a message, by its own transcript.

    `YES`: it is there. `NO`: the transcript can be read, and does not have it. `UNKNOWN`: no transcript can be read.
    `PENDING`: somebody is sending it just now.
    """

    YES = "yes"
    NO = "no"
    UNKNOWN = "unknown"
    PENDING = "pending"


class LaunchError(ToolError):
    """An agent could not be made."""


class SetupError(LaunchError):
    """The command that makes a copy's environment failed; it would fail in another copy alike."""


class DoubtfulMessageError(ToolError):
    """A message that may have arrived all the same: it must not be sent again before the agent was looked at."""


class Crew(Protocol):
    """Makes, sees, empties and stops the agents of one run."""

    async def create(self, member: Member) -> Seen:
        """Make the agent, without a prompt. Raises ToolError; whether it is there then, only `look` can tell."""
        ...

    async def look(self, members: Sequence[Member]) -> Mapping[str, Seen]:
        """What is to be seen of these agents, by agent id; all of them are in the answer."""
        ...

    async def pull(self, member: Member, staging: Path) -> None:
        """Copy what the agent left in its out folder into `staging` (which is there and empty), and its branch."""
        ...

    async def conversation(self, member: Member) -> Conversation:
        """Its conversation so far, masked; one that cannot be had says why. Raises ToolError."""
        ...

    async def limits(self, members: Sequence[Member]) -> Mapping[str, str]:
        """The words with which a service turns each away, by agent id; empty where it does not. Without the unknown."""
        ...

    async def screens(self, members: Sequence[Member]) -> Mapping[str, str]:
        """The texts of their screens, by agent id, without those that have none any more. Never starts one."""
        ...

    async def say(self, member: Member, text: str) -> None:
        """Send it a message. Raises ToolFailedError where it did not arrive, another ToolError where that is open."""
        ...

    async def heard(self, member: Member, text: str) -> Heard:
        """Whether it has got this message."""
        ...

    async def stop(self, members: Sequence[Member]) -> Mapping[str, str]:
        """Stop these agents, all of one host; by agent id why one could not be stopped, empty where it is stopped."""
        ...

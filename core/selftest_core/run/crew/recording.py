"""What a run needs of whoever records its agents' terminals: the port `Recorder`, filled by the program's entry.

A run is the same with and without one: recording must never hold it up nor fail it. So nothing here raises, and what
went wrong is told by the recorder itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from selftest_core.frozen import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path, PurePosixPath

    from selftest_core.config import Config
    from selftest_core.journal import Entry
    from selftest_core.run.fold import Member, Run
    from selftest_core.run.store import RunFolder

LIVE = "recordings"
"""The folder of a run where recordings stand while their agents work."""
TERMINAL = "terminal.cast"
"""The recording's name in what came back of an attempt."""


@dataclass(frozen=True, slots=True)
class Provision:
    """What records an agent on its own host: files to be put there, and a command for when it is made."""

    uploads: tuple[tuple[Path, PurePosixPath], ...] = ()
    command: str = ""


NOT_RECORDED = Provision()


class Recorder(Protocol):
    """Records the terminals of one run's agents."""

    def begin(self, run: Run) -> None:
        """A conductor has taken the run up; to be called in its event loop."""
        ...

    def hear(self, run: Run, entry: Entry) -> None:
        """A line of the journal was written, `run` being the run after it."""
        ...

    def provision(self, member: Member, work_dir: PurePosixPath) -> Provision:
        """What a far agent needs so that its terminal is recorded there, into its out folder."""
        ...

    async def leave(self, *, is_over: bool) -> None:
        """The conductor leaves. Agents that go on are recorded on; a run that is over leaves nothing behind."""
        ...


type RecorderMaker = Callable[[RunFolder, Config, Mapping[str, str]], Recorder]


def live_recording(folder: RunFolder, member: Member) -> Path:
    """Where the recording of a local agent is while it is made; also afterwards."""
    return folder.path / LIVE / f"{member.test}-attempt-{member.attempt}.cast"


def recording_of(folder: RunFolder, member: Member) -> Path | None:
    """The recording of an attempt: what came back of it, else the one that is being made; None without any."""
    attempt = folder.attempt(member)
    found = [attempt / TERMINAL, *sorted(attempt.glob("*.cast")), live_recording(folder, member)]
    return next((path for path in found if path.is_file() and not path.is_symlink()), None)

"""The port `Recorder`: records the terminals of a run's agents. The program's entry point passes an implementation.

Recording must never delay or fail a run: no method raises, and the recorder itself reports what went wrong.
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
"""The folder of a run with the recordings of running agents."""
TERMINAL = "terminal.cast"
"""The recording's name among the files of an attempt."""


@dataclass(frozen=True, slots=True)
class Provision:
    """The recording of an agent on its own host: files to upload, and a command to run when the agent is made."""

    uploads: tuple[tuple[Path, PurePosixPath], ...] = ()
    command: str = ""


NOT_RECORDED = Provision()


class Recorder(Protocol):
    """Records the terminals of one run's agents."""

    def begin(self, run: Run) -> None:
        """Start recording. Called in the conductor's event loop."""
        ...

    def handle(self, run: Run, entry: Entry) -> None:
        """Handle a journal line; `run` is the run after it."""
        ...

    def provision(self, member: Member, work_dir: PurePosixPath) -> Provision:
        """Return what records a remote agent on its host, into its out folder."""
        ...

    async def leave(self, *, is_over: bool) -> None:
        """Handle the conductor's end. Running agents are recorded further; a finished run leaves no recorder."""
        ...


type RecorderMaker = Callable[[RunFolder, Config, Mapping[str, str]], Recorder]


def live_recording(folder: RunFolder, member: Member) -> Path:
    """Return the path of a local agent's recording, while it runs and afterwards."""
    return folder.path / LIVE / f"{member.test}-attempt-{member.attempt}.cast"


def recording_of(folder: RunFolder, member: Member) -> Path | None:
    """Find the recording of an attempt: the fetched one, else the live one; None without any."""
    attempt = folder.attempt(member)
    found = [attempt / TERMINAL, *sorted(attempt.glob("*.cast")), live_recording(folder, member)]
    return next((path for path in found if path.is_file() and not path.is_symlink()), None)

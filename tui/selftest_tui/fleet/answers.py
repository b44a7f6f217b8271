"""The user's stored answers: whether mngr's dangerous keys ask first on a tmux server. Kept in the state folder.

Without a readable file the question is asked again.
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from selftest_core.fleet.watch.fleet_cache import fleet_folder
from selftest_core.frozen import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping

FILE_NAME = "key-guard.json"


class Answer(StrEnum):
    """The handling of mngr's keys on a server."""

    GUARD = "guard"
    LEAVE = "leave"


@dataclass(frozen=True, slots=True)
class Answers:
    """The answers of one state folder, by the socket of the server."""

    folder: Path

    @classmethod
    def of(cls, environ: Mapping[str, str]) -> Answers:
        """Return the answers for this environment."""
        return cls(fleet_folder(environ))

    def of_server(self, socket: str) -> Answer | None:
        """The answer for this server; None if there is none, or it cannot be read."""
        said = self._all().get(socket)
        return Answer(said) if said in list(Answer) else None

    def remember(self, socket: str, answer: Answer) -> None:
        """Keep an answer. One that cannot be written is asked again."""
        text = json.dumps({**self._all(), socket: answer.value}, indent=1)
        with contextlib.suppress(OSError):
            self.folder.mkdir(parents=True, exist_ok=True)
            handle, name = tempfile.mkstemp(dir=self.folder, prefix=FILE_NAME)
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(text)
            Path(name).replace(self.folder / FILE_NAME)

    def _all(self) -> dict[str, str]:
        try:
            said = json.loads((self.folder / FILE_NAME).read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError):
            return {}
        return {str(socket): str(answer) for socket, answer in said.items()} if isinstance(said, dict) else {}

"""The files of an agent's command that only this machine has, and that go along to another one.

`--agent-command ./agent.sh` is to work far away as it does here. A word of the command that is the absolute path of
a file here is copied beside the agent's prompt and named by its new place; what lies where systems keep their own
programs is taken to be there too, and a relative path is one of the repository, which the agent has anyway.
"""

from __future__ import annotations

from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_OF_THE_SYSTEM = ("/bin/", "/sbin/", "/usr/", "/lib/", "/lib64/", "/opt/", "/etc/", "/nix/", "/dev/", "/proc/", "/run/")


def carried_files(command: Sequence[str] | None) -> tuple[str, ...]:
    """The words of the command, each once, that are files to be taken along; what is offered to a person names them."""
    words = dict.fromkeys(command or ())
    return tuple(
        word for word in words if word.startswith("/") and not word.startswith(_OF_THE_SYSTEM) and Path(word).is_file()
    )


def carried_to(files: Sequence[str], folder: PurePosixPath) -> dict[str, PurePosixPath]:
    """Where each file is put: under its own name, which is what its process is known by, in a folder of its own."""
    return {file: folder / str(number) / PurePosixPath(file).name for number, file in enumerate(files)}

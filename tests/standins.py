"""Programs that stand in for others where what those do is what is tested: small scripts, first on PATH."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from worlds import World

EMPTY = '{"agents": [], "errors": []}'


def mngr_that(world: World, listing: str, *, version: str = "mngr 0.3.0") -> Path:
    """Put an mngr first on the world's PATH that runs these shell lines for `list`, and counts its calls."""
    folder = world.root / "standin"
    folder.mkdir(exist_ok=True)
    program = folder / "mngr"
    draft = folder / "draft"
    draft.write_text(
        "#!/bin/sh\n"
        f'if [ "$1" = --version ]; then echo "{version}"; exit 0; fi\n'
        f'echo "$@" >> {folder}/calls\n'
        f"{listing}\n"
    )
    draft.chmod(0o755)
    # Replaced whole: a script that a shell reads just now must not change under it.
    draft.replace(program)
    path = world.environment["PATH"]
    if not path.startswith(str(folder)):
        world.extra["PATH"] = f"{folder}:{path}"
    return program


def calls(world: World) -> list[str]:
    """The arguments of every `list` that the stand-in was run for."""
    file = world.root / "standin" / "calls"
    return file.read_text().splitlines() if file.exists() else []


def make_gh(folder: Path) -> Path:
    """A program in the place of gh, in this folder: it writes down how it was called, and fails where it is told to.

    `CALL` in its environment names the file; with `FAIL` there it fails.
    """
    folder.mkdir()
    program = folder / "gh"
    program.write_text(
        "#!/usr/bin/env python3\nimport json,os,sys\n"
        "call = {'argv': sys.argv[1:], 'body': sys.stdin.read(), 'cwd': os.getcwd()}\n"
        "json.dump(call, open(os.environ['CALL'], 'w'))\n"
        "if os.environ.get('FAIL'): sys.exit('no pull request: not logged in')\n"
        "print('https://example.org/pull/7')\n"
    )
    program.chmod(0o755)
    return folder

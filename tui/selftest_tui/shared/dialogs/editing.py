"""Plan to open a file at a line in the user's editor."""

from __future__ import annotations

import os
import shlex
from typing import TYPE_CHECKING

from selftest_core.actions.attach import AttachPlan
from selftest_core.errors import RefusedError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


def editor_of(environ: Mapping[str, str]) -> str:
    """The command of the editor, from VISUAL or EDITOR; "" if neither is set."""
    return environ.get("VISUAL") or environ.get("EDITOR") or ""


def plan_edit(path: Path, line: int, environ: Mapping[str, str]) -> AttachPlan:
    """Plan to hand the terminal over to the editor. Raises RefusedError if its command cannot be parsed."""
    try:
        words = shlex.split(editor_of(environ))
    except ValueError as error:
        raise RefusedError("The command of your editor is not valid", str(error), "See VISUAL and EDITOR.") from error
    # `+N` before the file is understood by vi, emacs, nano, micro, kakoune, joe and others.
    argv = (*words, f"+{line}", os.fspath(path.absolute()))
    return AttachPlan(argv, dict(environ), "hand over", "", "the editor")

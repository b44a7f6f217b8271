"""How a file is opened at a line in the person's own editor. Plans only."""

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
    """The command that edits, "" where the person has named none."""
    return environ.get("VISUAL") or environ.get("EDITOR") or ""


def plan_edit(path: Path, line: int, environ: Mapping[str, str]) -> AttachPlan:
    """The editor on our terminal until it ends. Raises RefusedError where its command cannot be read."""
    try:
        words = shlex.split(editor_of(environ))
    except ValueError as error:
        raise RefusedError("The command of your editor cannot be read", str(error), "See VISUAL and EDITOR.") from error
    # `+N` before the file is understood by vi, emacs, nano, micro, kakoune, joe and others.
    argv = (*words, f"+{line}", os.fspath(path.absolute()))
    return AttachPlan(argv, dict(environ), "hand over", "", "the editor")

"""Prepare the run of a draft: one task for each heading, with what stands beneath it.

prepared = await prepare_draft(headings, wanted, config, environ, cwd, say)
"""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

from selftest_core.draft.sections import choose_sections, outline
from selftest_core.errors import ToolOutputError, UsageError
from selftest_core.git.command import Git, find_place
from selftest_core.run.plan.plan import TaskFile
from selftest_core.run.plan.prompt import fenced
from selftest_core.run.plan.tasks import Task, prepare_tasks

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from selftest_core.config import Config
    from selftest_core.draft.sections import Section
    from selftest_core.run.plan.preparation import Prepared, RunOptions

LARGEST = 4 * 1024 * 1024
"""Bytes of a tutorial."""
_MOST_OTHERS = 100


async def prepare_draft(
    headings: Sequence[str],
    wanted: RunOptions,
    config: Config,
    environ: Mapping[str, str],
    cwd: Path,
    say: Callable[[str], None],
) -> Prepared:
    """Prepare a run with an agent for each of these headings, for all without names. Changes nothing of the user's.

    Raises UsageError for a heading that is not there, and what `prepare_tasks` raises.
    """

    def made() -> tuple[Task, ...]:
        git = Git(find_place(cwd, environ).git_dir, environ)
        text = read_tutorial(git, git.resolve(wanted.base), wanted.tutorial)[0]
        return draft_tasks(text, wanted.tutorial, headings)

    return await prepare_tasks("drafter", await asyncio.to_thread(made), wanted, config, environ, cwd, say)


def read_tutorial(git: Git, commit: str, path: str) -> tuple[str, str]:
    """Read the text and the mode of a tutorial at a commit; bytes that are not UTF-8 become surrogates.

    Raises UsageError where there is none, or where it is no text file of a sensible size.
    """
    listed = git.ask("ls-tree", "-z", commit, "--", path).removesuffix("\0")
    mode, kind, oid = (listed.partition("\t")[0].split() or ["", "", ""])[:3]
    if kind != "blob" or mode not in ("100644", "100755"):
        what = "is no file" if listed else "does not exist"
        raise UsageError(f"{path} {what} at {commit[:12]}", "", "Commit it, or name another with --tutorial FILE.")
    try:
        text = git.ask("cat-file", "blob", oid, limit=LARGEST)
    except ToolOutputError as error:
        raise UsageError(f"{path} is larger than {LARGEST:,} bytes at {commit[:12]}") from error
    if "\0" in text:
        raise UsageError(f"{path} is no text at {commit[:12]}")
    return text, mode


def draft_tasks(text: str, path: str, headings: Sequence[str]) -> tuple[Task, ...]:
    """Make the tasks for these headings of a tutorial's text. `path`: of the tutorial, for the agents."""
    text = text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    others = tuple(one.id for one in outline(text).sections)
    return tuple(_task(section, path, others) for section in choose_sections(text, headings, path))


def _task(section: Section, path: str, others: Sequence[str]) -> Task:
    blocks = tuple(block.text for block in section.blocks)
    given = {
        "tutorial": path,
        "heading": section.id,
        "line": section.heading.line,
        "blocks": [{"line": block.line, "text": block.text} for block in section.blocks],
    }
    whole = "\n\n".join((section.heading.text, *blocks))
    files = (
        TaskFile("task.json", json.dumps(given, indent=2, ensure_ascii=False) + "\n"),
        TaskFile("section.sh", f"{whole}\n"),
    )
    return Task(section.id, _brief(section, path, others), files, blocks)


def _brief(section: Section, path: str, others: Sequence[str]) -> str:
    lines = [
        f"It is in line {section.heading.line} of the tutorial, which is the file at this path:", "",
        fenced(path), "",
        fenced(section.heading.text, "sh"), "",
    ]  # fmt: skip
    if section.blocks:
        lines += ["Beneath it stand these blocks:", ""]
        lines += [part for block in section.blocks for part in (fenced(block.text, "sh"), "")]
    else:
        lines += ["No block stands beneath it yet.", ""]
    rest = [other for other in others if other != section.id]
    if rest:
        shown = "\n".join(rest[:_MOST_OTHERS])
        lines += ["The other headings, which are not yours:", "", fenced(shown)]
    return "\n".join(lines).rstrip("\n")

"""A review without a screen: branches and a decisions file in, a candidate and perhaps a published branch out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from selftest_core.errors import UsageError
from selftest_core.integration.decisions import Decisions, read_decisions
from selftest_core.integration.engine import Engine
from selftest_core.integration.line import Line, Status
from selftest_core.integration.publishing import keep_candidate
from selftest_core.integration.review import (
    Reviewed,
    Targets,
    lay_review,
    make_plan,
    publish_review,
    resolve_branches,
    resolve_range,
    split_range,
)  # fmt: skip
from selftest_core.tools.git import Git, find_place

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

OWN_FOLDER = ".selftest"


@dataclass(frozen=True, slots=True)
class Request:
    """What a person asked for. `targets`: one `BASE..BRANCH`, or branches beside `base`."""

    targets: tuple[str, ...]
    base: str | None = None
    onto: str | None = None
    decisions: Path | None = None
    publish: str | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of it. `published` is the full ref and its line, where there was something to publish and a name."""

    reviewed: Reviewed
    candidate: str
    published: tuple[str, Line] | None

    @property
    def is_done(self) -> bool:
        """True when nothing stays open."""
        return not self.reviewed.open and not self.reviewed.plan.left_out


def review(request: Request, cwd: Path, environ: Mapping[str, str]) -> Answer:
    """Lay, keep the candidate, and publish where asked. Raises UsageError, RefusedError, ToolError."""
    # A wrong file is said before the first commit is read.
    decisions = Decisions() if request.decisions is None else read_decisions(request.decisions)
    place = find_place(cwd, environ)
    user = Git(place.git_dir, environ)
    targets = _resolve(user, request)
    home = own_folder(place.top) / "runs" / targets.name
    with Engine.open(home / "engine.git", place.git_dir, environ) as engine:
        plan = make_plan(engine, targets)
        reviewed = lay_review(engine, plan, decisions)
        candidate = keep_candidate(engine, user, plan.name, reviewed.line)
        is_held = any(placed.status is Status.HELD for placed in reviewed.line.items)
        published = None
        if request.publish is not None and not (is_held and decisions.on_conflict == "fail"):
            published = publish_review(engine, user, reviewed, request.publish, home, environ)
    return Answer(reviewed, candidate, published)


def own_folder(top: Path) -> Path:
    """`.selftest/` at the top of a work tree, made where it is missing and ignored by git from its first moment."""
    folder = top / OWN_FOLDER
    ignore = folder / ".gitignore"
    if not ignore.is_file():
        folder.mkdir(exist_ok=True)
        ignore.write_text("*\n")
    return folder


def _resolve(user: Git, request: Request) -> Targets:
    if request.base is not None:
        if not request.targets:
            raise UsageError("No branch to review", "", "Name one or more: `review --base main BRANCH…`.")
        return resolve_branches(user, request.base, request.targets, request.onto)
    if len(request.targets) != 1:
        hint = "Write BASE..BRANCH, or `--base REF BRANCH…` for several branches."
        raise UsageError("What is to be reviewed?", "", hint)
    base, branch = split_range(request.targets[0])
    return resolve_range(user, base, branch, request.onto)

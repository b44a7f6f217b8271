"""What a person sees of a review at one moment: frozen values, made by `session`, read by a screen.

A state is never changed: each act gives a new one. All text in here is of commits and agents, and not yet safe to show.
"""

from __future__ import annotations

from dataclasses import field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from selftest_core.frozen import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from selftest_core.review.changes.collect_changes import Change
    from selftest_core.review.decisions import Decisions
    from selftest_core.review.review import Plan, Reviewed

_NOTHING: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Evidence:
    """What an agent of a run gave back. Paths are None where there is no such file.

    `tests`: its tests by node id, each with whether it says that it passes now, None where it does not say;
    `turned_green`: those that it says were red before and pass now; `words`:
    its own summary, Markdown; `said`: the end of its conversation, kept in `conversation`;
    `end`: how its test ended, empty while it has not; `importance`: its word for it.
    """

    outcome: Path | None = None
    transcript: Path | None = None
    conversation: Path | None = None
    said: str = ""
    recordings: tuple[Path, ...] = ()
    tests: tuple[tuple[str, bool | None], ...] = ()
    turned_green: tuple[str, ...] = ()
    words: str = ""
    end: str = ""
    importance: str | None = None
    why_important: str = ""


@dataclass(frozen=True, slots=True)
class Consequences:
    """What a decision would do to others: `breaks` are laid now and would be held, `lets_in` held now and laid then."""

    breaks: tuple[Change, ...] = ()
    lets_in: tuple[Change, ...] = ()


@dataclass(frozen=True, slots=True)
class Published:
    """A branch that was published: its full ref and commit. `is_current`: publishing again would change nothing."""

    ref: str
    tip: str
    is_current: bool = True


@dataclass(frozen=True, slots=True)
class ReviewState:
    """A review as it stands.

    `name` is its id, `home` the folder with its log and its decisions file. `reviewed` has the order, the line and
    what is decided for each change. `new`: changes that came after the review was first opened and were not decided
    yet. `undo_says`, `redo_says`: what would be taken back or done again, empty where there is nothing.
    `total` = `decided` + those that are undecided and not void; `held` and `open` count changes.
    `main`: the branch that the line may be re-laid on, empty where there is none; `main_moved`: how many commits it has
    that the line is not laid on. `publishable`: why publishing makes no sense now, empty where it does; `stat`: lines
    added and removed by what would be published. `alternatives`: changes much like this one, by oid. `hot`: by path,
    how many agents touched it. `evidence` by agent. `gone`: decisions whose commits are not there any more.
    `is_live`: more may arrive.
    """

    name: str
    home: Path
    plan: Plan
    decisions: Decisions
    reviewed: Reviewed
    new: frozenset[str] = frozenset()
    notes: Mapping[str, str] = field(default_factory=lambda: _NOTHING)
    undo_says: str = ""
    redo_says: str = ""
    total: int = 0
    decided: int = 0
    held: int = 0
    open: int = 0
    main: str = ""
    main_moved: int = 0
    publishable: str = ""
    stat: tuple[int, int] = (0, 0)
    published: Published | None = None
    alternatives: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: _NOTHING)
    hot: Mapping[str, int] = field(default_factory=lambda: _NOTHING)
    evidence: Mapping[str, Evidence] = field(default_factory=lambda: _NOTHING)
    gone: tuple[str, ...] = ()
    is_live: bool = False

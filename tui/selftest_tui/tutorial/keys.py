"""The keys of the tutorial's screen, and the reasons why a key is disabled. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from selftest_core.draft.decisions import BlockDecision
from selftest_core.draft.proposals import ProposalKind
from selftest_core.frozen import dataclass
from selftest_tui.shared.keys import SPLIT, Key, KeyTable, Topic, Where, shown
from selftest_tui.tutorial.view import (
    BlockLine,
    DrafterLine,
    NoteLine,
    OfferedLine,
    ProposalLine,
    Section,
    StaleLine,
    TestLine,
    WriterLine,
)

if TYPE_CHECKING:
    from selftest_tui.tutorial.drafts import DraftView, ProposalView
    from selftest_tui.tutorial.results import Result
    from selftest_tui.tutorial.view import Line


@dataclass(frozen=True, slots=True)
class TutorialSituation:
    """The state that reasons depend on. `opens`: undecided blocks, open blocks and citations.

    `gaps`: blocks without a test and stale citations; `headings`: of the tutorial. `editor`: the editor's command, or
    "". `result`: of the test under the cursor, or the worst of the block's, in the last run; or of the agent.
    `targets`: the proposed block under the cursor, or those of the heading under it. `draft`: the newest, None without
    one; `is_deciding`: an act on it is being written. `is_preparing`: the plan of a run is being prepared.
    """

    line: Line | None = None
    opens: int = 0
    problems: int = 0
    pane_is_open: bool = True
    editor: str = ""
    result: Result | None = None
    gaps: int = 0
    headings: int = 0
    targets: tuple[ProposalView, ...] = ()
    draft: DraftView | None = None
    is_deciding: bool = False
    is_preparing: bool = False


def open_disabled_reason(now: TutorialSituation) -> str | None:
    """There must be a line."""
    return None if now.line is not None else "Nothing is shown here."


def next_open_disabled_reason(now: TutorialSituation) -> str | None:
    """There must be an undecided or uncited block, or a stale citation."""
    return None if now.opens else "Every block is decided and cited, and every citation is a block."


def copy_disabled_reason(now: TutorialSituation) -> str | None:
    """The cursor must be on a block or a test."""
    match now.line:
        case BlockLine() | TestLine() | StaleLine() | WriterLine() | OfferedLine() | ProposalLine():
            return None
        case Section() | NoteLine() | DrafterLine():
            return "Move to a block or a test: its text or its id is copied."
        case None:
            return open_disabled_reason(now)


def edit_disabled_reason(now: TutorialSituation) -> str | None:
    """There must be a place to edit, and an editor."""
    if now.line is None or isinstance(now.line, Section):
        return open_disabled_reason(now) or "The cursor is on a heading: move to a block or a test."
    if isinstance(now.line, ProposalLine) and now.line.proposal.block.kind is ProposalKind.REMOVED:
        return (
            f"This removes a block: keep that ({shown('tutorial.keep', 'y')}) "
            f"or drop it ({shown('tutorial.revert', 'x')})."
        )
    return None if now.editor else "No editor is known: set VISUAL or EDITOR."


def run_disabled_reason(now: TutorialSituation) -> str | None:
    """A test under the cursor must be in the last run."""
    match now.line:
        case BlockLine() | TestLine() | WriterLine() | OfferedLine() | DrafterLine() | ProposalLine():
            return (
                None if now.result is not None else "It is in no run of this repository: `selftest-tui run` starts one."
            )
        case _:
            return open_disabled_reason(now) or "Move to a block or a test: its run, agent and commits are a key away."


def agent_disabled_reason(now: TutorialSituation) -> str | None:
    """It must have an agent."""
    why = run_disabled_reason(now)
    return why or (None if now.result is not None and now.result.agent_id else "Its agent was not launched yet.")


def review_disabled_reason(now: TutorialSituation) -> str | None:
    """Its agent must have committed."""
    why = run_disabled_reason(now)
    return why or (
        None if now.result is not None and now.result.tip else "Its agent committed nothing, as far as is known."
    )


def targets_disabled_reason(now: TutorialSituation) -> str | None:
    """The cursor must be on a proposed block, or on a heading that has some."""
    if now.targets:
        return None
    if now.draft is None:
        return f"No agent has proposed a block: {shown('tutorial.draft', '^d')} lets agents draft them."
    return "Move to a proposed block, or to a heading with some."


def keep_disabled_reason(now: TutorialSituation) -> str | None:
    """At least one decision must change."""
    return targets_disabled_reason(now) or _is_so(now, BlockDecision.KEEP, "It is kept already.")


def drop_disabled_reason(now: TutorialSituation) -> str | None:
    """At least one decision must change."""
    return targets_disabled_reason(now) or _is_so(now, BlockDecision.DROP, "It is dropped already.")


def undecide_disabled_reason(now: TutorialSituation) -> str | None:
    """At least one decision must change."""
    return targets_disabled_reason(now) or _is_so(now, BlockDecision.UNDECIDED, "It is undecided already.")


def _is_so(now: TutorialSituation, decision: BlockDecision, words: str) -> str | None:
    return words if all(one.decision is decision for one in now.targets) else None


def note_disabled_reason(now: TutorialSituation) -> str | None:
    """A finding is about one proposed block, or about a drafted heading."""
    if isinstance(now.line, DrafterLine | ProposalLine):
        return None
    return targets_disabled_reason(now) or "Move to one proposed block, or to the agent of a heading."


def undo_disabled_reason(now: TutorialSituation) -> str | None:
    """There must be an act."""
    return None if now.draft is not None and now.draft.undo_text else "Nothing was decided in this draft."


def redo_disabled_reason(now: TutorialSituation) -> str | None:
    """There must be an act that was undone."""
    return None if now.draft is not None and now.draft.redo_text else "Nothing was undone."


def publish_disabled_reason(now: TutorialSituation) -> str | None:
    """A block must be kept."""
    if now.is_deciding:  # on the next one, for example
        return None
    return (
        None
        if now.draft is not None and now.draft.kept
        else f"No proposed block is kept: {shown('tutorial.keep', 'y')} keeps one."
    )


def draft_disabled_reason(now: TutorialSituation) -> str | None:
    """There must be a heading, and no plan that is being prepared."""
    if now.is_preparing:
        return "The plan of a run is being prepared."
    return None if now.headings else "The tutorial has no heading: a comment with an empty line above and below it."


def sync_disabled_reason(now: TutorialSituation) -> str | None:
    """Something must lack tests, and no plan may be being prepared."""
    if now.is_preparing:
        return "The plan of a run is being prepared."
    return None if now.gaps else "Every block is cited, and every citation is a block."


MOVE = (
    Key(("tab",), "tab", "next_needing", "next open", "to the next proposed block that is undecided, block that no "
        "test cites, or stale citation", Topic.MOVE, line=2, disabled_reason=next_open_disabled_reason),
    Key(("shift+tab",), "shift+tab", "previous_needing", "previous open", "to the previous one", Topic.MOVE,
        disabled_reason=next_open_disabled_reason),
)  # fmt: skip

FIND = (
    Key(("slash",), "/", "filter", "filter",
        "show only blocks that match: words of text, heading or tests, is:STATE, /REGEX/; ! inverts", Topic.FIND,
        line=3),
    Key(("a",), "a", "only_needing", "only open", "show only what is open, or all again", Topic.FIND, line=4),
    Key(("o",), "o", "sort", "order", "open first, or all in the order of the file", Topic.FIND, line=11),
    Key(("escape",), "esc", "back", "back", "close a zoomed pane, then clear the filter, then back to the fleet",
        Topic.FIND, line=14),
)  # fmt: skip

_AGENTS = "Agents that fill in the tutorial"
_DECIDE = "Decide on the proposed block, or on all of the heading under the cursor"

AGENTS = (
    Key(("ctrl+d",), "^d", "draft", "draft", "let agents draft blocks, one for each heading: of this heading, of those "
        "without blocks, or of all; first shows the plan", _AGENTS, line=6, disabled_reason=draft_disabled_reason,
        opens=True),
    Key(("ctrl+s",), "^s", "sync", "sync", "let agents write the missing tests, and mend stale citations: of this "
        "block, or all; first shows the plan", _AGENTS, line=7, disabled_reason=sync_disabled_reason, opens=True),
)  # fmt: skip

DECIDE = (
    Key(("y",), "y", "keep", "keep", "keep it: it will be published", _DECIDE, line=5,
        disabled_reason=keep_disabled_reason),
    Key(("x",), "x", "revert", "drop", "drop it: it will not be published", _DECIDE, line=5,
        disabled_reason=drop_disabled_reason),
    Key(("u",), "u", "undecide", "undecided", "make it undecided again", _DECIDE,
        disabled_reason=undecide_disabled_reason),
    Key(("number_sign",), "#", "note", "finding", "note what is confusing about the interface here: it goes into the "
        "report; on the agent's line about the whole heading", _DECIDE, line=10, disabled_reason=note_disabled_reason,
        opens=True),
    Key(("z",), "z", "undo", "undo", "undo the last decision, edit or finding; all of them can be undone, after a "
        "restart too", _DECIDE, line=9, disabled_reason=undo_disabled_reason),
    Key(("Z",), "Z", "redo", "redo", "redo what was undone", _DECIDE, disabled_reason=redo_disabled_reason),
    Key(("P",), "P", "publish", "publish", "publish the kept blocks as one commit on a branch; lists them first",
        _DECIDE, line=8, disabled_reason=publish_disabled_reason),
)  # fmt: skip

LOOK = (
    Key(("enter",), "⏎", "open", "look", "the right pane over the whole screen, and back (on a heading: open or "
        "close it)", Topic.LOOK, Where.TABLE, line=1, disabled_reason=open_disabled_reason),
    Key(("E",), "E", "edit", "edit", "open the tutorial or the test at this line, in your editor (VISUAL or EDITOR); "
        "of a proposed block: its text, which is kept then",
        Topic.LOOK, line=12, disabled_reason=edit_disabled_reason),
    Key(("c",), "c", "copy", "copy", "copy the block's text, or the test's id", Topic.LOOK, line=13,
        disabled_reason=copy_disabled_reason),
)  # fmt: skip

GO = (
    Key(("w",), "w", "run", "run", "its test in the last run (of a block: the worst one); esc comes back", Topic.GO,
        line=15, disabled_reason=run_disabled_reason),
    Key(("r",), "r", "replay", "replay", "play the recording of its agent: live while it works, else where it failed",
        Topic.GO, line=16, disabled_reason=agent_disabled_reason),
    Key(("v",), "v", "review", "review", "the commits of its agent, in the review of the last run", Topic.GO,
        line=17, disabled_reason=review_disabled_reason),
    Key(("f",), "f", "fleet", "fleet", "to the fleet, on its agent", Topic.GO),
    Key(("R",), "R", "refresh", "refresh", "read the tutorial, the tests and the run again, now", Topic.PROGRAM),
)  # fmt: skip

TUTORIAL = KeyTable("Tutorial", MOVE + FIND + AGENTS + DECIDE + LOOK + GO, SPLIT)

"""The keys of a review's screen, and the reasons why a key is disabled. Pure.

A reason is a sentence: why the key is disabled and, where possible, what to do. None: the key works.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from selftest_core.frozen import dataclass
from selftest_core.review.candidate_branch import Decision, Status
from selftest_core.verify.background.background_verifier import Phase
from selftest_tui.shared.keys import SPLIT, Key, KeyTable, Topic, Where, shown

if TYPE_CHECKING:
    from selftest_tui.review.lines import ReviewRow


@dataclass(frozen=True, slots=True)
class ReviewSituation:
    """The state that reasons depend on. `targets`: the changes of the group under the cursor, or the one under it.

    `changes`: all of the review; `shown`: those that pass the filter; `opens`: those that need a person. `undo_text`,
    `redo_text`: the action that would be undone or redone. `main_moved`: new commits of the base. `hunks`: those of the
    shown diff; `needle`: the text searched for in it; `differs`: it is of a change that is applied otherwise than its
    agent committed it. `authors`: agents of the change that the fleet knows. `editor`: the editor's command, or "".
    `marked`: changes that are marked; `has_above`: the change under the cursor can be squashed with the one above it.
    `is_sorted`: by a column, so its order is not the branch's.
    `can_jump`: a test of the change is red, or it breaks one. `shows_texts`: the texts of its row are shown, and the
    change `marked_text` is marked. `conflicts`: changes in conflict.
    """

    row: ReviewRow | None = None
    on_group: bool = False
    targets: tuple[ReviewRow, ...] = ()
    changes: int = 0
    shown: int = 0
    opens: int = 0
    problems: int = 0
    is_opening: bool = False
    is_linear: bool = False
    undo_text: str = ""
    redo_text: str = ""
    main_moved: int = 0
    is_rebased: bool = False
    hunks: int = 0
    authors: int = 0
    recordings: int = 0
    published: str = ""
    editor: str = ""
    pane_is_open: bool = True
    shows_diff: bool = True
    shows_texts: bool = False
    marked_text: str = ""
    differs: bool = False
    needle: str = ""
    marked: int = 0
    has_above: bool = False
    is_filtered: bool = False
    is_sorted: bool = False
    verification: Phase = Phase.OFF
    can_jump: bool = False
    conflicts: int = 0


def change_disabled_reason(now: ReviewSituation) -> str | None:
    """The cursor must be on one change."""
    if now.row is not None:
        return None
    return (
        _none_shown(now)
        or f"The cursor is on a group: {shown('review.open_group', '→')} "
        "opens it, and one of its changes can be chosen."
    )


def targets_disabled_reason(now: ReviewSituation) -> str | None:
    """There must be a change to decide."""
    return None if now.targets else _none_shown(now)


def _none_shown(now: ReviewSituation) -> str | None:
    if now.is_opening:
        return "The review is still being opened."
    if now.shown:
        return None
    return (
        f"No change is shown: {shown('review.back', 'esc')} clears the filter."
        if now.changes
        else "This review has no change."
    )


def keep_disabled_reason(now: ReviewSituation) -> str | None:
    """At least one decision must change. A group does not keep what weakens a test."""
    why = targets_disabled_reason(now) or _is_so(
        now, Decision.KEEP, f"kept already: {shown('review.undecide', 'u')} makes it undecided again"
    )
    if why is not None or not now.on_group:
        return why
    left = [row for row in now.targets if row.decision is not Decision.KEEP]
    if any(not row.weakens for row in left):
        return None
    how = f"{shown('review.open_group', '→')} opens the group, {shown('review.keep', 'y')} on each one keeps it."
    return f"Only what weakens a test is left ({len(left)}): {how}"


def revert_disabled_reason(now: ReviewSituation) -> str | None:
    """At least one decision must change."""
    return targets_disabled_reason(now) or _is_so(
        now, Decision.REVERT, f"reverted already: {shown('review.undecide', 'u')} makes it undecided again"
    )


def undecide_disabled_reason(now: ReviewSituation) -> str | None:
    """At least one decision must change."""
    return targets_disabled_reason(now) or _is_so(now, Decision.UNDECIDED, "undecided already")


def _is_so(now: ReviewSituation, decision: Decision, words: str) -> str | None:
    if any(row.decision is not decision for row in now.targets):
        return None
    return f"It is {words}." if len(now.targets) == 1 else f"All {len(now.targets)} are {words}."


def choose_disabled_reason(now: ReviewSituation) -> str | None:
    """A text that is not chosen must be marked."""
    why = _texts_disabled_reason(now)
    if why is not None or now.row is None:
        return why
    return (
        f"It is the chosen one already: {shown('review.next_hit', 'n')} marks another."
        if now.marked_text == now.row.oid
        else None
    )


def apart_disabled_reason(now: ReviewSituation) -> str | None:
    """A text must be marked, or the change must have been set apart."""
    if now.row is not None and now.row.is_apart and not now.row.others:
        return None
    return _texts_disabled_reason(now)


def _texts_disabled_reason(now: ReviewSituation) -> str | None:
    """The texts of a row must be shown."""
    why = change_disabled_reason(now)
    if why is not None or now.row is None:
        return why
    if not now.row.others:
        return "No other change says the same as this one."
    if now.shows_texts and now.pane_is_open:
        return None
    return f"Its texts are not shown: {shown('review.show_alternatives', '5')} shows them, and marks one."


def next_open_disabled_reason(now: ReviewSituation) -> str | None:
    """There must be an open change."""
    if now.is_opening:
        return _none_shown(now)
    return None if now.opens else "Nothing is open: every change is decided, and none is in conflict."


def undo_disabled_reason(now: ReviewSituation) -> str | None:
    """There must be a decision to undo."""
    return None if now.undo_text else "Nothing was decided yet, so there is nothing to undo."


def redo_disabled_reason(now: ReviewSituation) -> str | None:
    """There must be an undone decision."""
    return None if now.redo_text else "Nothing was undone since the last decision."


def move_disabled_reason(now: ReviewSituation) -> str | None:
    """The cursor must be on a commit of its own, with all commits shown."""
    why = change_disabled_reason(now)
    if why is not None or now.row is None:
        return why
    if now.is_filtered:
        return f"A filter hides some commits: {shown('review.back', 'esc')} clears it."
    if now.is_sorted:
        return _sorted()
    if not now.is_linear and not now.row.change.kind.is_implementation:
        return "Tests, docs and build files are one commit together: they have no order."
    return None


def _sorted() -> str:
    return f"The changes are sorted by a column: {shown('review.sort', 'o')} brings the order of the branch back."


def split_disabled_reason(now: ReviewSituation) -> str | None:
    """The cursor must be on a change, and its diff be shown."""
    return change_disabled_reason(now) or own_diff_disabled_reason(now)


def select_hunk_disabled_reason(now: ReviewSituation) -> str | None:
    """The diff of one change must have a hunk."""
    return change_disabled_reason(now) or own_diff_disabled_reason(now) or hunk_disabled_reason(now)


def squash_disabled_reason(now: ReviewSituation) -> str | None:
    """Two changes must be marked, or the one under the cursor have another one above it."""
    if now.marked == 1:
        return f"One change is marked: mark another one with {shown('review.mark', 'space')}."
    if now.marked:
        return None
    why = change_disabled_reason(now)
    if why is None and now.is_sorted:
        return f"{_sorted()} Or mark the changes to squash with {shown('review.mark', 'space')}."
    if why is not None or now.has_above:
        return why
    return f"It has no other commit above it: mark the changes to squash with {shown('review.mark', 'space')}."


def unsquash_disabled_reason(now: ReviewSituation) -> str | None:
    """The change must be squashed with another one."""
    why = change_disabled_reason(now)
    if why is not None or now.row is None:
        return why
    return None if now.row.commit_mates else "It is not squashed with another change."


def rebase_disabled_reason(now: ReviewSituation) -> str | None:
    """The base must have moved."""
    if now.main_moved or now.is_rebased:
        return None
    return "The base of the branch has not moved."


def conflict_disabled_reason(now: ReviewSituation) -> str | None:
    """The change must be in conflict, or its conflict resolved."""
    why = change_disabled_reason(now)
    if why is not None or now.row is None:
        return why
    return None if now.row.status is Status.HELD or now.row.is_resolved else "It is not in conflict."


def resolve_disabled_reason(now: ReviewSituation) -> str | None:
    """There must be a conflict, and an editor."""
    why = conflict_disabled_reason(now)
    if why is not None:
        return why
    if now.row is not None and now.row.is_resolved:
        return (
            f"Its conflict is resolved already: {shown('review.undo', 'z')} "
            f"undoes that, or {shown('review.revert', 'x')} reverts the change."
        )
    return None if now.editor else "No editor is known: set VISUAL or EDITOR."


def integrate_disabled_reason(now: ReviewSituation) -> str | None:
    """A change must be in conflict, or the one under the cursor have alternatives."""
    if not now.changes or now.is_opening:
        return _none_shown(now)
    if now.conflicts or (now.row is not None and now.row.others):
        return None
    return "No change is in conflict, and this one has no alternatives."


def message_disabled_reason(now: ReviewSituation) -> str | None:
    """An author must be in the fleet."""
    why = change_disabled_reason(now)
    if why is not None or now.row is None:
        return why
    return None if now.authors else "No agent that made it is in the fleet any more."


def replay_disabled_reason(now: ReviewSituation) -> str | None:
    """There must be a recording."""
    return change_disabled_reason(now) or (None if now.recordings else "No agent that made it was recorded.")


def verify_disabled_reason(now: ReviewSituation) -> str | None:
    """There must be a change."""
    return _none_shown(now) if not now.changes or now.is_opening else None


def pause_disabled_reason(now: ReviewSituation) -> str | None:
    """A verification must have been started."""
    if now.verification in (Phase.OFF, Phase.FAILED):
        return f"Nothing is being verified: {shown('review.verify', 'v')} starts it."
    return "All is verified." if now.verification is Phase.DONE else None


def culprit_disabled_reason(now: ReviewSituation) -> str | None:
    """A test of the change must be red, or it must break one."""
    why = change_disabled_reason(now)
    if why is not None:
        return why
    return None if now.can_jump else "No test of this change is red, as far as it is verified, and it breaks none."


def publish_disabled_reason(now: ReviewSituation) -> str | None:
    """There must be a change."""
    return _none_shown(now) if not now.changes or now.is_opening else None


def diff_disabled_reason(now: ReviewSituation) -> str | None:
    """A diff must be on the screen."""
    if not now.pane_is_open:
        return f"The right pane is closed: {shown('review.open', '⏎')} opens it."
    return None if now.shows_diff else f"The diff is not shown: {shown('review.show_diff', '1')} shows it."


def own_diff_disabled_reason(now: ReviewSituation) -> str | None:
    """The diff of the change must be on the screen, not the difference of two texts."""
    why = diff_disabled_reason(now)
    if why is not None or not now.shows_texts:
        return why
    return f"This is the difference of two texts: {shown('review.show_diff', '1')} shows the diff of the change."


def original_disabled_reason(now: ReviewSituation) -> str | None:
    """The diff must be of a change that is applied otherwise than its agent committed it."""
    why = change_disabled_reason(now) or own_diff_disabled_reason(now)
    return why or (None if now.differs else "What is applied is what its agent committed.")


def hunk_disabled_reason(now: ReviewSituation) -> str | None:
    """The diff must have a hunk."""
    return diff_disabled_reason(now) or (None if now.hunks else "This diff has no hunk.")


def match_disabled_reason(now: ReviewSituation) -> str | None:
    """A text must have been searched for, or the texts of a row be shown."""
    if now.shows_texts and now.pane_is_open:
        return _texts_disabled_reason(now)
    why = hunk_disabled_reason(now)
    if why is not None or now.needle:
        return why
    return f"Nothing was searched for: {shown('review.search_text', '~')} searches in this diff."


_DECIDE = "Decide on the change under the cursor, or on its whole group when the cursor is on the title"
_BRANCH = "The branch"
_SHAPE = "Split, squash, reword"
_VERIFY = "Verify"
_DIFF = "The diff"

MOVE = (
    Key(("tab",), "tab", "next_needing", "next open", "to the next change that is undecided or in conflict",
        Topic.MOVE, line=5, disabled_reason=next_open_disabled_reason),
    Key(("shift+tab",), "shift+tab", "previous_needing", "previous open", "to the previous one", Topic.MOVE,
        disabled_reason=next_open_disabled_reason),
)  # fmt: skip

DECIDE = (
    Key(("y",), "y", "keep", "keep", "keep it: it will be published; on a group all but what weakens a test",
        _DECIDE, line=1,
        disabled_reason=keep_disabled_reason),
    Key(("x",), "x", "revert", "revert", "revert it: drop it from the branch; first lists the changes that need it and "
        "the conflicts that this unblocks", _DECIDE, line=2, disabled_reason=revert_disabled_reason, opens=True),
    Key(("u",), "u", "undecide", "undecided", "make it undecided: applied, so that it can be seen and tested, but not "
        "published", _DECIDE, line=3, disabled_reason=undecide_disabled_reason),
    Key(("Y",), "Y", "keep_many", "keep many", "keep all of its agents, of its kind, of its files, or all that are "
        "shown; lists them first", _DECIDE, disabled_reason=targets_disabled_reason, opens=True),
    Key(("X",), "X", "revert_many", "revert many", "revert many: the same choice", _DECIDE,
        disabled_reason=targets_disabled_reason, opens=True),
    Key(("U",), "U", "undecide_many", "many undecided", "make many undecided: the same choice", _DECIDE,
        disabled_reason=targets_disabled_reason, opens=True),
    Key(("b",), "b", "pick", "choose text", "choose the text that is marked on 5; the others of the row stay left out",
        _DECIDE, disabled_reason=choose_disabled_reason),
    Key(("dollar_sign",), "$", "apart", "set apart", "set the text that is marked on 5 apart, as a row of its own; on "
        "such a row: put it back", _DECIDE, disabled_reason=apart_disabled_reason),
    Key(("number_sign",), "#", "note", "note", "write a note about it, for the text of the pull request", _DECIDE,
        line=10, disabled_reason=change_disabled_reason, opens=True),
    Key(("z",), "z", "undo", "undo", "undo the last decision; all of them can be undone, after a restart too", _DECIDE,
        line=4, disabled_reason=undo_disabled_reason),
    Key(("Z",), "Z", "redo", "redo", "redo what was undone", _DECIDE, disabled_reason=redo_disabled_reason),
)  # fmt: skip

BRANCH = (
    Key(("ctrl+j",), "^j", "move_down", "move down", "move the commit one place down", _BRANCH,
        disabled_reason=move_disabled_reason),
    Key(("ctrl+k",), "^k", "move_up", "move up", "move the commit one place up", _BRANCH,
        disabled_reason=move_disabled_reason),
    Key(("C",), "C", "conflicts", "conflict", "its conflict: base, ours, theirs; once resolved also what is applied",
        _BRANCH, line=8,
        disabled_reason=conflict_disabled_reason),
    Key(("E",), "E", "edit", "resolve", "resolve its conflicts in your editor (VISUAL or EDITOR), on copies; "
        "your checkout is not touched", _BRANCH, line=9, disabled_reason=resolve_disabled_reason),
    Key(("A",), "A", "integrate", "ask agents", "ask agents to resolve this conflict, or all, or for one change "
        "instead of the texts of a row; shows the plan of that run first; answers are used where all their tests pass",
        _BRANCH,
        disabled_reason=integrate_disabled_reason, opens=True),
    Key(("B",), "B", "rebase", "rebase", "rebase onto the updated base, or back onto the review's own base", _BRANCH,
        line=12, disabled_reason=rebase_disabled_reason),
    Key(("P",), "P", "publish", "publish", "publish what is kept as a branch; lists it first",
        _BRANCH, line=6, disabled_reason=publish_disabled_reason),
    Key(("O",), "O", "pull_request", "PR text", "the text of the pull request; from there gh opens it", _BRANCH,
        line=13, disabled_reason=publish_disabled_reason, opens=True),
    Key(("c",), "c", "copy", "copy commit", "copy the id of its commit", _BRANCH,
        disabled_reason=change_disabled_reason),
    Key(("m",), "m", "message", "message", "send its author the selected hunk and your note", _BRANCH, line=14,
        disabled_reason=message_disabled_reason, opens=True),
)  # fmt: skip

SHAPE = (
    Key(("space",), "space", "mark", "mark", "mark this change for a squash, or unmark it", _SHAPE, Where.TABLE,
        disabled_reason=change_disabled_reason),
    Key(("left_parenthesis",), "(", "squash", "squash", "squash the marked changes into one commit; without marks "
        "this one and the one above it", _SHAPE, disabled_reason=squash_disabled_reason),
    Key(("right_parenthesis",), ")", "unsquash", "own commit", "give it a commit of its own again", _SHAPE,
        disabled_reason=unsquash_disabled_reason),
    Key(("asterisk",), "*", "select_hunk", "select hunk", "select this hunk for a split, or unselect it (so does a "
        "double click)", _SHAPE, disabled_reason=select_hunk_disabled_reason),
    Key(("percent_sign",), "%", "split", "split", "split it: keep the selected hunks only, split them off, or by file; "
        "or make it whole again", _SHAPE, disabled_reason=split_disabled_reason, opens=True),
    Key(("ctrl+w",), "^w", "reword", "reword", "write the message of its commit, in your editor (VISUAL or EDITOR) if "
        "there is one; authors and trailers stay", _SHAPE, disabled_reason=change_disabled_reason, opens=True),
)  # fmt: skip

VERIFY = (
    Key(("v",), "v", "verify", "verify", "run the tests of the branch in the background, after a yes: agents' code "
        "runs here; again: whole suite, exactly what is kept, cancel", _VERIFY, line=6,
        disabled_reason=verify_disabled_reason, opens=True),
    Key(("H",), "H", "pause", "pause", "pause the verification, or go on; results are kept", _VERIFY,
        disabled_reason=pause_disabled_reason),
    Key(("ctrl+g",), "^g", "culprit", "culprit", "to the change that breaks a test of this one, or whose test it "
        "breaks; else to its red test", _VERIFY, disabled_reason=culprit_disabled_reason),
)  # fmt: skip

FIND = (
    Key(("slash",), "/", "filter", "filter", "show only changes that match: words, is:undecided is:conflict is:new "
        "is:empty is:alternatives is:liar is:culprit is:flaky is:unverified kind:test agent:NAME file:PATH, /REGEX/; "
        "! inverts",
        Topic.FIND, line=7),
    Key(("ampersand",), "&", "filter_by", "filter by", "choose a filter from a list", Topic.FIND,
        disabled_reason=targets_disabled_reason,
        opens=True),
    Key(("a",), "a", "only_needing", "only open", "show only what is undecided or in conflict, or all again",
        Topic.FIND, line=11),
    Key(("o",), "o", "sort", "sort", "sort the changes of each group by a column, on the screen alone: the branch "
        "keeps its order; the same again reverses (mouse: the column's title)", Topic.FIND, opens=True),
    Key(("escape",), "esc", "back", "back", "close a zoomed pane, then clear the filter, then back to where you came "
        "from", Topic.FIND),
)  # fmt: skip

DIFF = (
    Key(("full_stop",), ".", "next_hunk", "next hunk", "to the next hunk", _DIFF,
        disabled_reason=hunk_disabled_reason),
    Key(("comma",), ",", "previous_hunk", "previous hunk", "to the previous hunk", _DIFF,
        disabled_reason=hunk_disabled_reason),
    Key(("greater_than_sign",), ">", "next_file", "next file", "to the next file", _DIFF,
        disabled_reason=diff_disabled_reason),
    Key(("less_than_sign",), "<", "previous_file", "previous file", "to the previous file", _DIFF,
        disabled_reason=diff_disabled_reason),
    Key(("apostrophe",), "'", "fold_hunk", "fold hunk", "fold this hunk, or unfold it", _DIFF,
        disabled_reason=hunk_disabled_reason),
    Key(("quotation_mark",), '"', "fold_file", "fold file", "fold this file, or unfold it", _DIFF,
        disabled_reason=diff_disabled_reason),
    Key(("vertical_line",), "|", "sides", "side by side", "side by side, or in one column; at first the width decides",
        _DIFF, disabled_reason=diff_disabled_reason),
    Key(("tilde",), "~", "search_text", "search", "search in this diff", _DIFF, disabled_reason=hunk_disabled_reason),
    Key(("n",), "n", "next_hit", "next match", "to the next match; on 5 to the next text", _DIFF,
        disabled_reason=match_disabled_reason),
    Key(("N",), "N", "previous_hit", "previous match", "to the previous match; on 5 to the previous text", _DIFF,
        disabled_reason=match_disabled_reason),
    Key(("ctrl+y",), "^y", "copy_diff", "copy diff", "copy this diff as a patch", _DIFF,
        disabled_reason=hunk_disabled_reason),
    Key(("equals_sign",), "=", "original", "original", "the agent's own commit instead of what is applied, where a "
        "resolution or a merge made them differ; and back", _DIFF, disabled_reason=original_disabled_reason),
)  # fmt: skip

LOOK = (
    Key(("enter",), "⏎", "open", "look", "the right pane over the whole screen, and back (on a group: open or close "
        "it)", Topic.LOOK, Where.TABLE),
    Key(("1",), "1", "show_diff", "diff", "what it changes", Topic.LOOK),
    Key(("2",), "2", "show_members", "commits", "the commits that make this change, and their agents", Topic.LOOK),
    Key(("3",), "3", "show_evidence", "evidence", "its agent's words around the selected hunk; reports of its agents, "
        "tests, conversations and recordings", Topic.LOOK),
    Key(("4",), "4", "show_needs", "needs", "what it needs, what needs it, and what it is in conflict with",
        Topic.LOOK),
    Key(("5",), "5", "show_alternatives", "texts", "the changes that say the same in other words, and the marked one "
        "beside the chosen one; a click marks one", Topic.LOOK),
    Key(("6",), "6", "show_tests", "tests", "its tests before and after, their runs and output", Topic.LOOK),
    Key(("right_square_bracket",), "]", "next_tab", "next tab", "to the next of these", Topic.LOOK),
    Key(("left_square_bracket",), "[", "previous_tab", "previous tab", "to the previous one", Topic.LOOK),
)  # fmt: skip

GO = (
    Key(("f",), "f", "fleet", "fleet", "to the fleet; decisions are kept", Topic.GO, line=15),
    Key(("r",), "r", "replay", "replay", "play the recording of its agent at the moment that the selected hunk was "
        "made; on 6 at its own run of the red test; esc comes back", Topic.GO,
        disabled_reason=replay_disabled_reason),
    Key(("ctrl+o",), "^o", "report", "report", "write the report, a page for the browser, and open it there", Topic.GO),
    Key(("R",), "R", "refresh", "refresh", "look for new commits and moved branches, now", Topic.PROGRAM),
)  # fmt: skip

REVIEW = KeyTable("Review", MOVE + DECIDE + BRANCH + SHAPE + VERIFY + FIND + DIFF + LOOK + GO, SPLIT)

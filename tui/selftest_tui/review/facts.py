"""Texts of a review's right pane beside the diff: commits, evidence, dependencies and conflicts, similar changes. Pure.

Texts of commits and agents are made harmless here: they become `Content`, never markup.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.content import Content

from selftest_core.frozen import dataclass
from selftest_core.review.candidate_branch import Decision, Status
from selftest_tui.review import words as review_words
from selftest_tui.review.lines import subject_of
from selftest_tui.shared import present
from selftest_tui.shared.keys import shown
from selftest_tui.shared.widgets.screen_text import block

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from selftest_core.review.changes.collect_changes import Source
    from selftest_core.review.conflict_files import ConflictFile
    from selftest_core.review.evidence import Evidence
    from selftest_core.review.resolutions import Answer
    from selftest_core.review.state import ReviewState
    from selftest_recorder.index.moments import Moment
    from selftest_tui.review.lines import ReviewGroup, ReviewRow

MUTED, HEAD = "$foreground-muted", "bold $primary"
MOST_LISTED = 200
MOST_LINES_OF_A_SIDE = 400
_MOST_OF_A_MESSAGE = 4_000

type Pieces = list[str | tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Conflicts:
    """The conflicts of a change; `error` tells why they could not be read."""

    files: tuple[ConflictFile, ...] = ()
    error: str = ""


def headline(row: ReviewRow, difference: str = "") -> Content:
    """Return what to look at first, the rank of a change with its reason, and the claims about its tests.

    `difference`: a note about a change that is applied otherwise than its agent committed it.
    """
    place = f"ranked {present.ordinal(row.number)}: " if row.number else "in the common commit: "
    if row.number and row.number != row.ranked:
        place = f"moved to {present.ordinal(row.number)}, ranked {present.ordinal(row.ranked)}: "
    claimed = review_words.claim(row)
    tests = present.plural(row.tests, "test")
    said = f"claimed {claimed} {tests}" if claimed else "no tests claimed"
    cautions = row.change.cautions
    checks: Pieces = [(f"{difference}\n", "$text-warning")] if difference else []
    if row.others:
        differ = ", and their verdicts differ" if row.differing else ""
        words = (
            f"{review_words.texts(row)} say the same{differ} ({shown('review.show_alternatives', '5')} shows them)\n"
        )
        checks.append((words, "$text-warning" if differ else "bold"))
    for words in cautions[:1]:
        more = (
            f" (and {len(cautions) - 1} more: {shown('review.show_members', '2')} shows them)"
            if len(cautions) > 1
            else ""
        )
        checks.append((f"check: {present.clean(words)}{more}\n", "$text-warning"))
    pieces: Pieces = [
        *checks, (place, MUTED), present.clean(row.why) or "in the order of the branch", "\n",
        said, *verdict_pieces(row),
    ]  # fmt: skip
    return Content.assemble(*pieces)


def verdict_pieces(row: ReviewRow) -> Pieces:
    """Return our verdict in words, with its marks and its reason."""
    if row.verdict is None or row.decision is Decision.REVERT:
        return [(" · being verified" if row.is_verifying else " · not verified", MUTED)]
    verdict = row.verdict
    style = {"success": "$text-success", "error": "$text-error", "warning": "$text-warning"}.get(
        review_words.VERIFIED_STYLES[verdict.verified], MUTED
    )
    final = "" if row.is_settled else ", not final"
    pieces: Pieces = [
        (" · verified ", MUTED),
        (f"{review_words.VERIFIED[verdict.verified]} {verdict.verified}{final}", style),
    ]
    if verdict.marks:
        pieces.append((f" · {', '.join(verdict.marks)}", "$text-warning"))
    if verdict.reason:
        pieces += ["\n", present.clean(verdict.reason)]
    return pieces


# commits


def members(row: ReviewRow, answers: Sequence[Answer] = ()) -> Content:
    """Return the commits that make this change, the applied one first. `answers`: its resolved conflicts."""
    sources = sorted(row.change.sources, key=lambda source: source.oid != row.oid)
    pieces: Pieces = []
    _title(pieces, f"{present.plural(len(sources), 'commit')} of {present.plural(len(row.change.agents), 'agent')}")
    for source in sources[:MOST_LISTED]:
        _source(pieces, source, is_applied=source.oid == row.oid)
    _rest(pieces, len(sources))
    part = row.change.part
    if part is not None:
        _title(pieces, f"part {part.number} of {part.count} of {part.of[:10]}")
        how = f"{shown('review.split', '%')} makes it whole again, or splits the part."
        pieces.append((f"The change was split here; {how}\n", MUTED))
    if row.others:
        _title(pieces, f"the same in other words, not applied: {present.plural(len(row.others), 'text')}")
        for one in row.others[:MOST_LISTED]:
            agents = ", ".join(present.clean(agent) for agent in one.agents[:5])
            pieces += [
                (f"{one.oid[:10]} ", MUTED),
                f"{subject_of(one)} ",
                (f"· {agents}{', …' if len(one.agents) > 5 else ''}\n", MUTED),
            ]
    if answers:
        _title(pieces, "applied with a resolution, so not as its agent committed it")
        pieces += [f"{present.clean(one.path)}{_resolved_by(one)}\n" for one in answers[:MOST_LISTED]]
        how = (
            f"{shown('review.show_diff', '1')} shows what is applied, {shown('review.original', '=')} there its "
            f"agent's commit; {shown('review.show_needs', '4')} shows all sides."
        )
        pieces.append((f"{how}\n", MUTED))
    _weakenings(pieces, row)
    _title(pieces, "message")
    pieces += [block(row.change.commit.text.strip(), _MOST_OF_A_MESSAGE), "\n"]
    _title(pieces, present.plural(len(row.change.paths), "file"))
    for path in row.change.paths[:MOST_LISTED]:
        sign = "+" if path.before is None else "-" if path.after is None else " "
        pieces.append(f"{sign} {present.clean(path.path)}\n")
    _rest(pieces, len(row.change.paths))
    return Content.assemble(*pieces)


def _resolved_by(answer: Answer) -> str:
    if answer.agent:
        return f": resolved by {present.clean(answer.agent)}"
    return {"memory": ": as resolved in an earlier review", "union": ": both sides kept"}.get(
        answer.by, ": resolved here"
    )


def _weakenings(pieces: Pieces, row: ReviewRow) -> None:
    """Add the lines by which a change makes a test easier to pass."""
    found = row.change.weakenings
    if found:
        _title(pieces, "weakens a test")
    for one in found[:MOST_LISTED]:
        pieces.append((f"{present.clean(one.place)}: {present.clean(one.what)}\n", "$text-warning"))
        before, after = (one.text, "") if one.was_deleted else (one.old_text, one.text)
        if before:
            pieces.append((f"- {present.clean(before.expandtabs(4))}\n", "$text-error"))
        if after:
            pieces.append((f"+ {present.clean(after.expandtabs(4))}\n", "$text-success"))
    _rest(pieces, len(found))


def _source(pieces: Pieces, source: Source, *, is_applied: bool) -> None:
    who = source.commit.author.decode("utf-8", "replace").rpartition(" <")[0]
    stated = f" · importance {present.clean(source.importance)}" if source.importance else ""
    pieces += [
        (f"{source.oid[:10]} ", MUTED), present.clean(source.agent),
        (f" · {present.clean(who)}{stated}{' · applied' if is_applied else ''}\n", MUTED),
    ]  # fmt: skip


def group_members(group: ReviewGroup) -> Content:
    """Return the changes of a group with their decisions."""
    pieces: Pieces = []
    _title(pieces, f"{group.title}: {len(group.members)}")
    for row in group.members[:MOST_LISTED]:
        pieces += [*_named(row), "\n"]
    _rest(pieces, len(group.members))
    pieces += [
        "\n",
        (
            f"{shown('review.keep', 'y')}, {shown('review.revert', 'x')} and {shown('review.undecide', 'u')} decide on "
            f"all of them, but {shown('review.keep', 'y')} keeps none that weakens a test; move to one to decide on "
            "it.",
            MUTED,
        ),
    ]
    return Content.assemble(*pieces)


# evidence


def evidence(row: ReviewRow, told: Mapping[str, Evidence], note: str, moment: Moment | None = None) -> Content:
    """Return the words around the selected hunk, the reports of the agents, and the places of their files."""
    pieces: Pieces = []
    if moment is not None:
        _around(pieces, moment)
    if note:
        _title(pieces, "your note")
        pieces += [block(note), "\n"]
    found = [(agent, told[agent]) for agent in row.change.agents if agent in told]
    for agent, one in found[:20]:
        end = f"  {present.clean(one.end)}" if one.end else ""
        _title(pieces, f"{present.clean(agent)}{end}")
        if one.importance:
            why = f": {present.clean(one.why_important)}" if one.why_important else ""
            pieces.append(f"importance {present.clean(one.importance)}{why}\n")
        for test, passes in one.tests[:MOST_LISTED]:
            sign = {True: review_words.CLAIMED, False: review_words.CLAIMED_RED, None: "·"}[passes]
            pieces += [f"{sign} {present.clean(test)}", (" claimed\n", MUTED)]
        if one.words:
            pieces += [block(one.words.strip(), _MOST_OF_A_MESSAGE), "\n"]
        files = (("outcome", one.outcome), ("transcript", one.transcript), ("conversation", one.conversation))
        for label, path in files:
            if path is not None:
                pieces += [(f"{label}  ", MUTED), f"{present.clean(str(path))}\n"]
        for path in one.recordings:
            pieces += [
                (f"recording ({shown('review.replay', 'r')} plays it)  ", MUTED),
                f"{present.clean(str(path))}\n",
            ]
        if one.said:
            pieces += [("the end of its conversation\n", MUTED), block(one.said.strip()), "\n"]
    if not found:
        agents = ", ".join(present.clean(agent) for agent in row.change.agents[:5])
        pieces += [("Nothing but the commits was collected from ", MUTED), agents, (".", MUTED)]
    elif len(found) > 20:
        _rest(pieces, len(found), 20)
    return Content.assemble(*pieces)


def _around(pieces: Pieces, moment: Moment) -> None:
    """Add an agent's words around a moment, and what `r` plays."""
    words = moment.words
    what = {
        "tool call": "how the selected hunk was made",
        "marker": "around its commit",
        "commit": "around the date of its commit",
    }[moment.source]
    _title(pieces, f"{what} · {present.clean(moment.agent)}")
    for text, style in ((words.before, ""), (words.call, "$text-accent"), (words.after, "")):
        if text:
            pieces += [(str(block(text, _MOST_OF_A_MESSAGE)), style), "\n"]
    if not (words.before or words.call or words.after):
        pieces.append(("No conversation of it was kept.\n", MUTED))
    if moment.time is not None and moment.recording is not None:
        pieces.append(
            (
                f"{shown('review.replay', 'r')} plays {present.clean(moment.recording.name)} "
                f"at {present.duration(moment.time)}\n",
                MUTED,
            )
        )
    else:
        pieces.append(("Nothing was recorded at that moment.\n", MUTED))


# dependencies and conflicts


def needs(row: ReviewRow, state: ReviewState, rows: Mapping[str, ReviewRow], conflicts: Conflicts | None) -> Content:
    """Return the dependencies of a change, and its conflicts with both sides."""
    dependents = state.reviewed.dependents
    needed = [oid for oid, others in dependents.needed_by.items() if row.oid in others]
    pieces: Pieces = []
    _listed(pieces, "needs", needed, rows)
    _listed(pieces, "needed by", dependents.needed_by.get(row.oid, ()), rows)
    _listed(pieces, "in conflict with it: reverting it unblocks", dependents.lets_in.get(row.oid, ()), rows)
    placed = next((one for one in state.reviewed.line.items if one.item.oid == row.oid), None)
    if placed is not None and placed.status is Status.HELD:
        paths = {conflict.path for conflict in placed.conflicts}
        before = [one.item.oid for one in state.reviewed.line.items if one.status is Status.LAID]
        ahead = {one.oid: at for at, one in enumerate(state.reviewed.order)}
        meets = [
            oid
            for oid in before
            if ahead[oid] < ahead[row.oid] and any(path.path in paths for path in rows[oid].change.paths)
        ]
        _listed(pieces, "applied before it in the same files", meets, rows)
        _title(pieces, f"conflicts in {present.plural(len(placed.conflicts), 'file')}")
        for conflict in placed.conflicts[:MOST_LISTED]:
            pieces.append(f"{present.clean(conflict.path)}\n")
            pieces += [(f"  {present.clean(words)}\n", MUTED) for words in conflict.messages]
        _integration(pieces, state, row)
        pieces += [
            (
                f"{shown('review.edit', 'E')} resolves it in your editor; {shown('review.integrate', 'A')} "
                f"asks an agent; ^j ^k change the order; {shown('review.revert', 'x')} reverts it.\n",
                MUTED,
            )
        ]
        if conflicts is None:
            pieces += [("\nReading both sides …", MUTED)]
        else:
            _sides(pieces, conflicts)
    if placed is not None and placed.answers:
        _title(pieces, f"conflict resolved in {present.plural(len(placed.answers), 'file')}")
        for one in placed.answers[:MOST_LISTED]:
            pieces.append(f"{present.clean(one.path)}{_resolved_by(one)}\n")
        for one in placed.answers[:20]:
            _side(pieces, f"{present.clean(one.path)} · as applied", one.content)
        if conflicts is not None:
            _sides(pieces, conflicts)
    if not pieces:
        pieces.append(("It needs no other change, no other change needs it, and it has no conflict.", MUTED))
    return Content.assemble(*pieces)


def _integration(pieces: Pieces, state: ReviewState, row: ReviewRow) -> None:
    """Add which agent works on a conflict, or why its answer was refused."""
    found = state.integrations.by_change.get(row.oid)
    if found is None or (found.is_ended and not found.reason):
        return
    agent, run = present.clean(found.agent), present.clean(found.run)
    if found.is_ended:
        pieces += [(f"{agent} answered (run {run}), and it stays in conflict: ", MUTED)]
        pieces += [(f"{present.clean(found.reason)}\n", "$text-warning")]
    else:
        says = f": {row.integrating}" if row.integrating else ""
        pieces.append(f"{agent} of run {run} resolves it{says}\n")
        if row.integrating == "no conductor":
            pieces.append((f"`selftest-tui resume {run}` continues that run.\n", "$text-warning"))


def _sides(pieces: Pieces, conflicts: Conflicts) -> None:
    if conflicts.error:
        pieces.append((f"\n{present.clean(conflicts.error)}", "$text-warning"))
    for file in conflicts.files[:20]:
        path = present.clean(file.path)
        if not file.is_text:
            _title(pieces, f"{path}: not text, so its sides cannot be shown")
            continue
        if file.merged is not None:
            _title(pieces, f"{path} · conflict")
            for line in _regions(file.merged, file.marker):
                is_mark = line[: file.marker] in {sign * file.marker for sign in "<|=>"}
                pieces.append((f"{present.clean(line.expandtabs(4))}\n", "$text-warning" if is_mark else ""))
        for name, side in (("base", file.base), ("ours: the branch so far", file.ours), ("theirs", file.theirs)):
            _side(pieces, f"{path} · {name}", side)


def _side(pieces: Pieces, title: str, side: bytes | None) -> None:
    """Add the text of a file, None where there is no such file."""
    _title(pieces, title)
    if side is None:
        pieces.append(("no such file\n", MUTED))
        return
    if b"\0" in side[:8000]:
        pieces.append(("not text\n", MUTED))
        return
    lines = side.decode("utf-8", "replace").splitlines()
    pieces += [f"{present.clean(line.expandtabs(4))}\n" for line in lines[:MOST_LINES_OF_A_SIDE]]
    _rest(pieces, len(lines), MOST_LINES_OF_A_SIDE)


def _regions(merged: bytes, marker: int) -> list[str]:
    """Return the lines between conflict markers, with two lines around each conflict."""
    lines = merged.decode("utf-8", "replace").splitlines()
    kept: set[int] = set()
    is_inside = False
    for number, line in enumerate(lines):
        begins, ends = line.startswith("<" * marker), line.startswith(">" * marker)
        is_inside = is_inside or begins
        if is_inside:
            kept.update(range(max(0, number - 2), min(len(lines), number + 3)) if begins or ends else (number,))
        is_inside = is_inside and not ends
    return [lines[number] for number in sorted(kept)[:MOST_LINES_OF_A_SIDE]]


# parts


def _named(row: ReviewRow) -> Pieces:
    status = f"{review_words.STATUSES[row.status]} " if row.status in (Status.HELD, Status.VOID) else ""
    sign = review_words.DECISIONS[row.decision]
    style = {Decision.KEEP: "$text-success", Decision.REVERT: "$text-error", Decision.UNDECIDED: MUTED}[row.decision]
    number = f"{row.number:>3} " if row.number else "    "
    status = f"{review_words.WEAKENS} {status}" if row.weakens else status
    return [(f"{sign} ", style), (f"{status}{number}", MUTED), subject_of(row.change)]


def _listed(pieces: Pieces, title: str, oids: Iterable[str], rows: Mapping[str, ReviewRow]) -> None:
    found = [rows[oid] for oid in oids if oid in rows]
    if not found:
        return
    _title(pieces, f"{title} ({len(found)})")
    for row in found[:MOST_LISTED]:
        pieces += [*_named(row), "\n"]
    _rest(pieces, len(found))


def _title(pieces: Pieces, words: str) -> None:
    if pieces:
        pieces.append("\n")
    pieces.append((f"{words}\n", HEAD))


def _rest(pieces: Pieces, count: int, most: int = MOST_LISTED) -> None:
    if count > most:
        pieces.append((f"… and {count - most:,} more\n", MUTED))

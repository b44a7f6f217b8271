"""Changes that are split, squashed and reworded: acts like others, the same in the decisions file, and published."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from core.review.desks import ALL, environ, looks, make_desk, oid, opened, status
from selftest_core.errors import UsageError
from selftest_core.git.diffs import read_diff
from selftest_core.review.batch import BatchResult, review
from selftest_core.review.candidate_branch import Decision, Status
from selftest_core.review.changes.inputs import Request
from selftest_core.review.changes.kinds import Kind
from selftest_core.review.changes.messages import reworded_message, squashed_message
from selftest_core.review.changes.parts import PartSpec
from selftest_core.review.repository import open_log
from selftest_core.schema.review import review_document

if TYPE_CHECKING:
    from core.review.repositories import Repository
    from selftest_core.review.changes.collect_changes import Change
    from selftest_core.review.session import ReviewSession
    from selftest_core.review.state import ReviewState

DOCS = Path(__file__).parents[3] / "docs/reviews.md"
TEXT = "".join(f"line {number}\n" for number in range(30))
EDITED = TEXT.replace("line 3\n", "three\n").replace("line 20\n", "twenty\n")


@pytest.fixture
def desk(tmp_path: Path) -> Repository:
    """Ada, bob and eve, each with a test and a fix; zoe with a change of two hunks, a test and a page."""
    made = make_desk(tmp_path / "a desk")
    made.commit("A long file", {"src/long.py": TEXT})
    made.git("checkout", "-q", "-b", "zoe")
    made.commit(
        "[FIX_IMPL] Tidy up\n\nReviewed-by: Max <max@example.org>",
        {"src/long.py": EDITED, "tests/test_long.py": "x\n", "docs/long.md": "# Long\n"},
        "zoe",
    )
    made.git("checkout", "-q", "main")
    return made


WITH_ZOE = Request((*ALL.targets, "zoe"), base="main")


def parts(state: ReviewState) -> list[Change]:
    """The parts of the changes that are split, by their numbers."""
    found = [(change.part.number, change) for change in state.reviewed.order if change.part is not None]
    return [change for _, change in sorted(found, key=lambda one: one[0])]


def by_decisions(desk: Repository, decisions: object, publish: str | None = None) -> BatchResult:
    path = desk.folder.parent / "decisions.json"
    path.write_text(json.dumps(decisions))
    request = Request(WITH_ZOE.targets, base="main", decisions=path, publish=publish)
    return review(request, desk.folder, environ(desk))


def hunks(session: ReviewSession, change: str, path: str) -> list[str]:
    with session.open_reader() as engine:
        return [hunk.id for file in read_diff(engine.store, change) if file.path == path for hunk in file.hunks]


def test_one_hunk_is_kept_alone_and_comes_back_by_one_undo(desk: Repository) -> None:
    zoe = oid(desk, "zoe")
    with opened(desk, WITH_ZOE) as session:
        before = looks(session.state)
        first, second = hunks(session, zoe, "src/long.py")
        state = session.split(zoe, (PartSpec(hunks=(("src/long.py", (second,)),)),), keep=(1,))
        kept, rest = parts(state)
        assert [state.reviewed.decided[one.oid] for one in (kept, rest)] == [Decision.KEEP, Decision.REVERT]
        assert state.undo_text == "keep 1 of 2 parts of “[FIX_IMPL] Tidy up”"
        assert looks(session.undo()) == before
        state = session.redo()
        session.publish("one-hunk")
        tip = state.reviewed.line.tip
    assert desk.git("show", "one-hunk:src/long.py") + "\n" == TEXT.replace("line 20\n", "twenty\n")
    assert desk.git("diff", "--name-only", "main", "one-hunk") == "src/long.py"
    for decisions in (None, state.home / "decisions.json"):
        request = Request(WITH_ZOE.targets, base="main", decisions=decisions)
        assert review(request, desk.folder, environ(desk)).reviewed.line.tip == tip, "without a screen too"
    with opened(desk, WITH_ZOE) as session:
        assert session.state.reviewed.line.tip == tip, "after a restart too"
        assert json.loads((session.state.home / "decisions.json").read_text())["splits"] == {
            zoe: [{"hunks": {"src/long.py": [second]}}]
        }
        assert looks(session.undo()) == before
        assert first != second


def test_parts_have_the_decision_of_the_change_and_kinds_of_their_own(desk: Repository) -> None:
    zoe = oid(desk, "zoe")
    with opened(desk, WITH_ZOE) as session:
        session.decide([zoe], Decision.KEEP)
        session.note(zoe, "why")
        state = session.split(zoe, (PartSpec(files=("tests/test_long.py",)), PartSpec(files=("docs/long.md",))))
        assert [one.kind for one in parts(state)] == [Kind.TEST, Kind.DOCS, Kind.IMPLEMENTATION]
        assert {state.reviewed.decided[one.oid] for one in parts(state)} == {Decision.KEEP}
        assert list(state.notes.values()) == ["why"]
        test, page, _ = parts(state)
        joint = {status(state, one.oid) for one in (test, page)}
        commits = {placed.item.oid: placed.commit for placed in state.reviewed.line.items}
        assert joint == {Status.LAID}
        assert commits[test.oid] == commits[page.oid] == state.reviewed.line.joint_commit
        state = session.decide([page.oid], Decision.REVERT)
        assert [state.reviewed.decided[one.oid] for one in parts(state)].count(Decision.KEEP) == 2
        state = session.decide([zoe], Decision.UNDECIDED)
        assert {state.reviewed.decided[one.oid] for one in parts(state)} == {Decision.UNDECIDED}, "it names them all"
        document = review_document(state.reviewed, None, None)
        assert [item.part_of for item in document.items if item.part_of] == [zoe] * 3
        state = session.split(zoe, None)
        assert not parts(state)
        with pytest.raises(UsageError, match="is not split"):
            session.split(zoe, None)


def test_whole_again_nothing_is_left_of_the_parts(desk: Repository) -> None:
    zoe, ada = oid(desk, "zoe"), oid(desk, "ada")
    with opened(desk, WITH_ZOE) as session:
        session.decide([zoe], Decision.KEEP)
        session.note(ada, "a")
        before = looks(session.state)
        state = session.split(zoe, (PartSpec(files=("src/long.py",)),), keep=(1,))
        long, rest = parts(state)
        with pytest.raises(UsageError, match="is split already"):
            session.split(zoe, (PartSpec(files=("docs/long.md",)),))
        state = session.split(rest.oid, (PartSpec(files=("docs/long.md",)),))
        session.note(rest.oid, "gone")
        session.squash([long.oid, ada])
        session.reword(long.oid, "gone")
        session.move([long.oid], oid(desk, "bob"))
        state = session.split(zoe, None)
        assert state.missing == (), "no decision is about a commit that is no more"
        assert [set(group) for group in state.decisions.squash] == [{ada, zoe}]
        assert not state.decisions.messages
        assert state.reviewed.decided[zoe] is Decision.KEEP, "as before the split"
        assert dict(state.notes) == {ada: "a"}
        assert [len(one) for one in (state.decisions.splits, state.decisions.order)] == [0, state.total]
        state = session.squash([zoe])
        assert state.missing == ()
    with opened(desk, WITH_ZOE) as session:
        assert session.state.missing == ()
        while session.state.undo_text != "note on “[FIX_IMPL] Mend a”":
            session.undo()
        assert looks(session.state) == before


def test_squashed_changes_share_a_commit_and_are_reverted_one_by_one(desk: Repository) -> None:
    bob, ada, zoe = oid(desk, "bob"), oid(desk, "ada"), oid(desk, "zoe")
    with opened(desk, WITH_ZOE) as session:
        before = looks(session.state)
        state = session.decide([bob, ada, zoe], Decision.KEEP)
        state = session.squash([zoe, bob])
        commits = {placed.item.oid: placed.commit for placed in state.kept_line.items}
        assert commits[bob] == commits[zoe] != commits[ada]
        session.publish("squashed")
        message = desk.git("log", "-1", "--format=%an%n%B", "squashed^{/Tidy}")
        first, second = [change.oid for change in state.reviewed.order if change.oid in (bob, zoe)]
        authors = {bob: "bob", zoe: "zoe"}
        assert message.splitlines()[0] == authors[first]
        assert "[FIX_IMPL] Mend b" in message
        assert f"Co-authored-by: {authors[second]} <{authors[second]}@example.org>" in message
        assert message.splitlines().count("Reviewed-by: Max <max@example.org>") == 1
        state = session.decide([zoe], Decision.REVERT)
        assert next(one.commit for one in state.kept_line.items if one.item.oid == bob)
        session.publish("less")
        assert desk.git("log", "--format=%an %s", "main..less").splitlines().count("bob [FIX_IMPL] Mend b") == 1
        state = session.squash([bob])
        assert state.undo_text == "take “[FIX_IMPL] Mend b” out of its commit"
        assert state.decisions.squash == ()
        while session.state.undo_text:
            session.undo()
        assert looks(session.state) == before
        # Out of order, a test with its fix, and a third one that joins later.
        session.squash([ada, oid(desk, "ada~1")])
        state = session.squash([bob, ada])
        assert [len(group) for group in state.decisions.squash] == [3]
        order = [change.oid for change in state.reviewed.order]
        assert order.index(oid(desk, "ada~1")) < order.index(ada), "each before what it was made on"
        assert [placed.status for placed in state.reviewed.line.items].count(Status.HELD) == 1, "eve's only"


def test_a_message_is_replaced_and_trailers_stay(desk: Repository) -> None:
    zoe = oid(desk, "zoe")
    with opened(desk, WITH_ZOE) as session:
        before = looks(session.state)
        assert session.message(zoe) == "[FIX_IMPL] Tidy up"
        state = session.reword(zoe, "fix: tidy up\0 well \r\n\r\nAs asked.\n\n")
        change = next(one for one in state.reviewed.order if one.oid == zoe)
        assert change.subject == "fix: tidy up well"
        assert change.commit.text == "fix: tidy up  well\n\nAs asked.\n\nReviewed-by: Max <max@example.org>\n"
        session.decide([zoe], Decision.KEEP)
        session.publish("reworded", has_trailers=True)
        assert desk.git("log", "-1", "--format=%(trailers:only)", "reworded").splitlines()[:2] == [
            "Reviewed-by: Max <max@example.org>", f"Selftest-Run: {state.name}",
        ]  # fmt: skip
        session.undo()
        assert looks(session.undo()) == before
        assert session.reword(zoe, "  \n").undo_text == "", "the author's message is there already"
        session.squash([zoe, oid(desk, "bob")])
        state = session.reword(oid(desk, "zoe"), "Both\n\nSigned-off-by: Me <me@example.org>")
        session.decide([zoe, oid(desk, "bob")], Decision.KEEP)
        session.publish("both")
        lines = desk.git("log", "-1", "--format=%B", "both").splitlines()
        assert lines[:3] == ["Both", "", "Signed-off-by: Me <me@example.org>"]
        assert {"Reviewed-by: Max <max@example.org>"} < set(lines[3:])


@pytest.mark.parametrize(
    ("message", "text", "made"),
    [
        (b"Fix it\n", "fix: a", b"fix: a\n"),
        (b"\n\nCo-authored-by: Bob <b@x>\n", "Key: a", b"Key: a\n\nCo-authored-by: Bob <b@x>\n"),
        (b"A\n\nKey: one\n", "B\n\nKey: one", b"B\n\nKey: one\n"),
        (b"A\n\nKey: one\n", "Key: one\nKey: two", b"Key: one\nKey: two\n\nKey: one\n"),
        (b"A\n", "\n\n", b"(no message)\n"),
        (b"\xff\xfe\n", "a\ud800", b"a?\n"),
    ],
)
def test_messages_at_their_edges(message: bytes, text: str, made: bytes) -> None:
    assert reworded_message(message, text) == made
    assert squashed_message([message, message], [b"A <a> 1 +0000"] * 2, text) == made
    assert squashed_message([message], [b"A <a> 1 +0000"]) == message


def test_a_split_outlives_a_commit_that_arrives_again(desk: Repository) -> None:
    """Amy's commit is the same change, and is picked from then on: its parts are the same, and decided already."""
    zoe = oid(desk, "zoe")
    desk.git("checkout", "-q", "-b", "amy", "main")
    desk.git("checkout", "-q", "bob")
    request = Request((*WITH_ZOE.targets, "amy"), base="main")
    with opened(desk, request) as session:
        (change,) = [one for one in session.state.reviewed.order if one.oid == zoe]
        state = session.split(zoe, (PartSpec(files=("src/long.py",)),), keep=(1,))
        for date in range(1, 40):
            desk.git("checkout", "-q", "-B", "amy", "main")
            desk.git("checkout", "zoe", "--", ".")
            desk.git("commit", "-q", "-m", "[FIX_IMPL] Tidy up", env={"GIT_AUTHOR_DATE": f"{1700000000 + date} +0000"})
            if oid(desk, "amy") < zoe:
                break
        state = session.refresh()
        assert {one.part.of for one in parts(state) if one.part} == {oid(desk, "amy")}, "another commit is picked"
        assert [state.reviewed.decided[one.oid] for one in parts(state)] == [Decision.KEEP, Decision.REVERT]
        assert {one.agents for one in parts(state)} == {("zoe", "amy")}
        state = session.split(oid(desk, "amy"), None)
        assert not parts(state)
        assert change.paths


def test_a_split_that_fits_no_more_is_told_and_the_rest_goes_on(desk: Repository) -> None:
    zoe = oid(desk, "zoe")
    with opened(desk, WITH_ZOE) as session:
        session.decide([zoe], Decision.KEEP)
        home = session.state.home
    lost = [{"hunks": {"src/long.py": ["0" * 12]}}]
    with open_log(home) as journal:
        journal.append("split", 1.0, oid=zoe, parts=lost, items={}, says="split it")
        journal.append("split", 1.0, oid=zoe, parts=[{"lines": [3]}], items={}, says="of a later version")
        journal.append("squashed", 1.0, squash=[[zoe, zoe]], says="twice")
    with opened(desk, WITH_ZOE) as session:
        assert session.state.missing == (zoe,)
        assert session.state.reviewed.decided[zoe] is Decision.KEEP
        assert session.undo().missing == ()


@pytest.mark.parametrize(
    ("decisions", "words"),
    [
        ({"splits": {"ZOE": [{"hunks": {"src/long.py": ["0" * 12]}}]}}, "has no hunk"),
        ({"splits": {"ZOE": [{"files": ["src/long.py", "tests/test_long.py", "docs/long.md"]}]}}, "has all of it"),
        ({"splits": {"ZOE": []}}, "a split is a list of parts"),
        ({"splits": {"ZOE": [{"files": []}]}}, "no file and no hunk"),
        ({"splits": {"f" * 40: [{"files": ["a"]}]}}, "is not in the plan"),
        ({"splits": {"ZOE": [{"files": ["docs/long.md"]}] * 2}}, "an earlier part has it"),
        ({"squash": [["ZOE", "ZOE"]]}, "is squashed twice"),
        ({"squash": [["ZOE", "BOB"], ["BOB", "ZOE"]]}, "is squashed twice"),
        ({"squash": [["ZOE"]]}, "fewer than two"),
        ({"squash": ["ZOE"]}, "list of lists"),
        ({"squash": [["ZOE", "f" * 40]]}, "is not in the plan"),
        ({"messages": {"ZOE": ""}}, "is empty"),
        ({"messages": {"ZOE": 3}}, "is no text"),
        ({"messages": {"f" * 40: "a"}}, "is not in the plan"),
    ],
)
def test_a_file_that_does_not_fit_is_refused(desk: Repository, decisions: dict[str, Any], words: str) -> None:
    text = json.dumps(decisions).replace("ZOE", oid(desk, "zoe")).replace("BOB", oid(desk, "bob"))
    with pytest.raises(UsageError, match=words):
        by_decisions(desk, json.loads(text), "never")
    assert "never" not in desk.git("branch", "--list")


def examples() -> list[str]:
    """The decisions files of the manual, each by the words that it is about."""
    return [text for text in re.findall(r"```json\n(.*?)```", DOCS.read_text(), re.DOTALL) if "default" in text]


def example(word: str, *ids: str) -> Any:
    (text,) = [text for text in examples() if f'"{word}"' in text]
    for name, one in zip(("<one full id>", "<another full id>"), ids, strict=False):
        text = text.replace(name, one)
    return json.loads(text)


def test_the_examples_of_the_manual_do_what_it_says(desk: Repository) -> None:
    zoe, bob = oid(desk, "zoe"), oid(desk, "bob")
    found = by_decisions(desk, example("splits", zoe), "split")
    assert [change.subject for change in found.reviewed.order].count("[FIX_IMPL] Tidy up") == 3
    with opened(desk, WITH_ZOE) as session:
        assert (
            example("splits")["splits"]["<one full id>"][1]["hunks"]["src/long.py"]
            == (hunks(session, zoe, "src/long.py")[:1])
        ), "the id of the manual is that of a hunk"
    by_decisions(desk, example("squash", zoe, bob), "squash")
    by_decisions(desk, example("messages", zoe), "messages")
    reworded = desk.git("log", "--format=%s", "main..messages").splitlines()
    assert "Tidy up the long file" in reworded
    assert desk.git("rev-list", "--count", "main..squash") == str(len(reworded) - 1)
    trees = {desk.git("rev-parse", f"{name}^{{tree}}") for name in ("split", "squash", "messages")}
    assert len(trees) == 1, "what is published is the same, in other commits"


def test_what_is_shaped_goes_with_the_chosen_text(desk: Repository) -> None:
    """Two texts of one fix: the chosen one is squashed, whichever it is, and its split goes where it is not chosen."""
    code = "def f(lines):\n    {0} = [one for one in lines if one]\n    {1}return len({0})\n"
    for agent, name, note in (("max", "found", ""), ("pia", "kept", "# Empty lines do not count.\n    ")):
        desk.git("checkout", "-q", "-b", agent, "main")
        desk.commit("[FIX_IMPL] Count lines", {"src/count.py": code.format(name, note), "docs/c.md": "# C\n"}, agent)
    desk.git("checkout", "-q", "main")
    one, other, bob = oid(desk, "max"), oid(desk, "pia"), oid(desk, "bob")
    with opened(desk, Request((*WITH_ZOE.targets, "max", "pia"), base="main")) as session:
        row = session.state.reviewed.row_of[one]
        assert set(row.members) == {one, other}
        before = looks(session.state)
        rival = next(iter(row.others))
        state = session.squash([row.chosen, bob])
        commits = {placed.item.oid: placed.commit for placed in state.reviewed.line.items}
        assert commits[row.chosen] == commits[bob]
        session.reword(bob, "Count, and mend b")
        state = session.choose(rival)
        commits = {placed.item.oid: placed.commit for placed in state.reviewed.line.items}
        assert (commits[rival], commits[row.chosen]) == (commits[bob], None)
        assert session.message(rival) == "Count, and mend b"
        session.undo()
        state = session.split(row.chosen, (PartSpec(files=("docs/c.md",)),), keep=(1,))
        page, code_part = parts(state)
        assert [status(state, part.oid) for part in (page, code_part)] == [Status.LAID, Status.DROPPED]
        assert session.state.kept_line.tree != session.state.plan.base
        session.undo()
        state = session.split(row.chosen, (PartSpec(files=("docs/c.md",)),))
        state = session.choose(rival)
        assert {status(state, part.oid) for part in parts(state)} == {Status.DROPPED}
        assert status(state, rival) is Status.LAID
        state = session.choose(parts(state)[0].oid)
        session.choose(parts(state)[1].oid, [rival])
        state = session.split(row.chosen, None)
        assert state.missing == ()
        assert state.reviewed.is_chosen(row.chosen)
        while session.state.undo_text:
            session.undo()
        assert looks(session.state) == before

"""Rows in a review: one member is applied and counted, and choosing, splitting and joining rows can be undone."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from core.review.desks import environ, looks, opened, status
from core.review.repositories import Repository
from selftest_core.errors import RefusedError, UsageError
from selftest_core.review.batch import review
from selftest_core.review.candidate_branch import Decision, Status
from selftest_core.review.changes.inputs import Request
from selftest_core.review.evidence import write_row_verdicts
from selftest_core.schema.review import review_document
from worlds import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from selftest_core.review.state import ReviewState

FILE = "def total(items):\n    return sum(items)\n\n\ndef name(user):\n    return user.name\n"
ALL = Request(("ada", "bob", "eve", "zoe"), base="main")
KEEP, REVERT, UNDECIDED = Decision


def guarded(fix: str) -> dict[str, str]:
    return {"cart.py": FILE.replace("    return sum", f"    if not items:\n{fix}    return sum")}


TEXTS = {
    "ada": guarded("        # empty\n        return 0\n"),
    "bob": guarded("        return 0\n"),
    "eve": guarded("        return  0  # none\n"),
    "zoe": {"cart.py": FILE.replace("user.name", "user.full_name")},
}


@pytest.fixture
def desk(tmp_path: Path) -> Repository:
    """Ada, bob and eve make one fix in three texts, bob's the smallest with eve's; zoe makes another one."""
    made = Repository.make(tmp_path / "a desk")
    made.commit("Start", {"cart.py": FILE})
    for agent, files in TEXTS.items():
        made.git("checkout", "-q", "-b", agent, "main")
        made.commit(f"Guard, by {agent}", files, agent)
    made.git("checkout", "-q", "main")
    return made


def oids(desk: Repository) -> dict[str, str]:
    return {agent: desk.git("rev-parse", agent) for agent in TEXTS}


def sights(state: ReviewState) -> tuple[object, ...]:
    return (*looks(state), {(row.id, row.members, row.chosen) for row in state.reviewed.row_of.values()})


def chosen(state: ReviewState) -> set[str]:
    return {change.agents[0] for change in state.reviewed.chosen}


def test_a_row_counts_once_and_only_its_chosen_member_is_applied_and_published(desk: Repository) -> None:
    of = oids(desk)
    with opened(desk, ALL) as session:
        state = session.state
        assert (state.total, state.open, state.held, state.decided) == (2, 2, 0, 0)
        row = state.reviewed.row_of[of["ada"]]
        assert set(row.members) == {of["ada"], of["bob"], of["eve"]}
        assert row.chosen in (of["bob"], of["eve"]), "the smallest"
        assert status(state, of["ada"]) is Status.DROPPED
        assert set(state.reviewed.agents_of(row.chosen)) == {"ada", "bob", "eve"}
        state = session.choose(of["ada"])
        assert (state.total, status(state, of["ada"]), status(state, row.chosen)) == (2, Status.LAID, Status.DROPPED)
        state = session.decide([of["ada"], of["zoe"]], KEEP)
        assert (state.open, state.decided, state.kept) == (0, 2, 2)
        text = session.pull_request().body
        assert "by `ada`, `" in text
        assert "chosen of 3 texts" in text
        assert "made by 4 agents" in text
        assert "## Reverted" not in text
        session.publish("done", has_trailers=True)
    message = desk.git("log", "--format=%B", "main..done", "--grep", "Guard, by ada")
    assert "Selftest-Agent: ada" in message
    assert "Selftest-Same-Intent: bob" in message
    assert "Selftest-Same-Intent: eve" in message
    assert "# empty" in desk.git("show", "done:cart.py")


def test_the_decision_on_a_row_goes_with_the_choice_and_each_act_is_undone_after_a_restart(desk: Repository) -> None:
    of = oids(desk)
    session = opened(desk, ALL)
    seen = [sights(session.state)]
    acts: tuple[Callable[[], ReviewState], ...] = (
        lambda: session.decide([of["bob"]], KEEP),
        lambda: session.choose(of["eve"]),
        lambda: session.set_apart(of["ada"]),
        lambda: session.decide([of["ada"]], REVERT),
        lambda: session.rejoin(of["ada"]),
        lambda: session.choose(of["zoe"], instead_of=[of["eve"]]),
        lambda: session.choose(of["ada"]),
    )
    for act in acts:
        state = act()
        seen.append(sights(state))
        if state.undo_text.startswith("choose “Guard, by eve"):
            assert state.reviewed.decided[of["eve"]] is KEEP
            assert chosen(state) == {"eve", "zoe"}
        if "apart" in state.undo_text:
            assert (chosen(state), state.total) == ({"ada", "eve", "zoe"}, 3)
    assert (chosen(state), state.total) == ({"ada"}, 1), "zoe's was joined"
    assert seen[5] == seen[2], "apart, and back again"
    assert all(one != two for one, two in pairwise(seen))
    for depth in reversed(range(len(seen) - 1)):
        session.close()
        session = opened(desk, ALL)
        assert sights(session.undo()) == seen[depth]
    session.close()
    with opened(desk, ALL) as session, pytest.raises(RefusedError, match="has no alternatives"):
        session.set_apart(of["zoe"])
    with opened(desk, ALL) as session, pytest.raises(RefusedError, match="is not apart"):
        session.rejoin(of["ada"])


def test_a_reverted_row_stays_reverted_when_another_text_arrives(desk: Repository) -> None:
    of = oids(desk)
    first = desk.git("rev-parse", "main")
    desk.git("branch", "-f", "bob", first)
    desk.git("branch", "-f", "eve", first)
    with opened(desk, ALL) as session:
        session.decide([of["ada"]], REVERT)
        before = session.state.reviewed.row_of[of["ada"]]
        assert before.members == (of["ada"],)
        desk.git("branch", "-f", "bob", of["bob"])
        state = session.refresh()
        row = state.reviewed.row_of[of["bob"]]
        assert (row.id, row.members, row.chosen) == (before.id, (of["ada"], of["bob"]), of["ada"])
        assert (status(state, of["bob"]), state.total, state.open) == (Status.DROPPED, 2, 1)
        session.decide([of["zoe"]], KEEP)
        desk.git("branch", "-f", "eve", of["eve"])
        state = session.refresh()
        assert (state.total, state.open, chosen(state)) == (2, 0, {"ada", "zoe"})
    with opened(desk, ALL) as session:
        assert session.state.reviewed.row_of[of["eve"]].id == before.id


@pytest.mark.parametrize(
    ("document", "laid"),
    [
        ({"default": "keep"}, {"bob or eve", "zoe"}),
        ({"items": {"ada": "keep"}, "default": "keep"}, {"ada", "zoe"}),
        ({"items": {"bob": "revert", "eve": "revert"}, "default": "keep"}, {"ada", "zoe"}),
        ({"items": {"bob": "revert", "eve": "revert", "ada": "revert"}, "default": "keep"}, {"zoe"}),
        ({"alternatives": {"bob": "ada"}, "default": "keep"}, {"ada", "zoe"}),
        ({"alternatives": {"ada": "ada"}, "items": {"ada": "revert"}, "default": "keep"}, {"zoe"}),
        ({"alternatives": {"bob": "eve", "zoe": "eve"}, "default": "keep"}, {"eve"}),
    ],
)
def test_decisions_files_choose_and_those_of_yesterday_go_on_to_work(
    desk: Repository, tmp_path: Path, document: dict[str, object], laid: set[str]
) -> None:
    of = oids(desk)
    text = json.dumps(document)
    for agent, oid in of.items():
        text = text.replace(f'"{agent}"', f'"{oid}"')
    file = tmp_path / "decisions.json"
    file.write_text(text)
    answer = review(Request(ALL.targets, base="main", decisions=file, publish="done"), desk.folder, environ(desk))
    items = review_document(answer.reviewed, answer.candidate, None).items
    found = {item.agents[0] for item in items if item.status == "laid"}
    assert found == laid or (found - {"bob", "eve"}) | {"bob or eve"} == laid
    for item in items:
        assert item.chosen or (item.status, item.decision, item.decided_by) == ("dropped", "revert", "alternatives")
    assert len({item.row for item in items}) == sum(item.chosen for item in items)
    assert answer.is_done


def test_the_example_of_the_manual(desk: Repository, tmp_path: Path) -> None:
    of = oids(desk)
    (example,) = re.findall(r"```json\n(\{[^`]*\"alternatives\"[^`]*\})\n```", (ROOT / "docs/reviews.md").read_text())
    names = ("<one full id>", of["bob"]), ("<another full id>", of["ada"]), ("<a third full id>", of["eve"])
    for name, oid in names:
        example = example.replace(name, oid)
    file = tmp_path / "decisions.json"
    file.write_text(example)
    answer = review(Request(ALL.targets, base="main", decisions=file), desk.folder, environ(desk))
    assert {change.agents[0] for change in answer.reviewed.chosen} == {"ada", "eve", "zoe"}


def test_contradictions_in_a_decisions_file_are_refused(desk: Repository, tmp_path: Path) -> None:
    of = oids(desk)
    file = tmp_path / "decisions.json"
    request = Request(ALL.targets, base="main", decisions=file)
    for choices, words in (
        ({of["ada"]: of["bob"], of["bob"]: of["eve"]}, "Two choices in one row"),
        ({of["ada"]: "apart", of["bob"]: of["ada"]}, "is chosen instead of"),
        ({of["ada"]: "f" * 40}, "is not in the plan"),
        ({of["ada"]: 3}, "is not a choice"),
    ):
        file.write_text(json.dumps({"alternatives": choices}))
        with pytest.raises(UsageError, match=words):
            review(request, desk.folder, environ(desk))


def test_two_kept_members_are_apart_and_a_split_member_stands_for_its_parts(desk: Repository) -> None:
    of = oids(desk)
    with opened(desk, ALL) as session:
        state = session.decide([of["ada"], of["bob"]], KEEP)
        assert chosen(state) == {"ada", "bob", "zoe"}
        assert state.held == 1, "they touch the same line"
        state = session.undo()
        decisions = state.home / "decisions.json"
        session.choose(of["ada"])
        line = session.decide([of["ada"]], KEEP).reviewed.line
        assert json.loads(decisions.read_text())["alternatives"]
    again = review(Request(ALL.targets, base="main", decisions=decisions), desk.folder, environ(desk))
    assert again.reviewed.line == line


def test_verdicts_choose_where_nobody_did_when_the_review_is_opened_again(desk: Repository) -> None:
    of = oids(desk)
    with opened(desk, ALL) as session:
        home, first = session.state.home, session.state.reviewed.row_of[of["ada"]].chosen
        write_row_verdicts(home, {first: "failed"})
        assert chosen(session.refresh()) == {agent_of(of, first), "zoe"}, "nothing changes under the cursor"
    with opened(desk, ALL) as session:
        second = session.state.reviewed.row_of[of["ada"]].chosen
        assert {first, second} == {of["bob"], of["eve"]}
        document = json.loads((home / "decisions.json").read_text())
        assert list(document["alternatives"].values()) == [second], "the same branch elsewhere"
        line = session.state.reviewed.line
    request = Request(ALL.targets, base="main", decisions=home / "decisions.json")
    assert review(request, desk.folder, environ(desk)).reviewed.line == line
    with opened(desk, ALL) as session:
        session.choose(first)
    write_row_verdicts(home, {second: "passed"})
    with opened(desk, ALL) as session:
        assert chosen(session.state) == {agent_of(of, first), "zoe"}, "a person chose"


def agent_of(of: dict[str, str], oid: str) -> str:
    return next(agent for agent, one in of.items() if one == oid)

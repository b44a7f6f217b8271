"""Published commits name their run, agents, tests and verdict, as git reads trailers; the candidate's have none."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from core.review.changes.test_inputs import a_run
from core.review.desks import environ, make_desk
from selftest_core.review.candidate_branch import Decision
from selftest_core.review.changes.inputs import Request
from selftest_core.review.changes.provenance import LONGEST, add_trailers
from selftest_core.review.session import ReviewSession

if TYPE_CHECKING:
    from pathlib import Path

    from core.review.repositories import Repository
    from selftest_core.review.state import ReviewState


def parsed(message: bytes) -> list[str]:
    """The trailers that git finds."""
    done = subprocess.run(
        ["git", "interpret-trailers", "--parse"], input=message, capture_output=True, check=True, timeout=60
    )
    return done.stdout.decode().splitlines()


def published(desk: Repository, run: str, verdict: str, *, has_trailers: bool = True) -> tuple[ReviewState, str]:
    with ReviewSession.open(Request(run=run), desk.folder, environ(desk), lambda text: None) as session:
        oids = [change.oid for change in session.state.reviewed.order]
        session.decide(oids, Decision.KEEP)
        verdicts = dict.fromkeys(oids, verdict) if verdict else {}
        tip = session.publish("fixes", has_trailers=has_trailers, verdicts=verdicts).tip
        return session.state, tip


def messages(desk: Repository, ref: str) -> list[bytes]:
    tips = desk.git("rev-list", "--reverse", f"main..{ref}").split()
    return [desk.git("log", "-1", "--format=%B", tip).encode() for tip in tips]


def test_published_commits_tell_where_they_come_from(tmp_path: Path) -> None:
    desk = make_desk(tmp_path / "desk")
    story = a_run(desk)
    run, test = story.plan.run, story.plan.tests[0]
    state, tip = published(desk, run, "passed")
    told = [
        f"Selftest-Run: {run}",
        f"Selftest-Agent: {test.agent_name} ({story.plan.agent_type})",
        f"Selftest-Test: {test.node_id}",
        "Selftest-Verified: passed",
    ]
    joint, fix = messages(desk, "fixes")
    assert joint.startswith(b"Tests, docs and build files: 1 change")
    assert parsed(joint) == ["Co-authored-by: ada <ada@example.org>", *told]
    assert (fix.splitlines()[0], parsed(fix)) == (b"[FIX_IMPL] Mend a", told)
    for message in messages(desk, f"refs/selftest/{run}/candidate"):
        assert b"Selftest-" not in message
    assert desk.git("rev-parse", "fixes^{tree}") == state.kept_line.tree
    assert (state.published is not None, tip != state.kept_line.tip) == (True, True)
    # The same decisions and verdicts give the same ids, another verdict gives others, and none are off by a setting.
    assert published(desk, run, "passed")[1] == tip
    assert published(desk, run, "failed")[1] != tip
    assert parsed(messages(desk, "fixes")[1])[-1] == "Selftest-Verified: failed"
    state, tip = published(desk, run, "", has_trailers=False)
    assert tip == state.kept_line.tip


def test_a_branch_with_trailers_is_still_what_is_kept(tmp_path: Path) -> None:
    desk = make_desk(tmp_path / "desk")
    story = a_run(desk)
    published(desk, story.plan.run, "")
    with ReviewSession.open(Request(run=story.plan.run), desk.folder, environ(desk), lambda text: None) as session:
        assert session.state.published is not None
        assert session.state.published.is_current
        assert parsed(messages(desk, "fixes")[1])[-1] == "Selftest-Verified: no"
        state = session.decide([session.state.reviewed.order[-1].oid], Decision.REVERT)
        assert state.published is not None
        assert not state.published.is_current


EVIL = "evil\nSelftest-Verified: passed\x1b[31m\u2028\u202e"


@pytest.mark.parametrize(
    ("message", "own"),
    [
        (b"Subject", []),
        (b"Selftest-Verified: passed", []),
        (b"Subject\n\nText.\rSelftest-Verified: passed\n", []),
        (b"Subject\n\nText.\n\nSelftest-Verified: passed\nselftest-RUN : other\n", []),
        (b"Subject\n\nText.\n---\nmore\n", []),
        (b"Subject\n\n---\n", []),
        (
            b"Subject\n\nCo-authored-by: B <b@c>\nImportance: high\n\n\n",
            ["Co-authored-by: B <b@c>", "Importance: high"],
        ),
        (b"Subject\n\nImportance: high\nand text\n", []),
        (b"Subject\n\x1c\nImportance: high\n", []),
        (b"Subject\n\nImportance: high\r\n", ["Importance: high"]),
        (b"\xff\xfe\x00 Subject\n\n\xe9: x\n", []),
        (b"", []),
    ],
)
def test_no_message_or_name_of_an_agent_breaks_or_imitates_the_trailers(message: bytes, own: list[str]) -> None:
    trailers = [("Run", "r1"), ("Agent", EVIL), ("Test", "t" * 5_000), ("Test", " \n "), ("Verified", "no")]
    found = parsed(add_trailers(message, trailers))
    assert found[: len(own)] == own
    run, agent, test, verified = found[len(own) :]
    assert (run, verified) == ("Selftest-Run: r1", "Selftest-Verified: no")
    assert agent.startswith("Selftest-Agent: evil")
    assert not [letter for letter in agent if not letter.isprintable()]
    assert len(test) == len("Selftest-Test: ") + LONGEST

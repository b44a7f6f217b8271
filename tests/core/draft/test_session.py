"""A draft is decided block by block, survives restarts, and becomes one commit that touches nothing of the person's."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from core.run.fingerprints import fingerprint
from draft_scenes import RUN, TUTORIAL, a_drafted_run, outcome_of
from selftest_core.draft.batch import decide_draft, look_at_draft
from selftest_core.draft.decisions import BlockDecision
from selftest_core.draft.draft import HeadingState, read_draft
from selftest_core.draft.findings import findings_of
from selftest_core.draft.proposals import ProposalKind
from selftest_core.draft.session import DraftSession
from selftest_core.errors import RefusedError, UsageError
from selftest_core.git.command import find_place
from selftest_core.run.plan.plan import plan_from_json, plan_json
from worlds import World, a_world

if TYPE_CHECKING:
    from collections.abc import Iterator

    from selftest_core.run.store import RunFolder

NEW = "# Three at once.\nshop add apple --count 3"
EDITED = "# One thing, and then the sum.\nshop add apple 3"
ADDING = TUTORIAL.replace("# One thing.\nshop add apple 3", f"{EDITED}\n\n{NEW}")
REFUNDS = TUTORIAL.replace("shop refund 1\n", "shop refund 1 --all\n\nshop list --refunds\n")


@pytest.fixture
def world() -> Iterator[World]:
    with a_world() as made:
        repository = made.make_repository()
        (repository / "tutorial.sh").write_text(TUTORIAL)
        (repository / "tutorial.sh").chmod(0o755)
        git(made, "add", "-A")
        git(made, "commit", "-qm", "A tutorial")
        yield made


def git(world: World, *words: str) -> str:
    who = ("-c", "user.name=Ann", "-c", "user.email=ann@example.org")
    return world.run(["git", *who, *words]).stdout.strip()


def drafted(world: World) -> RunFolder:
    return a_drafted_run(
        world, {"Adding": ADDING, "Refunds": REFUNDS},
        {"Adding": outcome_of("confusing because --count and the number differ\x1b[31m")},
    )  # fmt: skip


def test_what_is_kept_becomes_one_commit_and_nothing_else_is_touched(world: World) -> None:
    folder = drafted(world)
    place = find_place(world.repository, world.environment)
    (world.repository / "tutorial.sh").write_text("# mine, not committed\n")
    before = fingerprint(place, world.environment)
    with DraftSession.open(folder, world.environment) as session:
        assert [one.reason for one in session.draft.headings if one.state is HeadingState.FAILED] == []
        edited, new, refund, added = session.draft.blocks
        assert [one.kind for one in session.draft.blocks] == [
            ProposalKind.EDITED, ProposalKind.NEW, ProposalKind.EDITED, ProposalKind.NEW,
        ]  # fmt: skip
        assert [one.state for one in session.draft.headings] == [
            HeadingState.DRAFTED, HeadingState.NOTHING, HeadingState.DRAFTED,
        ]  # fmt: skip
        assert session.draft.headings[1].reason == "it drafts nothing: Nothing to add."
        assert session.open_blocks == session.draft.blocks
        assert session.publish_disabled_reason() == "no block is kept"
        with pytest.raises(RefusedError, match="Nothing is published"):
            session.publish("tour")

        session.decide((edited.id,), BlockDecision.DROP)
        session.edit(new.id, "# Four.\nshop add apple --count 4\n")
        session.decide((refund.id, added.id), BlockDecision.KEEP)
        session.find(new.id, "confusing because\n --count is new")
        assert session.undo() == "note a finding"
        assert session.undo() == "keep 2 blocks"
        assert session.redo() == "keep 2 blocks"
        session.find("Refunds", "confusing because nothing says which")
        with pytest.raises(UsageError, match="cannot be used"):
            session.edit(new.id, "shop add 'tea")
        with pytest.raises(UsageError, match="is not a block"):
            session.decide(("nothing",), BlockDecision.KEEP)
    with DraftSession.open(folder, world.environment) as session:  # after a restart
        assert session.open_blocks == ()
        published = session.publish("tour")
        with pytest.raises(RefusedError, match="open in another process"):
            DraftSession.open(folder, world.environment)
        assert [(one.heading, one.block, one.by) for one in findings_of(session.draft, session.decisions)] == [
            ("Adding", None, session.draft.headings[0].agent), ("Refunds", None, "person"),
        ]  # fmt: skip
    assert published.ref == "refs/heads/tour"
    assert published.blocks == 3
    assert git(world, "rev-parse", "tour~1") == git(world, "rev-parse", "HEAD")
    expected = TUTORIAL.replace("shop add apple 3\n", "shop add apple 3\n\n# Four.\nshop add apple --count 4\n")
    expected = expected.replace("shop refund 1\n", "shop refund 1 --all\n\nshop list --refunds\n")
    assert git(world, "show", "tour:tutorial.sh") == expected.strip()
    assert git(world, "ls-tree", "tour", "tutorial.sh").startswith("100755")
    message = git(world, "log", "-1", "--format=%B", "tour")
    assert message.startswith("Add 2 blocks, edit 1 block of tutorial.sh\n\n- Adding\n- Refunds\n")
    agents = [one.agent for one in read_draft(folder, world.environment).headings]
    trailers = git(world, "log", "-1", "--format=%(trailers:only,unfold)", "tour").splitlines()
    assert trailers == [
        f"Co-authored-by: {agents[0]} <{agents[0]}@example.org>",
        f"Co-authored-by: {agents[2]} <{agents[2]}@example.org>",
        f"Selftest-Run: {RUN}", f"Selftest-Agent: {agents[0]}", f"Selftest-Agent: {agents[2]}",
    ]  # fmt: skip
    # The person's work tree, index, HEAD and other branches are as they were.
    assert (world.repository / "tutorial.sh").read_text() == "# mine, not committed\n"
    for ref in ("refs/heads/tour", f"refs/selftest/{RUN}/published/tour"):
        git(world, "update-ref", "-d", ref)
    assert fingerprint(place, world.environment) == before


def test_a_branch_moves_only_from_where_this_draft_published_it(world: World, tmp_path) -> None:  # type: ignore[no-untyped-def]
    folder = drafted(world)
    decisions = tmp_path / "decisions.json"
    decisions.write_text('{"default": "keep"}')
    first = decide_draft(folder, world.environment, decisions, "tour")
    assert first.published is not None
    assert first.is_done
    again = decide_draft(folder, world.environment, decisions, "tour")
    assert again.published == first.published  # the same decisions give the same commit
    drop = first.draft.blocks[0].id
    decisions.write_text(json.dumps({"default": "keep", "blocks": {drop: "drop"}}))
    moved = decide_draft(folder, world.environment, decisions, "tour").published
    assert moved is not None
    assert moved.tip != first.published.tip
    assert git(world, "rev-parse", "tour~1") == first.draft.base
    git(world, "branch", "-f", "tour", "HEAD")
    git(world, "branch", "mine")
    here = git(world, "branch", "--show-current")
    for branch, said in (("tour", "moved since"), ("mine", "is not from"), (here, "is checked out")):
        with pytest.raises(RefusedError, match=said) as raised:
            decide_draft(folder, world.environment, None, branch)
        assert raised.value.exit_status == 4
    with pytest.raises(UsageError, match="not a valid branch name"):
        decide_draft(folder, world.environment, None, "--force")
    assert look_at_draft(folder, world.environment).open == 0


def test_what_cannot_be_used_is_a_row_with_its_reason(world: World) -> None:
    drafts = {
        "Adding": "# All of it anew\n\nrm -rf /\n",
        "Taxes": TUTORIAL.replace("# Taxes\n", "# Taxes\n\nif shop tax; then\n    true\n"),
        "Refunds": TUTORIAL.replace("shop refund 1\n", "shop refund 1\n\nshop refund 2\n"),
    }
    folder = a_drafted_run(world, drafts, open_headings=("Refunds",))
    draft = read_draft(folder, world.environment)
    assert [one.state for one in draft.headings] == [HeadingState.FAILED, HeadingState.FAILED, HeadingState.OPEN]
    assert "above the first heading" in draft.headings[0].reason
    assert "a block is broken" in draft.headings[1].reason
    assert "unexpected end of file" in draft.headings[1].reason
    assert draft.blocks == ()


def test_what_was_not_judged_before_a_stop_is_judged_when_it_is_read(world: World) -> None:
    drafts = {"Adding": ADDING, "Refunds": "# All anew\n\nls\n"}
    draft = read_draft(a_drafted_run(world, drafts, is_judged=False), world.environment)
    assert [one.state for one in draft.headings] == [HeadingState.DRAFTED, HeadingState.NOTHING, HeadingState.FAILED]
    assert "above the first heading" in draft.headings[2].reason
    assert len(draft.blocks) == 2


def test_a_heading_that_was_renamed_meanwhile_is_told_and_stays_renamed(world: World) -> None:
    folder = drafted(world)
    renamed = TUTORIAL.replace("# Refunds", "# Returns")
    (world.repository / "tutorial.sh").write_text(renamed)
    git(world, "commit", "-qam", "Returns")
    draft = read_draft(folder, world.environment)
    assert [bool(one.note) for one in draft.headings] == [False, False, True]
    assert "no such heading" in draft.headings[2].note
    with DraftSession.open(folder, world.environment) as session:
        session.decide([block.id for block in draft.blocks], BlockDecision.KEEP)
        session.publish("tour")
    # It stands on the run's base: the person merges it, and git says that both changed this place.
    assert git(world, "show", "HEAD:tutorial.sh") == renamed.strip()
    assert git(world, "rev-parse", "tour~1") == draft.base


def test_other_files_and_other_bytes(world: World) -> None:
    text = TUTORIAL.replace("# Taxes\n", "# Taxes\n\necho \udcff\n")
    raw = world.repository / "tutorial.sh"
    raw.write_bytes(text.encode("utf-8", "surrogateescape"))
    git(world, "commit", "-qam", "Bytes")
    tutorial = raw.read_bytes().decode("utf-8", "replace")
    folder = a_drafted_run(world, {}, tutorial=tutorial)
    draft = read_draft(folder, world.environment)
    assert draft.text == text
    plan = folder.plan()
    assert plan.role == "drafter"
    assert plan_from_json(plan_json(plan)) == plan
    assert [file.name for file in plan.tests[0].files] == ["task.json", "section.sh"]

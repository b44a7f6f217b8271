"""What a review can be of: a run and its evidence, agents that are there, branches; and what cannot be reviewed."""

from __future__ import annotations

import json
import os
import subprocess
from typing import TYPE_CHECKING

import pytest

import run_scenes
import scenes
from core.review.desks import make_desk
from selftest_core.agents import Agent, State
from selftest_core.errors import SelftestError, UsageError
from selftest_core.fleet.observations import Listed, ListingError
from selftest_core.review.batch import review
from selftest_core.review.candidate_branch import Decision, Status
from selftest_core.review.changes.agents_branches import choose
from selftest_core.review.changes.collect_changes import EARLIER
from selftest_core.review.changes.inputs import Request
from selftest_core.review.session import ReviewSession
from selftest_core.run.events import Event
from selftest_core.run.outcome.ends import End
from selftest_core.run.store import register
from selftest_core.schema.review import review_document

if TYPE_CHECKING:
    from pathlib import Path

    from core.review.repositories import Repository
    from run_scenes import Story


@pytest.fixture
def desk(tmp_path: Path) -> Repository:
    return make_desk(tmp_path / "a desk")


def environ(desk: Repository) -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "HOME": str(desk.folder.parent / "home")}


def fingerprint(desk: Repository) -> tuple[str, ...]:
    """All of the person's that a review must not change."""
    refs = [line for line in desk.git("for-each-ref").splitlines() if "refs/selftest/" not in line]
    return (
        *refs, desk.git("rev-parse", "HEAD"), desk.git("symbolic-ref", "HEAD"), desk.git("status", "--porcelain"),
        desk.git("config", "--list", "--local"), (desk.folder / ".git" / "index").read_bytes().hex(),
    )  # fmt: skip


def a_run(desk: Repository) -> Story:
    """A run of three tests: ada's has ended, with her branch as the run keeps it."""
    base = desk.git("rev-parse", "main")
    (desk.folder / ".selftest").mkdir(exist_ok=True)
    (desk.folder / ".selftest" / ".gitignore").write_text("*\n")
    story = run_scenes.story(desk.folder / ".selftest" / "runs", 3, repository=str(desk.folder), base=base)
    for number in range(3):
        story.launch(number, 10.0 * number)
    arrive(desk, story, 0, "ada", "low")
    return story


def arrive(desk: Repository, story: Story, number: int, branch: str, level: str) -> str:
    """A test of the run ends, with that branch."""
    outcome = {**run_scenes.FIXED, "importance": {"level": level, "reason": "because"}}
    name = story.plan.tests[number].agent_name
    desk.git("update-ref", f"refs/selftest/{story.plan.run}/agents/{name}", branch)
    story.end(number, 100.0 + number, End.SUCCEEDED, "Done", commits=2, outcome=outcome)
    story.write()
    return name


def reach_the_gate(desk: Repository, story: Story, number: int, branch: str) -> None:
    """An agent that is no tester ends with that branch, which its gate has not judged yet."""
    name = story.plan.tests[number].agent_name
    story.launch(number, 10.0 * number)
    desk.git("update-ref", f"refs/selftest/{story.plan.run}/agents/{name}", branch)
    fields = {"stage": "work", "text": "", "tip": desk.git("rev-parse", branch), "signature": "", "verifying": True}
    story.note(Event.ENDED, 100.0 + number, agent=name, attempt=1, end=End.SUCCEEDED, commits=2, **fields)


def pass_the_gate(desk: Repository, story: Story, branches: list[str]) -> None:
    """Agents that are no testers end with these branches, which their gate lets pass."""
    for number, branch in enumerate(branches):
        reach_the_gate(desk, story, number, branch)
        told = {"result": "passed", "reason": "", "text": "", "signature": "", "gate": True}
        story.note(Event.VERIFIED, 200.0, agent=story.plan.tests[number].agent_name, attempt=1, **told)


def test_a_live_run_is_reviewed_and_what_arrives_lands_under_new(desk: Repository) -> None:
    story = a_run(desk)
    ada = story.plan.tests[0].agent_name
    before = fingerprint(desk)
    with ReviewSession.open(Request(), desk.folder / "src", environ(desk), lambda text: None) as session:
        state = session.state
        assert (state.name, state.home, state.total, state.new) == (story.plan.run, story.folder.path, 2, frozenset())
        assert state.is_live
        kept = desk.git("rev-parse", "ada")
        session.decide([kept], Decision.REVERT)
        eve = arrive(desk, story, 1, "eve", "critical")
        (attempt,) = story.folder.path.glob(f"agents/{eve}/attempt-*")
        (attempt / "conversation.txt").write_text("agent:\n  > Bash: pytest [bold]\n", encoding="utf-8")
        state = session.refresh()
        assert state.new == {desk.git("rev-parse", "eve"), desk.git("rev-parse", "eve~1")}
        assert state.reviewed.decided[kept] is Decision.REVERT
        # What she stated puts her fix first.
        assert [change.agents for change in state.reviewed.order if change.kind.is_implementation] == [(eve,), (ada,)]
        said = state.evidence[eve]
        assert said.tests == ((story.plan.tests[1].node_id, True),)
        assert (said.importance, said.end) == ("critical", "succeeded")
        assert said.turned_green == (story.plan.tests[1].node_id,)
        assert said.words == run_scenes.FIXED["summary_markdown"]
        assert said.outcome is not None
        assert said.transcript is not None
        assert (said.conversation, said.said) == (attempt / "conversation.txt", "agent:\n  > Bash: pytest [bold]\n")
        assert session.decide([desk.git("rev-parse", "eve")], Decision.KEEP).new == {desk.git("rev-parse", "eve~1")}
    # The last one ends while nobody looks.
    arrive(desk, story, 2, "bob", "normal")
    with ReviewSession.open(Request(run=story.plan.run[:9]), desk.folder, environ(desk), lambda text: None) as session:
        assert session.state.total == 6
        assert desk.git("rev-parse", "bob") in session.state.new
        assert not session.state.is_live
    assert fingerprint(desk) == before


def test_work_is_offered_only_once_its_gate_has_let_it_pass(desk: Repository) -> None:
    base = desk.git("rev-parse", "main")
    story = run_scenes.story(
        desk.folder / ".selftest" / "runs", 3, repository=str(desk.folder), base=base, role="writer"
    )  # fmt: skip
    pass_the_gate(desk, story, ["ada"])
    ada, bob, eve = (test.agent_name for test in story.plan.tests)
    reach_the_gate(desk, story, 1, "bob")
    reach_the_gate(desk, story, 2, "eve")
    told = {"text": "", "signature": "", "gate": True, "attempt": 1}
    story.note(Event.VERIFIED, 200.0, agent=bob, result="failed", reason="test_a passes without\nmore", **told)
    story.write()
    with ReviewSession.open(Request(run=story.plan.run), desk.folder, environ(desk), lambda text: None) as session:
        state = session.state
        assert {agent for change in state.reviewed.order for agent in change.agents} == {ada}
        assert state.plan.left_out == ((bob, "refused: test_a passes without"),)
        story.note(Event.VERIFIED, 200.0, agent=eve, result="unknown", reason="the run was stopped", **told)
        story.write()
        state = session.refresh()
        assert {agent for change in state.reviewed.order for agent in change.agents} == {ada}
        assert state.plan.left_out[1] == (eve, "not checked: the run was stopped")


def test_the_last_attempt_counts_also_where_it_changed_nothing(desk: Repository) -> None:
    story = a_run(desk)
    arrive(desk, story, 1, "eve", "critical")
    eve = story.plan.tests[1].agent_name
    with ReviewSession.open(Request(), desk.folder, environ(desk), lambda text: None) as session:
        assert session.state.total == 4
        # She is answered, and goes on: until she has ended, her branch stands.
        story.note(Event.ANSWERED, 200.0, agent=eve, attempt=1, id="1", text="The block is right.", continues=True)
        story.launch(1, 201.0)
        story.write()
        assert session.refresh().total == 4
        story.end(1, 210.0, End.UNCHANGED, "Left as it is", outcome=run_scenes.FIXED)
        story.write()
        state = session.refresh()
        # What she made before is dropped, unless a person keeps it.
        assert (state.total, state.open) == (4, 2)
        before = [change for change in state.reviewed.order if change.is_earlier]
        assert {change.agents for change in before} == {(f"{eve}{EARLIER}",)}
        assert {state.reviewed.decided[change.oid] for change in before} == {Decision.REVERT}
        assert session.decide([before[0].oid], Decision.KEEP).kept == 1
        session.undo()
    # Another branch of hers: what it has again is hers, what it lacks is dropped, also where all is kept by default.
    desk.git("branch", "again", "main")
    desk.git("worktree", "add", "-q", str(desk.folder.parent / "again"), "again")
    desk.git("-C", str(desk.folder.parent / "again"), "cherry-pick", desk.git("rev-parse", "eve~1"))
    desk.git("update-ref", f"refs/selftest/{story.plan.run}/earlier/{eve}/{desk.git('rev-parse', 'eve')}", "eve")
    desk.git("update-ref", f"refs/selftest/{story.plan.run}/agents/{eve}", "again")
    story.note(Event.ANSWERED, 215.0, agent=eve, attempt=2, id="3", text="Once more.", continues=True)
    story.launch(1, 216.0)
    story.end(1, 217.0, End.SUCCEEDED, "Done", commits=1, outcome=run_scenes.FIXED)
    story.write()
    decisions = desk.folder.parent / "decisions.json"
    decisions.write_text(json.dumps({"default": "keep"}))
    result = review(Request(run=story.plan.run, decisions=decisions), desk.folder, environ(desk))
    made = {oid: change for change in result.reviewed.order for oid in change.oids}
    again, before_it = made[desk.git("rev-parse", "again")], made[desk.git("rev-parse", "eve")]
    assert (again.agents, result.reviewed.decided[again.oid]) == ((eve,), Decision.KEEP)
    assert (before_it.is_earlier, result.reviewed.decided[before_it.oid]) == (True, Decision.REVERT)
    # A lost agent says nothing about what came before.
    arrive(desk, story, 2, "bob", "normal")
    bob = story.plan.tests[2].agent_name
    story.note(Event.ANSWERED, 220.0, agent=bob, attempt=1, id="2", text="Go on.")
    story.launch(2, 221.0)
    story.fail(2, 230.0, End.LOST, "its host is gone", "work")
    story.write()
    with ReviewSession.open(Request(), desk.folder, environ(desk), lambda text: None) as session:
        assert desk.git("rev-parse", "bob") in {change.oid for change in session.state.reviewed.order}


def test_a_run_is_reviewed_without_a_screen_from_anywhere(desk: Repository, tmp_path: Path) -> None:
    story = a_run(desk)
    register(story.folder, environ(desk))
    decisions = tmp_path / "decisions.json"
    decisions.write_text(json.dumps({"default": "keep"}))
    request = Request((story.plan.run,), decisions=decisions, publish="fixes")
    answer = review(request, tmp_path, environ(desk))
    assert (answer.run, answer.is_done) == (story.plan.run, True)
    assert answer.candidate == f"refs/selftest/{story.plan.run}/candidate"
    assert desk.git("diff", "--name-only", "main", "fixes").split() == ["src/a.py", "tests/test_ada.py"]
    with pytest.raises(UsageError, match="There is no run nothing"):
        review(Request(("nothing",)), desk.folder, environ(desk))


def test_a_run_without_a_branch_can_be_waited_for_on_the_screen_only(desk: Repository) -> None:
    base = desk.git("rev-parse", "main")
    story = run_scenes.story(desk.folder / ".selftest" / "runs", 1, repository=str(desk.folder), base=base)
    story.launch(0, 0.0)
    story.write()
    with pytest.raises(UsageError, match="nothing to review"):
        review(Request(), desk.folder, environ(desk))
    with ReviewSession.open(Request(), desk.folder, environ(desk), lambda text: None) as session:
        assert (session.state.total, session.state.publish_disabled_reason != "") == (0, True)
        arrive(desk, story, 0, "bob", "normal")
        assert session.refresh().total == 2


def test_agents_are_meant_by_name_id_or_address_and_never_guessed() -> None:
    ada, bob, other = (
        Agent(scenes.agent_id(number), name, "command", scenes.LOCAL, State.DONE, "DONE")
        for number, name in enumerate(("ada", "bob", "bob"), start=1)
    )
    listed = Listed(0.0, None, (ada, bob, other), (ListingError("modal", "no answer"),))
    assert choose(("ada", ada.id, ada.address, other.address), listed) == (ada, other)
    for names, says in (
        (("adda",), "Did you mean ada?"),
        (("zzzz",), "modal: no answer"),
        (("bob",), f"{bob.address}\n{other.address}"),
    ):
        with pytest.raises(UsageError) as error:
            choose(names, listed)
        assert says in str(error.value)


@pytest.fixture(scope="module")
def untouched(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    """One repository for all reviews that are refused: each leaves it as it was."""
    return make_desk(tmp_path_factory.mktemp("untouched") / "a desk")


def refused(desk: Repository, request: Request) -> SelftestError:
    """The error of a review that cannot be; nothing of the person's has changed by it."""
    before = fingerprint(desk)
    with pytest.raises(SelftestError) as error:
        review(request, desk.folder, environ(desk))
    assert fingerprint(desk) == before
    with pytest.raises(SelftestError):
        ReviewSession.open(request, desk.folder, environ(desk), lambda text: None).close()
    return error.value


@pytest.mark.parametrize(
    ("request_", "status", "says"),
    [
        (Request(("ada..bob",)), 2, "bob does not build on ada"),
        (Request(("ada..ada",)), 2, "nothing to review"),
        (Request(("main..nobody",)), 2, "'nobody' is not a commit of this repository"),
        (Request(("main...ada",)), 2, "is not a range"),
        (Request(("ada", "bob")), 2, "Several branches, such as ada bob, need --base"),
        (Request((), base="main"), 2, "No branch to review"),
        (Request(("ada",), base="main", agents=("bob",)), 2, "A review is of one run"),
        (Request(("ada",), base="main", run="x"), 2, "A review is of one run"),
        (Request(("ada",), base="main", onto="nowhere"), 2, "'nowhere' is not a commit of this repository"),
        (Request(("main..ada",), publish="main"), 4, "main is checked out"),
        (Request(("main..ada",), publish="bob"), 4, "bob exists already and is not from this review"),
        (Request(("main..ada",), publish="-x"), 2, "is not a valid branch name"),
        (Request(("main..ada",), publish="a..b"), 2, "is not a valid branch name"),
    ],
)
def test_what_cannot_be_reviewed_is_said_and_nothing_changes(
    untouched: Repository, request_: Request, status: int, says: str
) -> None:
    desk = untouched
    if request_.publish is not None:
        before = fingerprint(desk)
        with pytest.raises(SelftestError, match=says) as error:
            review(request_, desk.folder, environ(desk))
        assert (error.value.exit_status, fingerprint(desk)) == (status, before)
        return
    told = refused(desk, request_)
    assert told.exit_status == status
    assert says in str(told)


def test_without_a_run_or_a_repository_it_is_said(desk: Repository, tmp_path: Path) -> None:
    told = refused(desk, Request())
    assert (told.exit_status, told.title) == (2, "There is no run in this repository")
    with pytest.raises(UsageError, match="is not in a git repository"):
        review(Request(("main..ada",)), tmp_path, environ(desk))


def test_decisions_about_what_is_not_there_are_refused(desk: Repository, tmp_path: Path) -> None:
    path = tmp_path / "decisions.json"
    request = Request(("main..ada",), decisions=path)
    wrong: list[dict[str, object]] = [
        {"items": {desk.git("rev-parse", "bob"): "keep"}},
        {"resolutions": {"f" * 40: {}}},
    ]
    for document in wrong:
        path.write_text(json.dumps(document))
        assert refused(desk, request).exit_status == 2


def test_a_run_whose_base_is_gone_is_a_stale_plan(desk: Repository) -> None:
    story = run_scenes.story(desk.folder / ".selftest" / "runs", 1, repository=str(desk.folder), base="5" * 40)
    story.launch(0, 0.0)
    arrive(desk, story, 0, "ada", "low")
    told = refused(desk, Request())
    assert (told.exit_status, told.title) == (2, f"{'5' * 40!r} is not a commit of this repository")


def test_a_branch_with_a_merge_is_left_out_and_the_others_go_on(desk: Repository) -> None:
    desk.git("checkout", "-q", "ada")
    desk.git("merge", "-q", "--no-edit", "bob")
    desk.git("checkout", "-q", "main")
    answer = review(Request(("ada", "eve"), base="main"), desk.folder, environ(desk))
    ((name, reason),) = answer.reviewed.plan.left_out
    assert name == "ada"
    assert "merge commit" in reason
    assert (len(answer.reviewed.order), answer.is_done) == (2, False)
    told = refused(desk, Request(("main..ada",)))
    assert "merge commit" in told.detail


def test_a_branch_that_reaches_into_git_is_left_out_before_anything_has_it(desk: Repository) -> None:
    hook = desk.git("hash-object", "-w", "--stdin")
    for name in (".git", ".GIT", "git~1"):
        tree = desk_tree(desk, f"040000 tree {desk_tree(desk, f'100644 blob {hook}	config')}	{name}")
        commit = desk.git("commit-tree", "-m", "[FIX_IMPL] Innocent", "-p", "main", tree)
        desk.git("update-ref", "refs/heads/mal", commit)
        answer = review(Request(("mal", "bob"), base="main"), desk.folder, environ(desk))
        ((who, reason),) = answer.reviewed.plan.left_out
        assert (who, f"'{name}/config'" in reason) == ("mal", True)
        assert len(answer.reviewed.order) == 2


def test_a_submodule_and_what_steers_git_are_laid_and_pointed_out(desk: Repository) -> None:
    desk.git("checkout", "-q", "-b", "sub", "main")
    desk.git("update-index", "--add", "--cacheinfo", f"160000,{desk.git('rev-parse', 'main')},lib")
    desk.git("commit", "-q", "-m", "[FIX_IMPL] Take a library in")
    (desk.folder / ".gitattributes").write_text("*.py merge=evil\n")
    desk.git("add", ".gitattributes")
    desk.git("commit", "-q", "-m", "[FIX_IMPL] Merge by hand")
    attributes = desk.git("rev-parse", "HEAD")
    desk.git("checkout", "-q", "-f", "main")
    answer = review(Request(("main..sub",)), desk.folder, environ(desk))
    document = review_document(answer.reviewed, answer.candidate, None)
    assert [item.cautions for item in document.items] == [
        ["lib is a submodule: the commit that it names is not checked"],
        [".gitattributes: it changes how git treats other files"],
    ]
    assert [one.status for one in answer.reviewed.line.items] == [Status.LAID, Status.LAID]
    assert desk.git("rev-parse", f"{answer.candidate}^{{tree}}") == desk.git("rev-parse", f"{attributes}^{{tree}}")


def desk_tree(desk: Repository, line: str) -> str:
    """A tree of one entry, which git itself would not make of a folder."""
    done = subprocess.run(
        ["git", "mktree"], cwd=desk.folder, env=desk.environment, input=f"{line}\n", capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    return done.stdout.strip()

"""The text of a pull request says what is in it, and nothing that an agent wrote does anything there."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from core.review.repositories import Repository
from selftest_core.errors import RefusedError, ToolFailedError, ToolMissingError
from selftest_core.git.command import Git
from selftest_core.review.apply_decisions import Reviewed, apply_decisions, build_kept_line
from selftest_core.review.candidate_branch import Decision
from selftest_core.review.changes.kinds import Kind
from selftest_core.review.changes.plan import make_plan, resolve_branches
from selftest_core.review.decisions import Decisions
from selftest_core.review.engine import Engine
from selftest_core.review.evidence import Evidence
from selftest_core.review.pull_request import (  # fmt: skip
    LONGEST_BODY,
    LONGEST_TITLE,
    PullRequest,
    open_pull_request,
    write_pull_request,
)
from standins import make_gh

if TYPE_CHECKING:
    from collections.abc import Iterator

EVIL = "[FIX_IMPL] fixes #12 @everyone `rm` <img src=x> ](http://x) \x1b[31m\u202e"


@dataclass
class Desk:
    repository: Repository
    engine: Engine
    user: Git

    def branch(self, agent: str, *commits: tuple[str, dict[str, str]]) -> list[str]:
        self.repository.git("checkout", "-q", "-f", "-b", agent, "main")
        return [self.repository.commit(message, files, agent) for message, files in commits]

    def reviewed(self, *agents: str, **decisions: Decision) -> Reviewed:
        plan = make_plan(self.engine.store, resolve_branches(self.user, "main", agents))
        return apply_decisions(self.engine, plan, Decisions(kinds={Kind.TEST: Decision.KEEP}, items=decisions))

    def text(self, reviewed: Reviewed, **more: object) -> PullRequest:
        return write_pull_request(reviewed, build_kept_line(self.engine, reviewed), **more)  # type: ignore[arg-type]


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    repository = Repository.make(tmp_path / "r")
    repository.commit("Start", {"a.py": "1\n", "b.py": "1\n"})
    with Engine.open(tmp_path / "engine.git", repository.folder / ".git", os.environ) as engine:
        yield Desk(repository, engine, Git(repository.folder / ".git", os.environ))


def test_the_text_says_what_by_whom_what_was_reverted_and_why_and_what_is_open(desk: Desk) -> None:
    (kept,) = desk.branch("ada", ("[FIX_IMPL] Guard an empty cart", {"a.py": "2\n"}))
    desk.branch("bob", ("[FIX_IMPL] Guard an empty cart", {"a.py": "2\n"}))
    (reverted,) = desk.branch("eve", ("[FIX_IMPL] Retry on 500", {"c.py": "1\n"}))
    desk.branch("zoe", ("[FIX_IMPL] Something else", {"d.py": "1\n"}))
    (rival,) = desk.branch("kim", ("[FIX_IMPL] Another guard", {"a.py": "3\n"}))
    desk.branch("tom", ("[FIX_TEST] Test the cart", {"tests/test_cart.py": "X = 1\n"}))
    reviewed = desk.reviewed("ada", "bob", "eve", "zoe", "kim", "tom", **{
        kept: Decision.KEEP, reverted: Decision.REVERT, rival: Decision.KEEP,
    })  # fmt: skip
    named = {change.subject: change.oid for change in reviewed.order}
    evidence = {"ada": Evidence(tests=(("tests/test_cart.py::test_empty", True),)), "tom": Evidence()}
    made = desk.text(
        reviewed,
        notes={named["[FIX_IMPL] Retry on 500"]: "The server must say why first.\n\nSee the runbook."},
        evidence=evidence,
        clusters=[("ConnectionRefusedError: <host>", 5)],
    )
    assert made.title == "Guard an empty cart by 3 agents"
    assert made.body == (
        "1 fix and 1 change of tests, docs and build files, made by 3 agents. "
        "Kept: 1 decided on by name, 1 by the rule for changes of kind test.\n"
        "\n## Fixes\n\n- `[FIX_IMPL] Guard an empty cart` by `ada`, `bob` (1 file)\n"
        "\n## Tests, docs and build files\n\n- `[FIX_TEST] Test the cart` by `tom` (1 file)\n"
        "\n## Tests\n\n- `tests/test_cart.py::test_empty`: passes, reported by `ada`\n"
        "\nClaimed by the agents; not run again.\n"
        "\n## Failures by cause\n\n- `ConnectionRefusedError: <host>`: 5 tests\n"
        "\n## Reverted\n\n- `[FIX_IMPL] Retry on 500` by `eve` (1 file)\n"
        "  > The server must say why first.\n  > \n  > See the runbook.\n"
        "\n## In conflict, so not included\n\n- `[FIX_IMPL] Another guard` by `kim` (1 file)\n"
        "\n## Undecided, so not included\n\n- `[FIX_IMPL] Something else` by `zoe` (1 file)\n"
    )


def test_nothing_that_an_agent_wrote_is_obeyed_by_markdown(desk: Desk) -> None:
    (kept,) = desk.branch("ada", (EVIL, {"a.py": "2\n"}))
    made = desk.text(desk.reviewed("ada", **{kept: Decision.KEEP}))
    assert made.body.startswith("1 fix, made by 1 agent. Each was decided on by name.\n")
    row = next(line for line in made.body.splitlines() if line.startswith("- "))
    assert row.startswith("- ``[FIX_IMPL] fixes #12 @everyone `rm` <img src=x> ](http://x)")
    assert row.endswith("`` by `ada` (1 file)")
    assert "\x1b" not in made.body + made.title
    assert "\u202e" not in made.body + made.title


def test_titles_and_bodies_stay_within_what_is_taken(desk: Desk) -> None:
    commits = [(f"[FIX_IMPL] {n} " + "long word " * 40, {f"f{n}": "x\n"}) for n in range(3)]
    oids = desk.branch("ada", *commits)
    everything = desk.reviewed("ada", **dict.fromkeys(oids, Decision.KEEP))
    made = desk.text(everything, notes={oids[0]: "a line of a long note\n" * 4000})
    assert len(made.title) == LONGEST_TITLE
    assert made.title.endswith("… and 2 more changes by 1 agent")
    assert len(made.body) < LONGEST_BODY + 100
    assert made.body.endswith("the review has all of it.\n")


def test_nothing_kept_is_said(desk: Desk) -> None:
    desk.branch("ada", ("Mend", {"a.py": "2\n"}))
    made = desk.text(desk.reviewed("ada"))
    assert made.title == "No change is kept yet"
    assert "Undecided" in made.body


@pytest.fixture
def stand_in(tmp_path: Path) -> Path:
    """The folder of a program in the place of gh."""
    return make_gh(tmp_path / "bin")


def test_a_pull_request_is_opened_with_gh_and_one_branch_is_pushed(desk: Desk, stand_in: Path, tmp_path: Path) -> None:
    remote = tmp_path / "remote.git"
    desk.repository.git("init", "-q", "--bare", str(remote))
    desk.repository.git("remote", "add", "origin", str(remote))
    desk.repository.git("branch", "fixes", "main")
    desk.repository.git("branch", "private", "main")
    hook = desk.repository.folder / ".git" / "hooks" / "pre-push"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\ntouch {tmp_path}/hooked\n")
    hook.chmod(0o755)
    environ = {
        **desk.repository.environment,
        "PATH": f"{stand_in}:{os.environ['PATH']}", "CALL": str(tmp_path / "call.json"),
    }  # fmt: skip
    made = PullRequest("--web is no option", "A body with `code`\n")
    top = desk.repository.folder
    assert open_pull_request(top, environ, "refs/heads/fixes", "main", made) == "https://example.org/pull/7"
    call = json.loads((tmp_path / "call.json").read_text())
    assert call["argv"] == [
        "pr", "create", "--head=fixes", "--base=main", "--title=--web is no option", "--body-file=-",
    ]  # fmt: skip
    assert (call["body"], Path(call["cwd"]).resolve()) == (made.body, top.resolve())
    pushed = Git(remote, os.environ).refs()
    assert list(pushed) == ["refs/heads/fixes"]
    assert not (tmp_path / "hooked").exists()
    with pytest.raises(ToolFailedError, match="gh could not open") as raised:
        open_pull_request(top, {**environ, "FAIL": "1"}, "refs/heads/fixes", "main", made)
    assert "not logged in" in raised.value.detail


def test_without_a_remote_or_gh_it_is_said(desk: Desk, tmp_path: Path) -> None:
    top, made = desk.repository.folder, PullRequest("t", "b")
    with pytest.raises(RefusedError, match="no remote"):
        open_pull_request(top, desk.repository.environment, "refs/heads/main", "main", made)
    remote = tmp_path / "remote.git"
    desk.repository.git("init", "-q", "--bare", str(remote))
    desk.repository.git("remote", "add", "upstream", str(remote))
    folder = tmp_path / "only-git"
    folder.mkdir()
    for program in ("git", "sh"):
        (folder / program).symlink_to(_which(program))
    environ = {**desk.repository.environment, "PATH": str(folder)}
    with pytest.raises(ToolMissingError, match="gh is not installed"):
        open_pull_request(top, environ, "refs/heads/main", "main", made)


def _which(program: str) -> Path:
    import shutil

    found = shutil.which(program)
    assert found is not None
    return Path(found)

"""A review as a person does it: real agents marked in the fleet, in a real terminal, through a kill, to a branch."""

from __future__ import annotations

import re
import sys
import uuid
from typing import TYPE_CHECKING

import pytest

from selftest_recorder.e2e.session import open_session
from worlds import a_world, eventually

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from selftest_recorder.e2e.session import Session
    from worlds import World

pytestmark = pytest.mark.real

NAMES = ("ada", "bob", "eve")
WORK = """#!/bin/sh
git config user.name "$1" && git config user.email "$1@example.org"
echo "$1" > "$1.py" && git add "$1.py" && git commit -q -m "[FIX_IMPL] Mend what $1 met"
touch "$2"
exec sleep 100000
"""


def in_terminal(world: World, *argv: str) -> AbstractContextManager[Session]:
    """The program in a terminal of its own."""
    return open_session(argv, environment=world.environment, cwd=world.repository, columns=140, lines=32)


def marked_and_reviewed(session: Session) -> str:
    """Mark all agents in the fleet, and review what they made."""
    session.wait_until(lambda screen: all(f" {name} " in screen for name in NAMES), "all agents")
    session.send_keys("C-a")
    session.wait_for("3 marked")
    session.type_text("v")
    return session.wait_until(
        lambda screen: all(f"Mend what {name} met" in screen for name in NAMES) and "decided" in screen, "the line"
    )


def row_of(screen: str, name: str) -> str:
    """The line of the table about the change of an agent; empty while it is being painted."""
    lines = (line for line in screen.splitlines() if line.startswith("│") and f"Mend what {name} met" in line)
    return next(lines, "")


def number_of(screen: str, name: str) -> str:
    """Where the change of an agent stands on the line."""
    line = row_of(screen, name)
    return line.split("Mend")[0].split()[-1]


def dropped(screen: str) -> list[str]:
    """The agents whose change is out of the line as it is laid, not only as it will be."""
    return [name for name in NAMES if re.match(r"✗ +\d", row_of(screen, name).lstrip(" │"))]


def test_three_agents_are_reviewed_through_a_kill_to_a_published_branch() -> None:
    # The screen would ask for all providers too, which are none here; that costs as much again.
    with a_world(SELFTEST_TUI_REMOTE="false") as world:
        world.load_mngr()
        work = world.script("work", WORK)
        for name in NAMES:
            more = ["--transfer", "git-worktree", "--id", f"agent-{uuid.uuid4().hex}"]
            world.create(name, work, name, world.root / f"done-{name}", more=more)
        for name in NAMES:
            eventually((world.root / f"done-{name}").exists, f"{name} has committed")
        head = world.run(["git", "rev-parse", "HEAD"]).stdout
        argv = (sys.executable, "-m", "selftest_tui")
        with in_terminal(world, *argv) as session:
            marked_and_reviewed(session)
            session.wait_for("0 of 3 decided")
            session.send_keys("Home")
            session.type_text("y")
            session.wait_for("1 of 3 decided")
            session.type_text("x")  # the cursor went on to the next one
            session.wait_for("2 of 3 decided")
            session.type_text("z")
            session.wait_for("1 of 3 decided")
            session.type_text("jx")
            # A decision shows at once, and as what the log has when its line is laid: only that outlives a kill.
            screen = session.wait_until(
                lambda screen: "2 of 3 decided" in screen and len(dropped(screen)) == 1, "the second decision, laid"
            )
            (reverted,) = dropped(screen)
            assert number_of(screen, reverted) == "3"
            session.kill()
            session.wait_for_end()
        with in_terminal(world, *argv) as session:
            screen = marked_and_reviewed(session)
            assert "2 of 3 decided" in screen, "all that was decided is there after a kill"
            assert dropped(screen) == [reverted]
            session.send_keys("Tab")
            session.type_text("y")
            session.wait_for("3 of 3 decided")
            session.type_text("P")
            session.wait_for("publish as branch")
            session.send_keys("Enter")
            session.wait_for("Publish as reviewed?")
            session.type_text("y")
            session.wait_for("published as reviewed")
            session.type_text("q")
            assert session.wait_for_end() == 0
        published(world, head, reverted)


def published(world: World, head: str, reverted: str) -> None:
    """The branch has what was kept, and nothing else of the person's has changed."""
    files = world.run(["git", "ls-tree", "--name-only", "reviewed"]).stdout.split()
    assert {f"{name}.py" for name in NAMES if name != reverted} <= set(files)
    assert f"{reverted}.py" not in files
    assert world.run(["git", "rev-parse", "HEAD"]).stdout == head
    assert world.run(["git", "status", "--porcelain"]).stdout == ""
    authors = world.run(["git", "log", "--format=%an", "main..reviewed"]).stdout.split()
    assert sorted(authors) == sorted(set(NAMES) - {reverted}), "one commit each, by who made it"

"""`selftest-tui review` in a real terminal: a conflict resolved in the person's editor, and how the program ends."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from core.review.desks import AGENTS, make_desk
from selftest_recorder.e2e.session import open_session
from standins import EMPTY, mngr_that
from worlds import a_world

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from selftest_recorder.e2e.session import Session
    from worlds import World

pytestmark = pytest.mark.real

EDITOR = """#!/bin/sh
for last; do :; done
grep -q '^<<<<<<<' "$last" && printf 'both\\n' > "$last"
"""


def in_terminal(world: World, *targets: str, **more: str) -> AbstractContextManager[Session]:
    """The review of these targets, in a terminal of its own."""
    mngr_that(world, f"echo '{EMPTY}'")  # there is no agent here: a real one would only take its seconds
    argv = (sys.executable, "-m", "selftest_tui", "review", *targets)
    return open_session(argv, environment={**world.environment, **more}, cwd=world.repository, columns=130, lines=30)


def test_a_conflict_is_resolved_in_an_editor_on_a_copy() -> None:
    with a_world() as world:
        desk = make_desk(world.repository)
        editor = world.script("edit", EDITOR)
        names = [name for name, *_ in AGENTS]
        with in_terminal(world, "--base", "main", *names, EDITOR=str(editor)) as session:
            session.wait_for("0 of 6 decided")
            session.wait_for("1 in conflict")
            session.type_text("/")
            session.wait_for("⏎ keep")
            session.type_text("is:held")
            session.send_keys("Enter")
            session.wait_for("1 of 6 changes")
            session.type_text("E")
            session.wait_until(lambda text: "0 in conflict" in text, "the change is laid as it was resolved")
            session.type_text("/")
            session.wait_for("⏎ keep")
            session.send_keys("Escape")
            session.wait_until(lambda text: "is:held" not in text, "all again")
            session.type_text("Y")
            session.wait_for("all that are shown")
            session.send_keys("End", "Enter")
            session.wait_for("Keep all that are shown")
            session.type_text("y")
            session.wait_for("6 of 6 decided")
            session.type_text("P")
            session.wait_for("publish as branch")
            session.send_keys("Enter")
            session.wait_for("Publish as reviewed?")
            session.type_text("y")
            session.wait_for("published as reviewed")
            session.type_text("q")
            assert session.wait_for_end() == 0, "nothing is left open"
        assert desk.git("show", "reviewed:src/a.py") == "both"
        assert desk.git("status", "--porcelain") == "", "the checkout was not touched"


def test_how_it_ends() -> None:
    with a_world() as world:
        make_desk(world.repository)
        with in_terminal(world, "--base", "main", "ada") as session:
            session.wait_for("0 of 2 decided")
            session.type_text("q")
            assert session.wait_for_end() == 1, "a change is left undecided"
        with in_terminal(world, "--base", "main", "nobody") as session:
            assert session.wait_for_end() == 2
            assert "nobody" in session.screen(), "what is wrong is said on the terminal that it was asked on"

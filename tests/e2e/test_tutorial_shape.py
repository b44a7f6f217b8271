"""The blocks of tutorial.sh that split, squash and reword changes, by a decisions file and on the screen."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from core.review.desks import make_desk
from selftest_recorder.e2e.expect import expect
from standins import EMPTY, mngr_that

if TYPE_CHECKING:
    from pathlib import Path

    from core.review.repositories import Repository
    from selftest_recorder.e2e.end_to_end import EndToEnd
    from worlds import World

pytestmark = [pytest.mark.real, pytest.mark.timeout(900)]

TEXT = "".join(f"line {number}\n" for number in range(30))


@pytest.fixture
def desk(tmp_path: Path) -> Repository:
    """Ada and bob with a test and a fix each; zoe with a change of two hunks and a page."""
    made = make_desk(tmp_path / "a desk")
    made.commit("A long file", {"src/long.py": TEXT})
    made.git("checkout", "-q", "-b", "zoe")
    text = TEXT.replace("line 3\n", "three\n").replace("line 20\n", "twenty\n")
    made.commit("Mend two things", {"src/long.py": text, "docs/use.md": "# Use\n"}, "zoe")
    made.git("checkout", "-q", "main")
    return made


SHAPED = """
    # Shape the commits: split a file off one change, squash two others into one commit, and write a message anew.
    printf '{"default": "keep", "splits": {"%s": [{"files": ["docs/use.md"]}]}, "squash": [["%s", "%s"]], "messages": {"%s": "Tidy up"}}' $(git rev-parse zoe ada bob zoe) > decisions.json
    selftest-tui review --batch --base main ada bob zoe --decisions decisions.json --publish shaped
"""  # noqa: E501 -- the block's own line


def test_shape_by_a_decisions_file(e2e: EndToEnd, world: World, desk: Repository) -> None:
    block = e2e.write_tutorial_block(SHAPED)

    result = block.run(environment=world.environment, cwd=desk.folder)

    expect(result).to_succeed()
    found = json.loads(result.stdout.splitlines()[-1])
    items = {item["source"]: item for item in found["items"]}
    ada, bob, zoe = (desk.git("rev-parse", name) for name in ("ada", "bob", "zoe"))
    assert items[ada]["commit"] == items[bob]["commit"]
    parts = [item for item in found["items"] if item["part_of"] == zoe]
    assert [(item["kind"], item["subject"]) for item in parts] == [("docs", "Tidy up"), ("implementation", "Tidy up")]
    assert zoe not in items
    log = desk.git("log", "--format=%s", "main..shaped").splitlines()
    assert sorted(log)[:2] == ["Tests, docs and build files: 3 changes", "Tidy up"]
    assert desk.git("diff", "--name-only", "zoe", "shaped").split() == [
        "src/a.py", "src/b.py", "tests/test_ada.py", "tests/test_bob.py",
    ]  # fmt: skip


@pytest.mark.unhappy
def test_shape_a_change_that_has_no_such_file_any_more(e2e: EndToEnd, world: World, desk: Repository) -> None:
    block = e2e.write_tutorial_block(SHAPED)
    desk.git("checkout", "-q", "zoe")
    (desk.folder / "docs/use.md").unlink()
    desk.git("add", "-A")
    desk.git("commit", "-q", "--amend", "--no-edit")
    desk.git("checkout", "-q", "main")

    result = block.run(environment=world.environment, cwd=desk.folder)

    expect(result).to_have_exit_code(2).stderr.to_contain("cannot be split so", "docs/use.md", "leaves it as it is")
    assert desk.git("branch", "--list", "shaped") == ""


ON_THE_SCREEN = """
    # The same on the screen: `*` selects a hunk, `%` splits, `space` marks and `(` squashes, `^w` opens the message in
    # the editor; `z` undoes each.
    selftest-tui review main..zoe
"""


def test_shape_on_the_screen(e2e: EndToEnd, world: World, desk: Repository) -> None:
    block = e2e.write_tutorial_block(ON_THE_SCREEN)
    mngr_that(world, f"echo '{EMPTY}'")  # there is no agent here: a real one would only take its seconds
    editor = world.script("editor", '#!/bin/sh\nfor last; do :; done\nprintf "fix: line 20\\n" > "$last"\n')
    environment = {**world.environment, "EDITOR": str(editor)}
    with block.pty(environment=environment, cwd=desk.folder, columns=130, lines=40) as session:
        session.wait_for("-18,7 +18,7")
        # The page, the first hunk and the second: the second one alone is kept.
        session.type_text("..*")
        session.wait_for("● @@ -18,7 +18,7")
        session.type_text("%")
        session.wait_for("Keep this hunk only")
        session.type_text("y")
        session.wait_for("2 of 2 decided")
        session.wait_for("1/2 Mend two things")
        session.type_text("\x17")
        session.wait_for("1/2 fix: line 20")
        session.type_text("P")
        session.wait_for("publish as branch")
        session.send_keys("Enter")
        session.wait_for("Publish as reviewed?")
        session.type_text("y")
        session.wait_for("published as reviewed")
        session.type_text("q")
        assert session.wait_for_end() == 0
    assert desk.git("log", "--format=%s", "main..reviewed") == "fix: line 20"
    assert desk.git("show", "reviewed:src/long.py") + "\n" == TEXT.replace("line 20\n", "twenty\n")
    assert desk.git("status", "--porcelain") == "", "the checkout was not touched"


@pytest.mark.unhappy
def test_shape_with_an_editor_that_fails(e2e: EndToEnd, world: World, desk: Repository) -> None:
    block = e2e.write_tutorial_block(ON_THE_SCREEN)
    mngr_that(world, f"echo '{EMPTY}'")
    editor = world.script("editor", '#!/bin/sh\nfor last; do :; done\necho lost > "$last"\nexit 1\n')
    environment = {**world.environment, "EDITOR": str(editor)}
    with block.pty(environment=environment, cwd=desk.folder, columns=130, lines=40) as session:
        session.wait_for("-18,7 +18,7")
        session.type_text("\x17")
        session.wait_for("The message is as it was")
        session.type_text("%")
        session.wait_for("Split “Mend two things”?")
        session.send_keys("Escape")
        session.wait_until(lambda text: "Split “" not in text, "the question is gone")
        session.type_text("q")
        assert session.wait_for_end() == 1, "something is left open"
    (log,) = desk.folder.glob(".selftest/runs/review-*/review.jsonl")
    assert log.read_text().count('"event":') == 1, "it was opened, and nothing else"

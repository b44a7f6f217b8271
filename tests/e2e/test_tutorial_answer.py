"""The blocks of tutorial.sh about answers: blocked agents, whose run has ended, are answered and go on.

The agents are scripts on the real mngr. Each commits what it has, says what blocks it, and ends; with an answer it
commits that, too.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from core.run.fingerprints import fingerprint
from core.run.shop import FILES, commit
from e2e.test_tutorial_runs import ENDED, a_run
from selftest_core.git.command import find_place
from selftest_core.run.fetch.bundles import agent_ref
from selftest_core.run.overview import own_folders
from selftest_recorder.e2e.expect import expect
from worlds import BIN, eventually

if TYPE_CHECKING:
    from pathlib import Path

    from selftest_core.run.store import RunFolder
    from selftest_recorder.e2e.end_to_end import EndToEnd
    from worlds import World

# A deadline for a hang, far beyond what a busy machine needs for four agents.
pytestmark = [pytest.mark.real, pytest.mark.timeout(900)]
PATIENT = 300.0
TAX, TOTAL = "tests/test_tax.py::test_tax", "tests/test_cart.py::test_total"
TESTS = {"tests/test_tax.py": "def test_tax(): ...\n", "tests/test_cart.py": "def test_total(): ...\n"}
AGENT = """#!/bin/sh
cd "$(dirname "$SELFTEST_OUT")/.." || exit 9
name=$(basename "$(dirname "$SELFTEST_TEST")")-$(echo "$SELFTEST_TEST" | tr -c 'a-z\\n' '-')
cp "$SELFTEST_PROMPT_FILE" "$SELFTEST_OUT/prompt-as-read.md"
say() { git add "$name" && git -c user.name=a -c user.email=a@example.org commit -qm "$1"; }
if [ -z "$SELFTEST_ANSWER" ]; then
    echo "half of 513 is 256.5" > "$name" && say "[FIX_TEST] Note the case"
    report='"changes": {}, "escalations": [{"kind": "BLOCKER", "title": "Up?", "detail_markdown": "256 or 257"}]'
else
    test -e "$name" || exit 8
    echo "$SELFTEST_ANSWER" >> "$name" && say "[FIX_IMPL] Round as answered"
    report='"changes": {"FIX_IMPL": {"status": "SUCCEEDED", "summary_markdown": "Rounded."}}, "escalations": []'
fi
printf '%s' "{$report, \\"errored\\": false, \\"tests_passing_after\\": true, \\"summary_markdown\\": \\"Read.\\"}" \\
    > "$SELFTEST_OUT/draft"
mv "$SELFTEST_OUT/draft" "$SELFTEST_OUT/outcome.json"
exec sleep 100000
"""


@pytest.fixture
def shop(world: World) -> World:
    """A repository of two tests, and an agent that is blocked until it has an answer."""
    folder = world.make_repository()
    for name, text in {**FILES, **TESTS, "agent.sh": AGENT, "answer.md": "Up, as\nthe block says.\n"}.items():
        if name not in ("selftest-tui.toml", "tests/test_broken.py"):
            path = folder / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
    (folder / "agent.sh").chmod(0o755)
    commit(world, "A shop")
    world.load_mngr()
    return world


def blocked(world: World, *tests: str) -> RunFolder:
    """A run of these tests that has ended: all are blocked."""
    command: list[str | Path] = [
        BIN / "selftest-tui", "run", "--batch", "--agent-command", "./agent.sh", "--no-verify-on-arrival", *tests,
    ]  # fmt: skip
    world.run(command, cwd=world.repository, timeout=PATIENT, check=False)
    (folder,) = own_folders(world.environment, world.repository)
    run = folder.read()
    assert [(str(row.end), row.commits) for row in run.rows.values()] == [("blocked", 1)] * len(tests)
    assert run.is_over
    return folder


def branch(world: World, folder: RunFolder, test: str) -> list[str]:
    """The subjects of a test's commits over the base, newest first."""
    name = next(name for name, row in folder.read().rows.items() if row.planned.node_id == test)
    ref = agent_ref(folder.run, name)
    said = world.run(["git", "log", "--format=%s", f"{folder.plan().base}..{ref}"], cwd=world.repository)
    return said.stdout.splitlines()


ANSWER = """
    # Answer an agent that is blocked: it goes on in a new attempt, from its commits so far. Neither it nor its run need be
    # running; `--batch` waits until the run has ended again.
    selftest-tui answer --batch "Round half up." tests/test_tax.py::test_tax > answered.jsonl
"""  # noqa: E501 -- the block's own line


def test_a_blocked_agent_is_answered_after_its_run_has_ended(e2e: EndToEnd, shop: World) -> None:
    block = e2e.write_tutorial_block(ANSWER)
    folder = blocked(shop, TAX)
    place = find_place(shop.repository, shop.environment)
    before = {**fingerprint(place, shop.environment), "refs": None}

    result = block.run(environment=shop.environment, cwd=shop.repository, timeout=PATIENT)

    expect(result).to_succeed().stderr.to_contain(f"to {TAX}: ", "Up?")
    summary: dict[str, Any] = json.loads((shop.repository / "answered.jsonl").read_text().splitlines()[-1])
    assert (summary["run"], summary["outcomes"]["succeeded"], summary["outcomes"]["blocked"]) == (folder.run, 1, 0)
    run = folder.read()
    (row,) = run.rows.values()
    assert (str(row.end), row.attempt, row.commits, run.conductors) == ("succeeded", 2, 2, 2)
    assert branch(shop, folder, TAX) == ["[FIX_IMPL] Round as answered", "[FIX_TEST] Note the case"]
    assert len(summary["line"]["items"]) == 2, "both commits are in the review"
    # The new agent was told what the first one asked, and what was answered.
    first, second = (folder.path / "agents" / row.name / f"attempt-{number}" for number in (1, 2))
    prompt = (second / "prompt-as-read.md").read_text()
    assert "Round half up." in prompt
    assert "256 or 257" in prompt
    assert "Round half up." not in (first / "prompt-as-read.md").read_text()
    assert {**fingerprint(place, shop.environment), "refs": None} == before
    assert "mngr-" not in shop.tmux("list-sessions", check=False), "both are stopped"


@pytest.mark.unhappy
def test_a_test_that_had_no_agent_cannot_be_answered(e2e: EndToEnd, world: World) -> None:
    block = e2e.write_tutorial_block(ANSWER)
    folder = a_run(world, ENDED, is_over=True)
    before = folder.journal.read_bytes()

    result = block.run(environment=world.environment, cwd=world.repository)

    expect(result).to_have_exit_code(2).stderr.to_contain(f"There is no test {TAX} in {ENDED}")
    other: list[str | Path] = [BIN / "selftest-tui", "answer", "Up.", folder.plan().tests[0].node_id]
    refused = world.run(other, cwd=world.repository, check=False)
    assert refused.returncode == 2
    assert "it had no agent that could have asked" in refused.stderr
    assert folder.journal.read_bytes() == before
    assert folder.requests() == ()


ALIKE = """
    # One answer, here from a file, to all agents that ask the same. They are named first, and each goes on.
    selftest-tui answer --alike --yes --run 2026 - tests/test_tax.py::test_tax < answer.md
"""


def test_one_answer_goes_to_all_that_ask_the_same(e2e: EndToEnd, shop: World) -> None:
    block = e2e.write_tutorial_block(ALIKE)
    folder = blocked(shop, TAX, TOTAL)

    result = block.run(environment=shop.environment, cwd=shop.repository, timeout=PATIENT)

    expect(result).to_succeed().stderr.to_contain(f"to {TAX}: ", f"to {TOTAL}: ")
    # It returns when both answers are taken; a conductor of its own goes on with the run.
    eventually(lambda: folder.read().is_over and not folder.is_conducted(), "the end of the run", PATIENT)
    rows = folder.read().rows.values()
    assert [(str(row.end), row.attempt, row.commits) for row in rows] == [("succeeded", 2, 2)] * 2
    for row in rows:
        assert row.member is not None
        assert row.member.answer is not None
        assert row.member.answer.text == "Up, as\nthe block says."
        ref = agent_ref(folder.run, row.name)
        shown = shop.run(["git", "show", ref], cwd=shop.repository).stdout
        assert "+Up, as\n+the block says.\n" in shown


@pytest.mark.unhappy
def test_an_empty_answer_is_not_sent(e2e: EndToEnd, world: World) -> None:
    block = e2e.write_tutorial_block(ALIKE)
    folder = a_run(world, ENDED, is_over=True)
    (world.repository / "answer.md").write_text(" \n")

    result = block.run(environment=world.environment, cwd=world.repository)

    expect(result).to_have_exit_code(2).stderr.to_contain("The answer is empty")
    assert folder.requests() == ()

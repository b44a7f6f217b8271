"""Whole demos, with the real mngr: every test gets its end, and nothing is left behind, however they end."""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import signal
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest

from core.demo.demos import a_demo
from selftest_core.cleanup.demo_folders import Claim, processes_of
from selftest_core.config import load_config
from selftest_core.demo.other_roles import HEADING
from selftest_core.demo.scenarios import CAST
from selftest_core.demo.staging import write_settings
from selftest_core.schema.registry import schema
from worlds import BIN, PATIENCE, eventually

if TYPE_CHECKING:
    from selftest_core.demo.scenarios import Role
    from selftest_recorder.e2e.end_to_end import EndToEnd
    from worlds import World

# A deadline for a hang, far beyond what a busy machine needs for a run of fourteen agents.
pytestmark = [pytest.mark.real, pytest.mark.timeout(1800)]
PATIENT = 1600.0
ANSWERED = [role for role in CAST if role.answer]
"""Those that are blocked until a person answers."""


def commits_of(role: Role) -> int:
    """The commits of an agent, with the one that it makes when it has an answer."""
    return 1 if role.answer else len(role.kinds) if role.ends == "succeeded" else 0


def processes_in(folder: Path) -> list[int]:
    """The processes that carry a folder of this folder in their environment (Linux)."""
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and f"={folder}/selftest-demo-".encode() in (entry / "environ").read_bytes():
                found.append(int(entry.name))
    return found


def test_a_demo_brings_every_test_to_the_one_outcome_that_its_story_has(e2e: EndToEnd, world: World) -> None:
    block = e2e.write_tutorial_block("""
        # Their run as lines of JSON, until all have ended. Its status is 1, since work for a person is left by design.
        selftest-tui demo --batch > run.jsonl || test $? = 1
    """)
    world.load_mngr()
    temporary = world.root / "d"
    temporary.mkdir()
    environment = {**world.environment, "TMPDIR": str(temporary), "SELFTEST_DEMO_SPEED": "20"}
    done = block.run(environment=environment, cwd=world.root, timeout=PATIENT)
    assert done.exit_status == 0, done.stderr
    lines = [json.loads(line) for line in (world.root / "run.jsonl").read_text().splitlines()]

    ended = [(line["test"], line["end"]) for line in lines if line["event"] == "ended"]
    again = [(role.test, "succeeded") for role in ANSWERED]
    assert sorted(ended) == sorted([*((role.test, role.ends) for role in CAST), *again]), done.stderr
    commits = {line["test"]: line["commits"] for line in lines if line["event"] == "ended"}
    assert commits == {role.test: commits_of(role) for role in CAST}
    launched = [line["test"] for line in lines if line["event"] == "launched"]
    assert sorted(launched) == sorted(role.test for role in (*CAST, *ANSWERED))
    answered = [(line["test"], line["text"]) for line in lines if line["event"] == "answered"]
    assert answered == [(role.test, role.answer) for role in ANSWERED] != []
    assert [line["why"] for line in lines if line["event"] == "left"] == ["done"]

    summary = lines[-1]
    whole = schema()
    for name, told in (("a line of the journal", lines[:-1]), ("the summary", [summary])):
        described = {"$defs": whole["$defs"], **whole["documents"][f"run --batch, {name}"]}
        validator = jsonschema.Draft202012Validator(described)
        assert [error for line in told for error in validator.iter_errors(line)] == []
    ends = Counter("succeeded" if role.answer else role.ends for role in CAST)
    outcomes = summary["outcomes"]
    assert {**outcomes, "failed": None} == {
        "succeeded": ends["succeeded"], "unchanged": ends["unchanged"], "blocked": ends["blocked"],
        "stopped": 0, "not_started": 0, "failed": None,
    }  # fmt: skip
    assert outcomes["failed"] == {kind: ends[kind] for kind in outcomes["failed"]}
    assert (
        sum(count for count in outcomes.values() if isinstance(count, int)) + sum(outcomes["failed"].values())
        == summary["tests"]
        == len(CAST)
    )
    check_review(summary["line"], done.stderr)
    check_others(summary["others"])
    assert summary["report"].endswith(f"/.selftest/runs/{summary['run']}/report/index.html")
    clustered = sorted(test for cluster in summary["clusters"] for test in cluster["tests"])
    failed = [role.test for role in CAST if role.ends not in ("succeeded", "unchanged") and not role.answer]
    assert clustered == sorted(failed)
    assert {line["run"] for line in lines} == {summary["run"]}

    assert list(temporary.iterdir()) == []
    eventually(lambda: not processes_in(temporary), "the end of its last process")
    assert world.run([BIN / "selftest-tui", "sweep"], env=environment, check=False).returncode == 0


def check_others(others: list[dict[str, Any]]) -> None:
    """Check the runs behind the review: a decided draft, and tests of the uncited block."""
    drafted, written = others
    assert [(one["role"], one["tests"], one["left"]) for one in others] == [
        ("drafter", 1, "done"),
        ("writer", 1, "done"),
    ]
    (heading,) = drafted["draft"]["headings"]
    assert (heading["heading"], heading["state"]) == (HEADING, "drafted")
    assert [block["decision"] for block in heading["blocks"]] == ["keep", "keep", "drop"]
    assert [(one["by"] == "person", one["block"]) for one in drafted["draft"]["findings"]] == [
        (False, None), (True, heading["blocks"][2]["id"]),
    ]  # fmt: skip
    assert (drafted["draft"]["published"], drafted["draft"]["open"]) == ("refs/heads/drafted", 0)
    assert drafted["outcomes"]["succeeded"] == written["outcomes"]["succeeded"] == 1
    assert [(item["subject"], item["kind"]) for item in written["line"]["items"]] == [
        ("[CREATE_TEST] Test a refund in parts", "test")
    ]
    assert written["line"]["published"] == "refs/heads/tests-of-blocks"


def check_review(line: dict[str, Any], says: str) -> None:
    """Check the review of the demo's run: collapsed, resolved, verified, reverted, and published."""
    by_subject = {item["subject"]: item for item in line["items"]}
    commits = sum(map(commits_of, CAST))
    assert len(by_subject) == len(line["items"]) == commits - 1  # two agents made one change
    alike = by_subject["[FIX_IMPL] Round tax half up"]
    assert (len(alike["agents"]), len(alike["sources"]), alike["status"]) == (2, 2, "laid")
    # A third says the same in other words: one row, of which one text is chosen.
    other = by_subject["[FIX_IMPL] Round the tax, do not cut it off"]
    assert (other["row"], other["chosen"], other["status"]) == (alike["row"], False, "dropped")
    assert {item["row"] for item in line["items"] if not item["chosen"]} == {alike["row"]}
    # Two agents mended one line in two ways: one was in conflict, and an integrator resolved it.
    rivals = [
        by_subject[f"[FIX_IMPL] Lock {how}"] for how in ("after five failures, not six", "when no attempt is left")
    ]
    assert {one["decision"] for one in rivals} == {"keep"}
    (resolved,) = (one for one in rivals if one["resolved"])
    assert (resolved["status"], resolved["integration"]["state"]) == ("laid", "resolved")
    assert resolved["resolved_by"] == [resolved["integration"]["agent"]]
    # One claims that its test passes, and it does not; another breaks a test that is not its own.
    wrong = [by_subject[f"[FIX_IMPL] {what}"] for what in ("Let the sum follow the tax", "Format money shortly")]
    assert {(one["status"], one["decision"]) for one in wrong} == {("dropped", "revert")}
    assert {item["decision"] for item in line["items"] if item not in [other, *wrong]} == {"keep"}
    assert (line["published"], line["left_out"]) == ("refs/heads/reviewed", [])
    assert says.count("in conflict, an agent resolves it: Lock ") == 1
    assert says.count("\nresolved by Lock-") == 1
    told = [
        re.sub(r" on [0-9a-f]{12}$", "", said) for said in says.splitlines() if said.startswith(("verif", "revert"))
    ]
    assert (told[0], told[-1]) == ("verified: 6 of 8 tests pass", "verified: 7 of 7 tests pass")
    assert sorted(told[1:-1]) == [
        "reverted, culprit: [FIX_IMPL] Format money shortly: "
        "breaks tests/test_cart.py::test_mean_price_counts_every_thing",
        "reverted, liar: [FIX_IMPL] Let the sum follow the tax: "
        "its agent says that the test passes; it fails on the agent's own tree",
    ]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_a_demo_that_is_interrupted_leaves_nothing(world: World, number: signal.Signals) -> None:
    with a_demo(world, "--agents", "1", speed="0.1") as demo:
        folder = demo.folder()
        if number is signal.SIGINT:
            eventually(lambda: demo.told("launched"), "an agent is there", patience=PATIENCE * 4)
        else:
            eventually(lambda: processes_of(folder), "it is being prepared")
        demo.process.send_signal(number)
        status = demo.process.wait(PATIENCE * 2)

        assert status == 3, demo.why()
        last = demo.lines()[-1]
        assert (last["event"], last.get("left", "")) in (("summary", "interrupted"), ("error", ""))
        assert last["event"] == "summary" or number is signal.SIGHUP
        assert "resume" not in demo.why()
        assert "ending the demo" in demo.why() or number is signal.SIGHUP
        assert demo.left() == []
        assert processes_of(folder) == ()


def test_a_demo_with_claude_names_what_is_missing(world: World) -> None:
    folder = world.root / "bin"
    folder.mkdir()
    for program in ("tmux", "git"):
        found = shutil.which(program)
        assert found
        (folder / program).symlink_to(found)
    temporary = world.root / "d"
    temporary.mkdir()
    env = {"PATH": str(folder), "TMPDIR": str(temporary)}
    done = world.run([BIN / "selftest-tui", "demo", "--batch", "--agent", "claude"], env=env, check=False)
    assert done.returncode == 2
    assert "claude is not installed" in done.stderr
    assert "npm install" in done.stderr
    assert list(temporary.iterdir()) == []


def test_what_a_killed_demo_leaves_is_shown_by_sweep_and_removed_when_agreed(world: World) -> None:
    with a_demo(world, "--agents", "1", speed="0.1") as demo:
        eventually(lambda: demo.told("launched"), "an agent was made", patience=PATIENCE * 4)
        folder = demo.folder()
        demo.process.kill()
        demo.process.wait()
        alive = Claim(demo.environment)  # another demo, which runs: ours is its process

        shown = demo.run("sweep")
        assert shown.returncode == 1
        assert str(folder) in shown.stdout
        assert str(alive.path) not in shown.stdout
        assert processes_of(folder)

        swept = demo.run("sweep", "--yes")
        assert swept.returncode == 0, swept.stderr
        assert not folder.exists()
        assert processes_of(folder) == ()
        assert alive.path.is_dir()
        alive.release()


def test_agents_of_a_demo_that_wait_keep_no_other_waiting_on_a_busy_machine(tmp_path: Path) -> None:
    write_settings(tmp_path, {"agent": "command"}, timeout=60.0, agents=14)

    config = load_config(tmp_path, {})
    assert (config.adapt, config.max_running) == (False, 14)


def test_a_demo_of_no_sensible_size_or_speed_is_refused(world: World) -> None:
    for arguments, speed in ((("--agents", "0"), "1"), (("--agents", "201"), "1"), ((), "fast"), ((), "0")):
        with a_demo(world, *arguments, speed=speed) as demo:
            assert demo.process.wait(PATIENCE) == 2, (arguments, demo.why())
            assert [line["event"] for line in demo.lines()] == ["error"]
            assert demo.left() == []

"""Projects with a tutorial, tests and runs, written to a folder: for the tutorial's screen, its tests and pictures."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

from selftest_core.journal import Journal
from selftest_core.run.events import Event
from selftest_core.run.outcome.ends import End
from selftest_core.run.plan.plan import PlannedTest, Role, RunPlan
from selftest_core.run.store import RunFolder, make_run_folder

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

RUN = "20261121-0931-7f3a"
AT = 1_795_253_460.0

TUTORIAL = """\
#!/usr/bin/env bash
# A tour of the shop.
set -euo pipefail

##################################################
# The cart
##################################################

# What is in it.
shop cart list

shop cart add apple --count 2
shop cart list --json > cart.json

shop cart empty

##################################################
# Paying
##################################################

shop pay --card 4242 --amount 12.50

# Money back, if it was us.
shop refund last --reason damaged

shop export --format csv > sales.csv

##################################################
# Reports
##################################################

cat > report.txt <<END
sales

of today
END
"""

TESTS = {
    "tests/test_cart.py": '''
        import pytest


        def test_list(e2e):
            """The cart is shown.

            Tutorial block:
                # What is in it.
                shop cart list
            """


        @pytest.mark.parametrize("count", [1, 2, 3])
        def test_add(e2e, count):
            e2e.write_tutorial_block("""
                shop cart add apple --count 2
                shop cart list --json > cart.json
            """)


        class TestEmpty:
            async def test_empty(self, e2e):
                e2e.write_tutorial_block("shop cart empty")

            async def test_empty_twice(self, e2e):
                e2e.write_tutorial_block("shop cart empty")
    ''',
    "tests/test_pay.py": '''
        def test_card(e2e):
            e2e.write_tutorial_block("shop pay --card 4242 --amount 12.50")


        def test_refund(e2e):
            """Money goes back.

            Tutorial block:
                # Money back, if it was us.
                shop refund --all --reason broken

            Scope: one order
            """


        def test_loan(e2e):
            e2e.write_tutorial_block("lend | me ; money")
    ''',
    "tests/test_report.py": '''
        def test_report(e2e):
            e2e.write_tutorial_block("""
                cat > report.txt <<END
                sales
            """)


        def test_of_today(e2e):
            e2e.write_tutorial_block(made_up())
    ''',
}

RESULTS: dict[str, tuple[End, str]] = {
    "tests/test_cart.py::test_list": (End.SUCCEEDED, "The list was sorted by chance; it is by name now."),
    "tests/test_cart.py::test_add[1]": (End.UNCHANGED, ""),
    "tests/test_cart.py::test_add[2]": (End.UNCHANGED, ""),
    "tests/test_cart.py::test_add[3]": (End.RED, "AssertionError: 2 apples of 3"),
    "tests/test_cart.py::TestEmpty::test_empty": (End.UNCHANGED, ""),
    "tests/test_cart.py::TestEmpty::test_empty_twice": (End.TIMEOUT, "nothing came within 220 s"),
    "tests/test_pay.py::test_card": (End.BLOCKED, "It needs a key of the bank, which nobody gave me."),
}
"""How the last run ended; tests that are not in here were not in it."""


def write_project(folder: Path, tutorial: str = TUTORIAL, tests: Mapping[str, str] = TESTS) -> Path:
    """Write a tutorial and its tests."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tutorial.sh").write_text(tutorial, encoding="utf-8")
    for name, source in tests.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(source).lstrip("\n"), encoding="utf-8")
    return folder


def a_run_folder(
    folder: Path,
    environ: Mapping[str, str],
    node_ids: Sequence[str],
    run: str = RUN,
    role: Role = "tester",
    blocks: Mapping[str, str] | None = None,
) -> RunFolder:
    """The folder of a run over these tests, before its first line. `blocks`: the block of a writer's task."""
    planned = tuple(
        PlannedTest(
            node_id, f"st-{run[-4:]}-{number:02}", f"agent-{run[-4:]}{number + 1:028x}",
            ((blocks or {})[node_id],) if node_id in (blocks or {}) else (),
        )
        for number, node_id in enumerate(node_ids)
    )  # fmt: skip
    fields: dict[str, Any] = {
        "run": run, "repository": str(folder), "base": "a" * 40, "provider": "local", "agent_type": "command",
        "agent_command": ("agent",), "transfer": "mirror", "env_names": (), "max_running": 6, "launch_rate": 1.0,
        "timeout": 220.0, "budget_usd": None, "usd_per_agent": None, "create_args": (), "on_cluster": "go",
        "pytest_command": ("pytest",), "pytest_args": (), "tests": planned, "left_out": (), "created_at": AT,
        "role": role,
    }  # fmt: skip
    return make_run_folder(RunPlan(**fields), environ)


def write_run(
    folder: Path,
    environ: Mapping[str, str],
    results: Mapping[str, tuple[End, str]] = RESULTS,
    working: Sequence[str] = (),
    run: str = RUN,
    role: Role = "tester",
    blocks: Mapping[str, str] | None = None,
) -> RunFolder:
    """A run whose tests ended so, and one agent each that still works on those in `working`."""
    made = a_run_folder(folder, environ, [*results, *working], run, role, blocks)
    plan = made.plan()
    with Journal(made.journal) as journal:
        at = AT
        journal.append(Event.CONDUCTING, at, pid=1)
        for test in plan.tests:
            at += 1
            about = {"agent": test.agent_name, "attempt": 1}
            journal.append(Event.LAUNCHING, at, **about, agent_id=test.agent_id, name=test.agent_name)
            journal.append(Event.LAUNCHED, at, **about, host_id="host-1", provider="local", adopted=False)
            if test.node_id in results:
                end, text = results[test.node_id]
                journal.append(Event.PULLING, at, **about, stamp="1")
                journal.append(Event.ENDED, at, **about, end=str(end), stage="work", text=text, tip="", commits=0)
                journal.append(Event.STOPPED, at, **about, says="")
    return made

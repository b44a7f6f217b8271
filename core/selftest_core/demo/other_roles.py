"""The stories of the demo's agents that are no testers. Data only, as in `scenarios`.

The drafter fills the heading without blocks, and one of its blocks is a bad example, which it says. The writer covers
the one block that no test cites, with a happy and an unhappy test. The integrator resolves the two fixes of one line.
"""

from __future__ import annotations

from selftest_core.demo.sample import FILES
from selftest_core.demo.scenarios import Role
from selftest_core.tutorial.tutorial import parse_blocks

HEADING = "Put a cart aside"
"""The heading of the sample's tutorial that has no block."""
UNCITED = """\
# A refund may come in parts: each of them is paid back.
./acme pay refund --paid 500 --cents 200 --cents 100"""
"""The block of the sample's tutorial that no test cites."""

_BENEATH = f"# {HEADING}\n{'#' * 50}\n"
_SAVE = """\
# A cart for Friday: saved beside the one in use.
./acme cart add tea --count 2
./acme cart save friday.json"""
_MERGE = """\
# Bring it back, and see what both cost.
./acme cart merge friday.json
./acme cart total"""
_BAD = """\
# Merge a cart that nobody saved.
./acme cart merge monday.json"""
WRITTEN_TESTS = "tests/test_refund_in_parts.py"
"""The file of tests that the writer adds, which holds `WRITTEN`."""
WRITTEN = f'''\
"""./acme pay refund, in parts"""

import os
import subprocess

import pytest


def acme(line, home):
    environment = {{**os.environ, "ACME_HOME": str(home)}}
    return subprocess.run(line, shell=True, env=environment, capture_output=True, text=True)


def test_each_part_is_paid_back(tmp_path):
    """
    Tutorial block:
        {UNCITED.replace("\n", "\n        ")}
    """
    done = acme("./acme pay refund --paid 500 --cents 200 --cents 100", tmp_path)
    assert (done.returncode, done.stdout) == (0, "2.00 1.00\\n")


@pytest.mark.unhappy
def test_a_part_that_is_no_amount_is_refused(tmp_path):
    """
    Tutorial block:
        {UNCITED.replace("\n", "\n        ")}
    """
    done = acme("./acme pay refund --paid 500 --cents 200 --cents some", tmp_path)
    assert done.returncode == 2
    assert "invalid int value: 'some'" in done.stderr
    assert done.stdout == ""
'''


def _task_of(text: str) -> str:
    # As `sync.gaps` names it, which the first frame of a demo does not wait for.
    line = next(block.line for block in parse_blocks(FILES["tutorial.sh"]).blocks if block.text == text)
    return f"tutorial.sh:{line} {text.splitlines()[1]}"


DRAFTER = Role(
    HEADING,
    (
        ["say", f"The heading “{HEADING}” has no block yet. I will see what the shop can do."],
        ["think", 2.0],
        ["read", "shop/main.py"],
        ["bash", "./acme cart add tea --count 2 && ./acme cart save friday.json && ./acme cart merge friday.json"],
        ["bash", "./acme cart merge monday.json"],
        ["say", "Merging a cart that nobody saved says nothing, and its status is 0. A user would think it worked."],
        ["edit", "tutorial.sh", _BENEATH, f"{_BENEATH}\n{_SAVE}\n\n{_MERGE}\n\n{_BAD}\n"],
        ["commit", "FIX_TUTORIAL", f"Fill in “{HEADING}”", "Three examples; the third shows what is confusing."],
        [
            "report",
            "Three blocks. The third is a bad example: the interface is confusing there.",
            {
                "escalations": [
                    {
                        "kind": "CONFUSING_INTERFACE",
                        "title": "confusing because merging a cart that nobody saved says nothing, and ends with 0",
                        "detail_markdown": "It merges an empty cart, so that a mistyped name looks like success.",
                        "locations": [{"path": "shop/main.py", "line": 56}],
                    }
                ]
            },
        ],
    ),
)
"""Its test is the heading."""

WRITER = Role(
    _task_of(UNCITED),
    (
        ["say", "No test cites this block. It pays a refund back in two parts."],
        ["think", 2.0],
        ["read", "tutorial.sh"],
        ["bash", UNCITED.splitlines()[-1]],
        ["say", "One test for what it promises, and one for a part that is no amount."],
        ["create", WRITTEN_TESTS, WRITTEN],
        ["test", WRITTEN_TESTS],
        ["commit", "CREATE_TEST", "Test a refund in parts", "A happy and an unhappy test cite the block."],
        ["report", "The block is cited by two tests, one of them unhappy. Both pass.", {}],
    ),
)
"""Its test is the task of the uncited block."""

INTEGRATOR = Role(
    "integrator",
    (
        ["say", "Both sides count failures to lock the door. I will look at each."],
        ["think", 2.0],
        ["bash", "ls .selftest/task"],
        [
            "say",
            "One calculates with the announced attempts, the other with the failures: the door needs both to agree.",
        ],
        [
            "resolve",
            "shop/login.py",
            "        return self.left(name) == 0 and self.failed.get(name, 0) >= ATTEMPTS\n",
        ],
        ["report", "Both counts decide: none is left, and five have failed.", {}],
    ),
)
"""Its test is its role: the ids of conflicts begin with those of commits."""

OTHER_ROLES = (DRAFTER, WRITER, INTEGRATOR)

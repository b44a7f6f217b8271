"""Names and labels of a run's agents.

A name is read in tables, typed after `mngr connect`, and used in host names, branches and tmux sessions. It starts with
the words of its test, has only letters, digits and hyphens, is shorter than the limits of providers (Modal: 64 with its
prefix), and never ends with a hyphen. A hash distinguishes names that were cut, and the last digits of the run id
distinguish two runs of one test on one host. A name depends only on its test and run: adding a test renames no other.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Iterable

    from selftest_core.run.plan.plan import Role

LONGEST = 50
"""Characters of a name."""
LONGEST_LABEL = 200
"""Characters of a label's value: providers store labels as tags, and cut long ones."""
RUN_LABEL = "selftest_run"
ROLE_LABEL = "selftest_role"
TEST_LABEL = "selftest_test"

_HASH = 8
_UNFIT = re.compile(r"[^A-Za-z0-9]+")
_PLAIN = re.compile(r"[\x20-\x7e\xa1-\ud7ff\uf900-\ufdcf\ufdf0-\ufffd]*")


def agent_names(run: str, node_ids: Iterable[str]) -> dict[str, str]:
    """Make the name of each test's agent, by node id. The same run and test always give the same name."""
    given: dict[str, str] = {}
    taken: set[str] = set()
    for node_id in dict.fromkeys(node_ids):
        name = _name(run, node_id, 0)
        for attempt in range(1, 1000):
            if name not in taken:
                break
            name = _name(run, node_id, attempt)
        taken.add(name)
        given[node_id] = name
    return given


def labels(run: str, node_id: str, role: Role | Literal["smoke"] = "tester") -> dict[str, str]:
    """Make the labels of an agent: they tell its run and test on any machine."""
    return {RUN_LABEL: run, ROLE_LABEL: role, TEST_LABEL: label_of(node_id)}


def label_of(node_id: str) -> str:
    """Return the node id if it is a valid label, else its beginning and a hash."""
    if len(node_id) <= LONGEST_LABEL and _PLAIN.fullmatch(node_id):
        return node_id
    digest = _digest(node_id)[:16]
    plain = "".join(letter if _PLAIN.fullmatch(letter) else "?" for letter in node_id)
    return f"{plain[: LONGEST_LABEL - len(digest) - 1]}#{digest}"


def _name(run: str, node_id: str, attempt: int) -> str:
    ending = f"-{_digest(f'{attempt}:{node_id}' if attempt else node_id)[:_HASH]}-{run[-4:]}"
    return _words(node_id)[: LONGEST - len(ending)].rstrip("-") + ending


def _words(node_id: str) -> str:
    """Return the words of the test function's name and parameters, without its path."""
    place, bracket, parameters = node_id.partition("[")
    function = place.rpartition("::")[2].removeprefix("test_")
    plain = unicodedata.normalize("NFKD", f"{function}{bracket}{parameters}")
    return (
        _UNFIT.sub("-", "".join(letter for letter in plain if not unicodedata.combining(letter))).strip("-") or "test"
    )


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()

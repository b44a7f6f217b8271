"""What the agents of a run are called, and the labels that say what each is for.

An agent's name is read by people in a table and typed after `mngr connect`, and it ends up in host names, branch
names and tmux sessions. So it begins with the words of its test, has letters, digits and hyphens alone, is cut before
providers cut it (Modal at 64 with a prefix of its own), and never ends in a hyphen, which is refused. The hash behind
the words keeps cut names apart, and the run's last digits keep two runs of one test apart on one host.

A name is made of its test and run alone, so that adding a test renames no other.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Iterable

LONGEST = 50
"""Characters of a name."""
LONGEST_LABEL = 200
"""Characters of a label's value: providers keep labels as tags, and cut long ones."""
RUN_LABEL = "selftest_run"
ROLE_LABEL = "selftest_role"
TEST_LABEL = "selftest_test"

type Role = Literal["tester", "integrator", "smoke"]

_HASH = 8
_UNFIT = re.compile(r"[^A-Za-z0-9]+")
_PLAIN = re.compile(r"[\x20-\x7e\xa1-\ud7ff\uf900-\ufdcf\ufdf0-\ufffd]*")


def agent_names(run: str, node_ids: Iterable[str]) -> dict[str, str]:
    """The name of each test's agent, by node id. The same run and test always give the same name.

    `run` is a run's id; its last four characters go into the names.
    """
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


def labels(run: str, node_id: str, role: Role = "tester") -> dict[str, str]:
    """The labels of an agent, from which its run and test are found again on any machine."""
    return {RUN_LABEL: run, ROLE_LABEL: role, TEST_LABEL: label_of(node_id)}


def label_of(node_id: str) -> str:
    """The node id itself where a label can hold it, else its beginning and a hash of the whole."""
    if len(node_id) <= LONGEST_LABEL and _PLAIN.fullmatch(node_id):
        return node_id
    digest = _digest(node_id)[:16]
    plain = "".join(letter if _PLAIN.fullmatch(letter) else "?" for letter in node_id)
    return f"{plain[: LONGEST_LABEL - len(digest) - 1]}#{digest}"


def _name(run: str, node_id: str, attempt: int) -> str:
    ending = f"-{_digest(f'{attempt}:{node_id}' if attempt else node_id)[:_HASH]}-{run[-4:]}"
    return _words(node_id)[: LONGEST - len(ending)].rstrip("-") + ending


def _words(node_id: str) -> str:
    """The test function's own words: what tells it from its neighbours is what it is called, not where it stands."""
    place, bracket, parameters = node_id.partition("[")
    function = place.rpartition("::")[2].removeprefix("test_")
    plain = unicodedata.normalize("NFKD", f"{function}{bracket}{parameters}")
    return (
        _UNFIT.sub("-", "".join(letter for letter in plain if not unicodedata.combining(letter))).strip("-") or "test"
    )


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()

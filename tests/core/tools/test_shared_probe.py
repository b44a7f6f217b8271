"""Listings of terminals that leave a doubt: the agents that they concern are probed by mngr itself."""

from __future__ import annotations

import re
from types import SimpleNamespace

import pytest

from selftest_core.tools.loaded.shared_probe import PROCESSES, Listing

ONE, TWO = f"agent-{'1' * 32}", f"agent-{'2' * 32}"


def listing(*lines: str, says: bool = True, has_processes: bool = True) -> Listing:
    """A listing of these lines, each after the mark that was asked for."""

    def run(command: str) -> SimpleNamespace:
        if command == PROCESSES:
            return SimpleNamespace(stdout="1 0 init", success=has_processes)
        mark = re.search(r"-F '(\w+)\|", command)
        assert mark is not None
        return SimpleNamespace(stdout="\n".join(line.replace("MARK", mark[1]) for line in lines), success=says)

    return Listing(run)


FIRST = f"MARK|{ONE}|mngr-one|agent|@1|0|sleep|11"
SECOND = f"MARK|{TWO}|mngr-two|agent|@2|1||22"


def test_an_agent_is_found_by_its_id_and_else_by_the_name_of_its_session() -> None:
    found = listing(FIRST, f"MARK|{ONE}|mngr-one|agent|@1|0|vim|12", SECOND, "MARK||mngr-old|agent|@3|0|bash|33")

    assert found.terminal(ONE, "mngr-renamed", "agent") == "0|sleep|11", "the first pane of its window"
    assert found.terminal(TWO, "mngr-two", "agent") == "1||22"
    assert found.terminal(f"agent-{'3' * 32}", "mngr-old", "agent") == "0|bash|33"
    assert found.terminal(f"agent-{'4' * 32}", "mngr-four", "agent") == "", "it has no session"


def test_without_a_tmux_server_no_agent_has_a_session() -> None:
    assert listing().terminal(ONE, "mngr-one", "agent") == ""


@pytest.mark.parametrize(
    "found",
    [
        listing(f"MARK|{ONE}|mngr-one|other|@1|0|sleep|11", SECOND),
        listing(FIRST, f"MARK|{ONE}|mngr-one|agent|@3|0|sleep|33", SECOND),
        listing(FIRST, f"MARK|{ONE}|mngr-copy|agent|@3|0|sleep|33", SECOND),
    ],
    ids=["no window of the name", "two windows of the name", "two sessions with the id"],
)
def test_an_agent_in_doubt_is_not_answered_for_and_another_is(found: Listing) -> None:
    assert found.terminal(ONE, "mngr-one", "agent") is None
    assert found.terminal(TWO, "mngr-two", "agent") == "1||22"


@pytest.mark.parametrize(
    "found",
    [
        listing(FIRST, SECOND, says=False),
        listing(FIRST, SECOND, has_processes=False),
        listing(FIRST, SECOND, "MARK||mngr-a|agent|@3|0|a|b|33"),
        listing(FIRST, SECOND, f"MARK|{TWO}|mngr-b"),
        listing(f"{'0' * 16}|{TWO}|mngr-two|agent|@2|0|sleep|99", FIRST, SECOND),
    ],
    ids=["tmux failed", "ps failed", "a program with a bar", "a line cut short", "a line without the mark"],
)
def test_an_odd_listing_answers_for_no_agent(found: Listing) -> None:
    assert [found.terminal(ONE, "mngr-one", "agent"), found.terminal(TWO, "mngr-two", "agent")] == [None, None]

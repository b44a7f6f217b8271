"""Rows of a repository with the repetition of real runs: one intent may need several, no row has two intents."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from scenario import make_scenario
from selftest_core.git.command import Git, environment
from selftest_core.git.object_store import ObjectStore
from selftest_core.review.changes.plan import make_plan, resolve_branches

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("seed", [14, 15])
def test_no_row_has_two_intents_and_few_intents_have_two_rows(tmp_path: Path, seed: int) -> None:
    told = make_scenario(tmp_path, seed)
    user = Git(told.repository / ".git", environment({"PATH": os.environ["PATH"]}))
    with ObjectStore(user) as store:
        plan = make_plan(store, resolve_branches(user, "main", told.branches))
    agents = {change.oid: change.agents for change in plan.changes}
    intents = [{told.intent_of[agent] for oid in row.members for agent in agents[oid]} for row in plan.rows]
    assert [found for found in intents if len(found) > 1] == []
    assert len(told.intents) == 71
    assert len(intents) <= 71 + 6, "before rows: 92"

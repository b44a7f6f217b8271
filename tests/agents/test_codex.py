"""The row of the table of situations that is about Codex."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from agents.real_agents import PROGRAMS, Real, as_it_is, real_agents
from selftest_core.agent_types.condition import Kind
from selftest_core.agents import State
from selftest_core.fleet.view import Category

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.agents, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def real() -> Iterator[Real]:
    with real_agents() as made:
        yield made


def test_a_turn_of_codex_is_work(real: Real) -> None:
    real.world.run([PROGRAMS / "codex", "login", "--with-api-key"], text="sk-scripted\n")
    overrides = "agent_types.codex.config_overrides"
    real.create(
        "codex", "PLAY sleep 20", "-S", f"{overrides}.openai_base_url={real.model.url}/v1",
        "-S", f"{overrides}.model=scripted",
        # Its own sandbox is not the subject, and does not start on every machine that has bubblewrap.
        "-S", f"{overrides}.sandbox_mode=danger-full-access", agent_type="codex",
    )  # fmt: skip
    called = real.tool_called("codex", 0.0)
    real.says("Codex in a turn", "codex", called, as_it_is(Kind.WORKING, Category.WORKING))
    said = real.listing("codex")
    assert (said["state"], said["attention"]) == ("RUNNING", False)
    ended = real.turn_ended("codex", called)
    real.says("Codex after its turn", "codex", ended, as_it_is(Kind.TURN_ENDED, Category.NEEDS_YOU, "its turn ended"))
    # It never said that it waits while its turn lasted.
    for watcher in real.watchers:
        waited = [one for one in watcher.said["codex"] if one.row.agent.state is State.WAITING]
        assert not [one for one in waited if called < one.at < ended], waited

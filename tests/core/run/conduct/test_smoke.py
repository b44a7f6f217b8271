"""Smoke agents run first, one on each place; after a failure nothing starts. Conductors may be killed meanwhile."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.run.rehearsals import POLL, a_plan, a_rehearsal
from selftest_core.run.conduct.policy import Policy
from selftest_core.run.conduct.smoke_agents import ASKED_TO_STOP
from selftest_core.run.events import Event
from selftest_core.run.fold import Member
from selftest_core.run.log_lines import log_line
from selftest_core.run.outcome.outcome_file import parse_outcome
from selftest_core.run.plan.plan import plan_from_json, plan_json
from selftest_core.run.plan.prompt import render_smoke_prompt
from selftest_core.run.providers import place_of
from selftest_core.run.smoke import nonce_of, report_of, smoke_of
from selftest_core.run.store import RequestKind, RunRequest
from selftest_core.schema.run import exit_status, run_summary
from simulated.crew import Role, SimulatedCrew

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from core.run.rehearsals import Rehearsal
    from selftest_core.journal import Entry
    from selftest_core.run.crew.crew import Seen
    from selftest_core.run.fold import Run


def with_smoke(folder: Path, tests: int = 2, places: tuple[str, ...] = ("local",), **changes: Any) -> Rehearsal:
    rehearsal = a_rehearsal(
        folder, [Role.SUCCEEDS] * tests, agent_type="claude", agent_command=None, smoke=places, **changes,
    )  # fmt: skip
    rehearsal.world.is_interactive = True
    return rehearsal


def play_role(rehearsal: Rehearsal, role: Role, place: str = "local", number: int = 1) -> None:
    """Let a smoke agent play this role."""
    name = smoke_of(rehearsal.plan, place, number).name
    rehearsal.world.roles = {**rehearsal.world.roles, name: role}


def events(rehearsal: Rehearsal) -> list[str]:
    return [entry.event for entry in rehearsal.ledger.entries]


def test_it_goes_ahead_of_all_others_and_is_no_test(tmp_path: Path) -> None:
    rehearsal = with_smoke(tmp_path)
    assert rehearsal.conduct() == "done"
    told = events(rehearsal)
    assert told.index(Event.SMOKING) < told.index(Event.SMOKED) < told.index(Event.LAUNCHING)
    assert set(rehearsal.outcomes().values()) == {"succeeded"}
    (smoke,) = rehearsal.run.smoke
    assert smoke.is_ok
    assert rehearsal.world.agents[smoke.agent_id].stopped_at is not None
    summary = run_summary(rehearsal.run, 0.0).model_dump(mode="json")
    assert summary["tests"] == 2
    (item,) = summary["smoke"]
    assert (item["provider"], item["type"], item["outcome"]) == ("local", "claude", "succeeded")
    assert item["seconds"] > 0


def test_each_place_has_one_and_one_that_fails_lets_nothing_start(tmp_path: Path) -> None:
    rehearsal = with_smoke(tmp_path, places=("local", "modal"))
    play_role(rehearsal, Role.OPENS_A_DIALOG, "modal")
    said: list[str] = []

    def listen(run: Run, entry: Entry) -> None:
        said.append(log_line(run, entry))

    assert rehearsal.conduct(on_change=listen) == "smoke"
    assert Event.LAUNCHING not in events(rehearsal)
    run = rehearsal.run
    assert {one.place: one.is_ok for one in run.smoke} == {"local": True, "modal": False}
    assert "A dialog is open in the agent's terminal" in run.smoke[1].says + run.smoke[0].says
    assert exit_status(run) == 1
    assert {str(end): count for end, count in run.ends().items() if count} == {"not_started": 2}
    assert rehearsal.world.live(rehearsal.passed) == []
    assert any("failed: it did not get its prompt" in line for line in said)
    # What it was is mended: the place that worked is not tried again.
    assert rehearsal.conduct() == "done"
    assert [(one.place, one.number) for one in rehearsal.run.smoke if one.place == "local"] == [("local", 1)]
    assert exit_status(rehearsal.run) == 0


@pytest.mark.parametrize(
    ("role", "says"),
    [
        (Role.FAILS_TO_LAUNCH, "quota of host"),
        (Role.FORGETS, "it ended its turn without an outcome"),
        (Role.CRASHES, "its program ended without an outcome"),
        (Role.HANGS, "it wrote no outcome within"),
        (Role.ASKS, "a dialog blocks it"),
    ],
)
def test_it_says_why_it_failed_and_is_stopped(tmp_path: Path, role: Role, says: str) -> None:
    rehearsal = with_smoke(tmp_path)
    play_role(rehearsal, role)
    assert rehearsal.conduct() == "smoke"
    (smoke,) = rehearsal.run.smoke
    assert says in smoke.says
    assert rehearsal.world.live(rehearsal.passed) == []


def test_an_outcome_without_its_word_proves_nothing(tmp_path: Path) -> None:
    class Liars(SimulatedCrew):
        def _written(self, agent: object) -> bytes | None:
            return b'{"errored": false, "summary_markdown": "smoke 000000000000"}'

    rehearsal = with_smoke(tmp_path)
    rehearsal.crew = Liars
    assert rehearsal.conduct() == "smoke"
    assert "not the one that its prompt asked for" in rehearsal.run.smoke[0].says


def test_a_run_that_is_stopped_meanwhile_ends(tmp_path: Path) -> None:
    rehearsal = with_smoke(tmp_path)
    rehearsal.folder.add_request(RunRequest(RequestKind.STOP))
    assert rehearsal.conduct() == "stopped"
    assert set(rehearsal.outcomes().values()) == {"not_started"}
    assert rehearsal.run.smoke[0].says == ASKED_TO_STOP
    assert rehearsal.world.live(rehearsal.passed) == []


def test_an_unexpected_error_is_a_smoke_agent_that_failed(tmp_path: Path) -> None:
    class Odd(SimulatedCrew):
        async def create(self, member: Member) -> Seen:
            if not member.node_id:
                raise KeyError("local")
            return await super().create(member)

    rehearsal = with_smoke(tmp_path)
    rehearsal.crew = Odd
    assert rehearsal.conduct() == "smoke"
    assert "KeyError: 'local'" in rehearsal.run.smoke[0].says


@pytest.mark.parametrize("method", ["look", "send"])
def test_an_unexpected_error_leaves_no_smoke_agent(method: str, tmp_path: Path) -> None:
    class Odd(SimulatedCrew):
        async def look(self, members: Sequence[Member]) -> Mapping[str, Seen]:
            if method == "look":
                raise KeyError("local")
            return await super().look(members)

        async def send(self, member: Member, text: str) -> None:
            if method == "send":
                raise KeyError("local")
            await super().send(member, text)

    rehearsal = with_smoke(tmp_path)
    rehearsal.crew = Odd
    assert rehearsal.conduct() == "smoke"
    assert rehearsal.world.live(rehearsal.passed) == []


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 100_000), kills=st.lists(st.one_of(st.integers(1, 6), st.floats(0.1, 60.0)), max_size=4))
def test_killed_anywhere_it_ends_the_same_and_leaves_no_smoke_agent(
    seed: int, kills: list[float], tmp_path_factory: pytest.TempPathFactory
) -> None:
    policy = Policy(poll=POLL)
    rehearsal = with_smoke(tmp_path_factory.mktemp("run"), 1, seed=seed, policy=policy, launch_retries=20)
    for kill in kills:
        if isinstance(kill, int):
            rehearsal.conduct(lives=kill)
        else:
            rehearsal.conduct(seconds=kill)
    assert rehearsal.conduct() == "done"
    assert rehearsal.outcomes() == {"agent-00": "succeeded"}
    assert rehearsal.world.live(rehearsal.passed) == []
    assert sum(one.is_ok is True for one in rehearsal.run.smoke) == 1
    assert all(one.is_ok is not None for one in rehearsal.run.smoke)
    assert all(len(agent.prompted_at) <= 1 for agent in rehearsal.world.agents.values())


def test_the_prompt_asks_for_the_outcome_that_proves_it(tmp_path: Path) -> None:
    agent_id = f"agent-{'7' * 32}"
    prompt = render_smoke_prompt(agent_id)
    command = prompt.split("```sh\n")[1].split("\n```")[0]
    subprocess.run(["sh", "-c", command], check=True, env={"SELFTEST_OUT": str(tmp_path), "PATH": "/usr/bin:/bin"})
    written = (tmp_path / "outcome.json").read_bytes()
    assert json.loads(written) == json.loads(report_of(agent_id))
    assert parse_outcome(written).summary == nonce_of(agent_id)


def test_a_plan_keeps_its_places_and_an_older_one_has_none() -> None:
    plan = a_plan(1, smoke=("local", "box.pool"), provider="local,box.pool")
    assert plan_from_json(json.loads(json.dumps(plan_json(plan)))) == plan
    older = {name: value for name, value in plan_json(plan).items() if name != "smoke"}
    assert plan_from_json(older).smoke == ()
    for place in plan.smoke:
        smoke = smoke_of(plan, place, 2)
        assert place_of(plan, Member(smoke.name, "", 2, smoke.agent_id, smoke.name)) == place

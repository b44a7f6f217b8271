"""The fake mngr is held to the real one: the same keys and types, the same refusals."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from selftest_core.demo.fake_fleet import fake_environ, lay_out
from selftest_core.demo.private import PrivateWorld
from selftest_core.listing import parse_listing
from selftest_core.probe import Probe
from selftest_core.tools.process import Completed, run

if TYPE_CHECKING:
    from collections.abc import Iterator

    from worlds import World


class Fake:
    """A small fake fleet and its program."""

    def __init__(self, world: PrivateWorld) -> None:
        self.world = world
        self.agents = lay_out(world, 40)
        self.environ = fake_environ(world, world.tools_environ)

    def mngr(self, *words: str, text: str | None = None) -> Completed:
        return run(("mngr", *words), timeout=60, cwd=self.world.root, env=self.environ, input=text)


@pytest.fixture(scope="module")
def fake(shared_world: World) -> Iterator[Fake]:
    world = PrivateWorld({**shared_world.environment, "TMPDIR": str(shared_world.root)})
    try:
        yield Fake(world)
    finally:
        world.end()


def shape(value: Any) -> Any:
    """Keys and types of an answer, values left out."""
    if isinstance(value, dict):
        return {key: shape(each) for key, each in value.items()}
    if isinstance(value, list):
        return [shape(value[0])] if value else []
    return "number" if isinstance(value, int | float) and not isinstance(value, bool) else type(value).__name__


def answer(done: Completed) -> dict[str, Any]:
    said: dict[str, Any] = json.loads(done.stdout)
    return said


@pytest.mark.real
def test_both_answer_in_the_same_shapes(shared_world: World, fake: Fake) -> None:
    name = "st-7f-real"
    shared_world.create(name, "sleep", "100000", labels={"selftest_run": "7f"}, more=("--transfer", "git-worktree"))

    def real(*words: str, text: str | None = None) -> Completed:
        return run(
            ("mngr", *words),
            timeout=120,
            cwd=shared_world.repository,
            env=shared_world.environment,
            input=text,
        )

    real_agent = answer(real("list", "--format", "json"))["agents"][0]
    waiting = next(agent for agent in fake.agents if agent.kind == "waiting")
    listed = {agent["id"]: agent for agent in answer(fake.mngr("list", "--format", "json"))["agents"]}
    fake_agent = listed[waiting.id]
    for agent in (real_agent, fake_agent):
        agent["labels"] = {}
    assert shape(fake_agent) == shape(real_agent)
    assert fake_agent["state"] == real_agent["state"] == "WAITING"

    address = f"{real_agent['id']}@{real_agent['host']['id']}.local"
    fake_address = f"{waiting.id}@{fake_agent['host']['id']}.local"
    for words, text in (
        (("message", "{}", "--no-start", "--format", "json"), "hello"),
        (("stop", "{}", "--format", "json"), None),
        (("message", "{}", "--no-start", "--format", "json"), "hello"),
        (("start", "{}", "--format", "json"), None),
        (("destroy", "-f", "{}", "--format", "json"), None),
        (("destroy", "-f", "{}", "--format", "json"), None),
        (("stop", "{}", "--format", "json"), None),
    ):
        told = real(*(word.format(address) for word in words), text=text)
        copied = fake.mngr(*(word.format(fake_address) for word in words), text=text)
        assert (copied.exit_status, bool(copied.stdout)) == (told.exit_status, bool(told.stdout)), words
        if told.stdout:
            assert shape(answer(copied)) == shape(answer(told)), words
        assert bool(copied.stderr) >= ("Error" in told.stderr), words


def test_our_parser_and_our_probe_see_one_fleet(fake: Fake) -> None:
    listed = parse_listing(fake.mngr("list", "--format", "json").stdout, at=1.0, provider=None)
    probed = Probe(fake.environ).look(1.0)

    assert len(listed.agents) >= 39
    assert listed.errors == ()
    assert {agent.id: agent.state for agent in listed.agents} == {agent.id: agent.state for agent in probed.agents}
    assert len({agent.state for agent in probed.agents}) == 4
    assert {agent.exit_status for agent in probed.agents} == {None, 0, 3}


def test_only_the_asked_provider_answers(fake: Fake) -> None:
    assert answer(fake.mngr("list", "--format", "json", "--provider", "modal")) == {"agents": [], "errors": []}


def test_it_refuses_a_folder_that_is_no_fake_fleet(shared_world: World, fake: Fake) -> None:
    done = run(
        ("mngr", "list", "--format", "json"),
        timeout=60,
        cwd=shared_world.root,
        env={**fake.environ, "MNGR_HOST_DIR": str(shared_world.host_dir)},
    )

    assert done.exit_status != 0
    assert "not a fake fleet" in done.stderr


def test_a_message_reaches_the_pane(fake: Fake) -> None:
    agent = next(agent for agent in fake.agents if agent.kind == "working")
    fake.mngr("message", agent.name, "--format", "json", text="look at line 12")

    answered = run(
        ("tmux", "-S", str(fake.world.socket), "capture-pane", "-p", "-t", f"=mngr-{agent.name}:"),
        timeout=30,
        cwd=fake.world.root,
    )
    assert "look at line 12" in answered.stdout

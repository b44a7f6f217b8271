"""The fake mngr has the keys, types and refusals of the real one."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

import loaded_mngr
from selftest_core.demo.private_world import PrivateWorld
from selftest_core.fleet.sources.mngr_list import parse_listing
from selftest_core.fleet.sources.probe import Probe
from selftest_core.tools.process import Completed, run
from simulated.fleet import fake_environ, lay_out
from simulated.mngr import FLAPPING
from worlds import BIN, ROOT, eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

    from selftest_core.fleet.observations import Probed
    from worlds import World

FIXTURES = ROOT / "tests/fixtures/mngr/0.3.0"
UNKNOWN = "agent-ffffffffffffffffffffffffffffffff"


class Fake:
    """A small fake fleet and its program."""

    def __init__(self, world: PrivateWorld) -> None:
        self.world = world
        self.agents = lay_out(world, 40)
        self.environ = fake_environ(world, world.tools_environ)
        eventually(self.is_up, "its programs")

    def is_up(self) -> bool:
        """True once each agent runs its program: before that, its pane shows the shell that starts it."""
        states = {agent["id"]: agent["state"] for agent in answer(self.mngr("list", "--format", "json"))["agents"]}
        up = [agent for agent in self.agents if agent.kind in ("working", "waiting", "asking")]
        return all(states[agent.id] in ("RUNNING", "WAITING") for agent in up)

    def mngr(self, *words: str, text: str | None = None) -> Completed:
        return run(("mngr", *words), timeout=3000, cwd=self.world.root, env=self.environ, input=text)


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


class Real:
    """The real mngr with one real agent, listed once while it waits."""

    def __init__(self, world: World) -> None:
        self.world = world
        world.create("st-7f-real", "sleep", "100000", more=("--transfer", "git-worktree"))
        self.listed = eventually(self.waiting, "an agent that waits")

    def waiting(self) -> dict[str, Any]:
        listed: list[dict[str, Any]] = self.world.listing()["agents"]
        return listed[0] if listed[0]["state"] == "WAITING" else {}

    def mngr(self, *words: str, text: str | None = None) -> Completed:
        if text is None:  # the loaded one says the same, and has nothing to read
            env, cwd = self.world.environment, self.world.repository
            done = loaded_mngr.call(BIN / "mngr", words, env=env, cwd=cwd, timeout=3000)
            return Completed(tuple(done.args), done.returncode, done.stdout, done.stderr, 0.0)
        return run(("mngr", *words), timeout=3000, cwd=self.world.repository, env=self.world.environment, input=text)


@pytest.fixture(scope="module")
def real(shared_world: World) -> Real:
    return Real(shared_world)


def a_waiting_one(fake: Fake) -> dict[str, Any]:
    waiting = {agent.id for agent in fake.agents if agent.kind == "waiting"}
    listed = answer(fake.mngr("list", "--format", "json"))["agents"]
    return next(agent for agent in listed if agent["id"] in waiting)


def address(agent: dict[str, Any], agent_id: str = "") -> str:
    return f"{agent_id or agent['id']}@{agent['host']['id']}.local"


def assert_same(copied: Completed, told: Completed) -> None:
    assert (copied.exit_status, bool(copied.stdout)) == (told.exit_status, bool(told.stdout)), told.argv
    if told.stdout:
        assert shape(answer(copied)) == shape(answer(told)), told.argv
    assert ("Error" in copied.stderr) == ("Error" in told.stderr), told.argv


@pytest.mark.real
def test_both_list_an_agent_with_the_same_keys_and_types(real: Real, fake: Fake) -> None:
    copied = a_waiting_one(fake)

    assert shape({**copied, "labels": {}}) == shape({**real.listed, "labels": {}})
    assert copied["state"] == real.listed["state"] == "WAITING"


@pytest.mark.real
def test_both_say_the_same_of_messages_and_of_stopping(real: Real, fake: Fake) -> None:
    copied = address(a_waiting_one(fake))
    for verb in ("message", "stop", "message"):
        more = ("--no-start",) if verb == "message" else ()
        text = "hello" if verb == "message" else None
        assert_same(
            fake.mngr(verb, copied, *more, "--format", "json", text=text),
            real.mngr(verb, address(real.listed), *more, "--format", "json", text=text),
        )


@pytest.mark.real
def test_both_refuse_an_unknown_agent_alike(real: Real, fake: Fake) -> None:
    here, there = address(real.listed, UNKNOWN), address(a_waiting_one(fake), UNKNOWN)
    for words in (("stop",), ("destroy", "-f")):
        assert_same(fake.mngr(*words, there, "--format", "json"), real.mngr(*words, here, "--format", "json"))


def test_our_parser_and_our_probe_see_one_fleet(fake: Fake) -> None:
    listed = parse_listing(fake.mngr("list", "--format", "json").stdout, at=1.0, provider=None)
    assert len(listed.agents) >= 39
    assert listed.errors == ()
    told = {agent.id: agent.state for agent in listed.agents}

    def same() -> Probed | None:
        """Forty programs have just been started."""
        seen = Probe(fake.environ).look(1.0)
        return seen if {agent.id: agent.state for agent in seen.agents} == told else None

    probed = eventually(same, "the same states")
    assert probed is not None
    assert len({agent.state for agent in probed.agents}) == 4
    assert {agent.exit_status for agent in probed.agents} == {None, 0, 3}


def test_only_the_asked_provider_answers(fake: Fake) -> None:
    assert answer(fake.mngr("list", "--format", "json", "--provider", "modal")) == {"agents": [], "errors": []}


def test_a_flapping_provider_has_its_agents_an_error_or_nothing(fake: Fake) -> None:
    flapping = fake.world.host_dir / FLAPPING
    flapping.write_text("3 0", encoding="utf-8")
    try:
        asked = [fake.mngr("list", "--format", "json", "--provider", "boxes") for _ in range(4)]
        everything = [fake.mngr("list", "--format", "json") for _ in range(4)]
    finally:
        flapping.unlink()

    captured = json.loads((FIXTURES / "err_down_json.out").read_bytes())
    assert shape(answer(asked[1])["errors"][0]).keys() == shape(captured["errors"][0]).keys()
    listed = [parse_listing(done.stdout, at=1.0, provider="boxes") for done in asked]
    assert [(len(one.agents), len(one.errors)) for one in listed] == [(3, 0), (0, 1), (3, 0), (0, 0)]
    assert [done.exit_status for done in asked] == [0, 1, 0, 0]
    # A healthy provider is in each answer, and one whose answer is empty was not destroyed.
    listed = [parse_listing(done.stdout, at=1.0, provider=None) for done in everything]
    remote = [sum(agent.host.provider == "boxes" for agent in one.agents) for one in listed]
    assert remote == [3, 0, 3, 3]
    assert all(len(one.agents) >= 39 for one in listed)


def test_it_refuses_a_folder_that_is_no_fake_fleet(shared_world: World, fake: Fake) -> None:
    done = run(
        ("mngr", "list", "--format", "json"),
        timeout=3000,
        cwd=shared_world.root,
        env={**fake.environ, "MNGR_HOST_DIR": str(shared_world.host_dir)},
    )

    assert done.exit_status != 0
    assert "not a fake fleet" in done.stderr


def test_a_message_reaches_the_pane(fake: Fake) -> None:
    agent = next(agent for agent in fake.agents if agent.kind == "working")
    fake.mngr("message", agent.name, "--format", "json", text="look at line 12")

    def shown() -> str:
        argv = ("tmux", "-S", str(fake.world.socket), "capture-pane", "-p", "-t", f"=mngr-{agent.name}:")
        return run(argv, timeout=300, cwd=fake.world.root).stdout

    eventually(lambda: "look at line 12" in shown(), "the message on the screen")

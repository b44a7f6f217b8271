"""Acting on agents: the real mngr on real agents, one of them on another tmux server; and stand-ins that fail."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pytest

from selftest_core.actions.agent_actions import BATCH, Act, ActResult, Target, steer, target_of
from selftest_core.agents import Agent, AgentKey, State
from selftest_core.fleet.sources.mngr_list import parse_listing
from selftest_core.fleet.view import Category, Row
from selftest_core.tools.mngr import Mngr, MngrProgram, find_mngr
from selftest_core.tools.tmux import SessionRef
from worlds import PATIENCE, ROOT, eventually

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from worlds import World

CAPTURED = ROOT / "tests" / "fixtures" / "mngr" / "0.3.0"
EATER = """#!/bin/sh
# Writes down where it was started, then every line that it is told.
echo "started on ${TMUX%%,*}" >> "$1"
while read -r line; do echo "told $line" >> "$1"; done
"""


def outcome(results: Sequence[ActResult]) -> dict[str, tuple[bool, str]]:
    return {result.target.name: (result.ok, result.text) for result in results}


# --- stand-ins for an mngr that fails --------------------------------------------------------------------------------


@dataclass
class StandIn:
    """A program named mngr that lists what it is told to, and does `script` for anything else."""

    folder: Path
    states: dict[str, str]
    script: str
    errors: list[dict[str, Any]] = field(default_factory=list)
    after: dict[str, str] | None = None
    names: dict[str, str] = field(default_factory=dict)

    def start(self) -> Mngr:
        self._list("list.json", self.states)
        self._list("after.json", self.states if self.after is None else self.after)
        path = self.folder / "mngr"
        path.write_text(
            "#!/bin/sh\n"
            'if [ "$1" = --version ]; then echo 0.3.0; exit; fi\n'
            'echo "${TMUX-none}|$*" >> calls\n'
            'if [ "$1" = list ]; then cat list.json; exit; fi\n'
            f"{self.script}\n"
        )
        path.chmod(0o755)
        return Mngr(MngrProgram(path, "PATH"), {"PATH": "/usr/bin:/bin", "TMUX_TMPDIR": str(self.folder)}, self.folder)

    def _list(self, name: str, states: dict[str, str]) -> None:
        agents = [
            {
                "id": f"agent-{n}",
                "name": self.names.get(n, n),
                "state": s,
                "host": {"id": "host-1", "provider": "local"},
            }
            for n, s in states.items()
        ]
        (self.folder / name).write_text(json.dumps({"agents": agents, "errors": self.errors}))

    def calls(self) -> list[tuple[str, str, list[str]]]:
        """(TMUX, command, addresses) of each call that acted."""
        lines = [line.partition("|") for line in (self.folder / "calls").read_text().splitlines()]
        acts = [(tmux, words.split()) for tmux, _, words in lines if not words.startswith("list")]
        return [(tmux, words[0], [word for word in words if "@" in word]) for tmux, words in acts]


def target(name: str, state: State = State.WAITING, host: str = "host-1", **more: Any) -> Target:
    key = AgentKey(host, f"agent-{name}")
    return Target(key, f"{key.agent_id}@{host}.local", name, more.pop("provider", "local"), more.get("socket"), state)


STOPPED_ALL = 'cp after.json list.json; printf \'{"stopped_agents": ["a", "b"], "failures": []}\''


async def test_what_may_run_unseen_is_neither_started_nor_taken_away(tmp_path: Path) -> None:
    stand_in = StandIn(tmp_path, {"a": "STOPPED", "b": "STOPPED"}, 'printf \'{"started_agents": ["b"]}\'')
    mngr = stand_in.start()
    unseen = replace(target("a", State.UNKNOWN), doubt="it may run")
    for act in (Act.STOP, Act.DESTROY):
        (result,) = await steer(mngr, act, [unseen])
        assert (result.ok, result.text) == (False, "it may run")
    started = await steer(mngr, Act.START, [unseen, target("b", State.STOPPED)])
    assert outcome(started) == {"a": (False, "it may run"), "b": (True, "started")}
    assert [(command, addresses) for _, command, addresses in stand_in.calls()] == [("start", ["agent-b@host-1.local"])]


async def test_a_call_killed_half_way_is_judged_by_what_is_left(tmp_path: Path) -> None:
    stand_in = StandIn(tmp_path, {"a": "WAITING", "b": "WAITING"}, "cp after.json list.json; kill -9 $$")
    stand_in.after = {"b": "STOPPED"}
    results = await steer(stand_in.start(), Act.DESTROY, [target("a"), target("b")])
    a, b = results
    assert (a.ok, b.ok) == (True, False)
    assert "it is still there (STOPPED)" in b.text
    assert b.hint


async def test_a_stop_that_did_not_stop_is_no_success_whatever_mngr_says(tmp_path: Path) -> None:
    stand_in = StandIn(tmp_path, {"a": "WAITING", "b": "WAITING"}, STOPPED_ALL)
    stand_in.after = {"a": "STOPPED", "b": "WAITING"}
    told: list[ActResult] = []
    results = await steer(stand_in.start(), Act.STOP, [target("a"), target("b")], on_result=told.append)
    assert outcome(results) == {"a": (True, "stopped"), "b": (False, "mngr says stopped, but it is still WAITING")}
    # Told at once, and again where the second look said otherwise.
    assert [(each.target.name, each.ok) for each in told] == [("a", True), ("b", True), ("b", False)]


async def test_a_stop_that_cannot_be_verified_says_so(tmp_path: Path) -> None:
    stand_in = StandIn(tmp_path, {}, "echo nonsense > list.json; " + STOPPED_ALL.partition("; ")[2])
    (a, _) = await steer(stand_in.start(), Act.STOP, [target("a"), target("b")])
    assert a.ok
    assert "Not verified" in a.hint


async def test_an_agent_of_a_silent_provider_is_not_taken_for_gone(tmp_path: Path) -> None:
    silent = [{"message": "no route", "provider_name": "local"}]
    stand_in = StandIn(tmp_path, {}, "echo 'Error: no route' >&2; exit 1", errors=silent)
    (result,) = await steer(stand_in.start(), Act.DESTROY, [target("a")])
    assert not result.ok
    assert "no route" in result.text


async def test_a_message_that_may_have_arrived_is_never_sent_twice(tmp_path: Path) -> None:
    for number, (script, timeouts) in enumerate(
        (
            ("kill -9 $$", (PATIENCE,)),
            ("sleep 1000", (0.5, 5.0, 50.0)),  # a busy machine may not have come to the end of its input before
            ("echo boom >&2; exit 1", (PATIENCE,)),
        )
    ):
        for timeout in timeouts:
            folder = tmp_path / f"{number} {timeout:g}"
            folder.mkdir()
            script = f"cat > saying; mv saying said; {script}"
            stand_in = StandIn(folder, {"a": "WAITING", "b": "WAITING"}, script)
            targets = [target("a"), target("b")]
            results = await steer(stand_in.start(), Act.MESSAGE, targets, "hello", timeout=timeout)
            assert [result.ok for result in results] == [False, False]
            if (folder / "said").exists():
                break
        assert len(stand_in.calls()) == 1
        assert (folder / "said").read_text() == "hello"


async def test_a_call_that_hangs_ends_at_its_deadline(tmp_path: Path) -> None:
    stand_in = StandIn(tmp_path, {"a": "WAITING", "b": "STOPPED"}, "sleep 1000")
    results = await steer(stand_in.start(), Act.STOP, [target("a"), target("b")], timeout=0.3)
    assert [result.ok for result in results] == [False, True]
    assert "did not answer within 0.3 s" in results[0].text


async def test_a_call_never_has_more_than_ten_targets(tmp_path: Path) -> None:
    targets = [target(f"n{number}") for number in range(25)]
    answer = '{{"started_agents": [{}]}}'.format(", ".join(f'"{each.name}"' for each in targets))
    stand_in = StandIn(tmp_path, {}, f"echo '{answer}'")
    results = await steer(stand_in.start(), Act.START, [*targets, targets[0]])
    assert [result.target for result in results] == targets
    assert all(result.ok for result in results)
    sizes = [len(addresses) for _, _, addresses in stand_in.calls()]
    assert max(sizes) <= BATCH
    assert sum(sizes) == 25


async def test_each_tmux_server_and_each_provider_has_its_own_calls(tmp_path: Path) -> None:
    default = Mngr(MngrProgram(tmp_path, "PATH"), {"TMUX_TMPDIR": str(tmp_path)}, tmp_path).default_socket
    targets = [
        target("a"),
        target("b", socket="/t/other"),
        target("c", socket=default),
        target("d", host="host-2", provider="boxes"),
        target("e", State.DONE, socket="/t/other"),
    ]
    stand_in = StandIn(tmp_path, {}, 'echo \'{"started_agents": ["a", "b", "c", "d", "e"]}\'')
    await steer(stand_in.start(), Act.START, targets)
    calls = sorted((tmux, tuple(addresses)) for tmux, _, addresses in stand_in.calls())
    assert calls == sorted(
        [
            ("none", ("agent-a@host-1.local", "agent-c@host-1.local")),
            ("none", ("agent-d@host-2.local",)),
            ("/t/other,0,0", ("agent-b@host-1.local",)),
            ("/t/other,0,0", ("agent-e@host-1.local",)),
        ]
    )


async def test_agents_of_one_name_never_share_a_call_whose_answer_has_names_only(tmp_path: Path) -> None:
    stand_in = StandIn(tmp_path, {}, 'echo \'{"started_agents": ["a"]}\'')
    results = await steer(stand_in.start(), Act.START, [target("a"), target("a", host="host-2")])
    assert [result.ok for result in results] == [True, True]
    assert [len(addresses) for _, _, addresses in stand_in.calls()] == [1, 1]


async def test_an_agent_renamed_meanwhile_has_its_answer_all_the_same(tmp_path: Path) -> None:
    stand_in = StandIn(
        tmp_path, {"a": "WAITING", "b": "WAITING"}, "cat > said; echo >> sent; cat answer", names={"a": "z"}
    )
    mngr = stand_in.start()
    (tmp_path / "answer").write_text('{"successful_agents": ["z", "b"], "failed_agents": []}')
    results = await steer(mngr, Act.MESSAGE, [target("a"), target("b")], "hi")
    assert outcome(results) == {"a": (True, "sent"), "b": (True, "sent")}
    assert (tmp_path / "sent").read_text() == "\n"


async def test_one_unknown_address_does_not_keep_the_others_from_being_served(tmp_path: Path) -> None:
    # As mngr does: with an unknown address it does nothing at all, and ends with 0.
    script = """cat > /dev/null
    case "$*" in *agent-gone@*) echo '{"successful_agents": [], "failed_agents": []}'; exit;; esac
    for word; do case $word in agent-*) name=${word#agent-}; echo ${name%%@*} >> sent;; esac; done
    echo '{"successful_agents": ["a", "b"], "failed_agents": []}' """
    stand_in = StandIn(tmp_path, {"a": "WAITING", "b": "WAITING"}, script)
    results = await steer(stand_in.start(), Act.MESSAGE, [target("a"), target("gone"), target("b")], "hi")
    assert outcome(results) == {
        "a": (True, "sent"),
        "gone": (False, "it is not there any more"),
        "b": (True, "sent"),
    }
    assert (tmp_path / "sent").read_text().split() == ["a", "b"]


async def test_what_was_replaced_is_not_called_started(tmp_path: Path) -> None:
    stand_in = StandIn(tmp_path, {"a": "REPLACED"}, 'echo \'{"started_agents": ["a"]}\'')
    (result,) = await steer(stand_in.start(), Act.START, [target("a", State.REPLACED)])
    assert not result.ok
    assert result.hint == "Stop it first, then start it."


@pytest.mark.parametrize("text", ["", " \n\t"])
async def test_an_empty_message_is_not_sent(tmp_path: Path, text: str) -> None:
    (result,) = await steer(StandIn(tmp_path, {}, "exit").start(), Act.MESSAGE, [target("a")], text)
    assert (result.ok, result.text) == (False, "the message is empty")
    assert not (tmp_path / "calls").exists()


async def test_a_broken_mngr_is_every_targets_result_with_the_cure(tmp_path: Path) -> None:
    mngr = StandIn(tmp_path, {}, "exit").start()
    mngr.program.path.write_text("#!/bin/sh\necho mngr, version 0.2.2\n")
    results = await steer(mngr, Act.STOP, [target("a"), target("b")])
    assert [result.ok for result in results] == [False, False]
    assert "0.2.2 does not work" in results[0].text
    assert "upgrade" in results[0].hint
    assert await steer(mngr, Act.STOP, []) == ()


async def test_cancelling_ends_the_running_call(tmp_path: Path) -> None:
    mngr = StandIn(tmp_path, {}, "echo > begun; sleep 1000").start()
    task = asyncio.create_task(steer(mngr, Act.STOP, [target("a")]))
    await asyncio.to_thread(eventually, (tmp_path / "begun").exists, "the call")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def test_a_row_names_its_address_its_state_and_its_server() -> None:
    *_, remote = parse_listing((CAPTURED / "remote_list.out").read_text("utf-8"), at=1.0, provider=None).agents
    local = parse_listing((CAPTURED / "list1_json.out").read_text("utf-8"), at=1.0, provider=None).agents[0]
    session = SessionRef("/t/other", "mngr-a-done")
    made = target_of(Row(local, Category.DONE, "probe", session=session))
    assert (made.socket, made.provider, made.state) == ("/t/other", "local", State.DONE)
    assert made.address == f"{local.id}@{local.host.id}.local"
    made = target_of(Row(remote, Category.WAITING, "mngr", session=session))
    assert (made.socket, made.provider) == (None, "boxes")


async def test_a_call_that_fails_for_one_is_made_for_each(tmp_path: Path) -> None:
    script = """case "$*" in *agent-bad@*) echo "Error: no work dir  [make it]" >&2; exit 1;; esac
    echo '{"started_agents": ["a", "b"]}' """
    stand_in = StandIn(tmp_path, {"a": "STOPPED", "bad": "STOPPED", "b": "STOPPED"}, script)
    results = await steer(stand_in.start(), Act.START, [target("a"), target("bad"), target("b")])
    assert [result.ok for result in results] == [True, False, True]
    assert "no work dir" in results[1].text
    assert results[1].hint == "make it"


async def test_destroying_what_is_gone_is_no_failure(tmp_path: Path) -> None:
    stand_in = StandIn(tmp_path, {}, "exit 0")
    assert outcome(await steer(stand_in.start(), Act.DESTROY, [target("a")])) == {"a": (True, "gone")}
    both = await steer(stand_in.start(), Act.DESTROY, [target("a"), target("b")])
    assert outcome(both) == {"a": (True, "gone"), "b": (True, "gone")}


# --- the real mngr ---------------------------------------------------------------------------------------------------


@pytest.mark.real
@pytest.mark.timeout(600)  # some twenty calls of mngr, on a machine that may be busy
async def test_real_agents_are_steered_on_the_server_that_has_them(world: World) -> None:
    world.make_repository()
    world.load_mngr()
    eater = world.script("eater", EATER)
    socket = str(world.socket.with_name("other"))
    world.create("here", eater, world.root / "here.txt")
    world.create("done", world.script("quick", f'#!/bin/sh\necho started >> "{world.root}/done.txt"\n'))
    world.run(["tmux", "-S", socket, "new-session", "-d", "-s", "mine", "sleep 1000"])
    world.extra["TMUX"] = f"{socket},0,0"
    world.create("there", eater, world.root / "there.txt")
    del world.extra["TMUX"]
    environ = {**world.environment, "TMUX": "/no/where,1,1"}
    mngr = Mngr(find_mngr(environ), environ, world.root)

    def told(name: str) -> list[str]:
        path = world.root / f"{name}.txt"
        return path.read_text().splitlines() if path.exists() else []

    async def until(name: str, *lines: str) -> None:
        await asyncio.to_thread(eventually, lambda: told(name) == list(lines), f"{lines} in {name}")

    here_starts, there_starts = f"started on {world.socket}", f"started on {socket}"
    await until("here", here_starts)
    await until("there", there_starts)
    await until("done", "started")

    def seen() -> dict[str, Agent]:
        told = parse_listing(json.dumps(world.listing("--provider=local")), at=1.0, provider="local")
        return {agent.name: agent for agent in told.agents}

    def once_done() -> dict[str, Agent]:
        """The agents, once the shell of the one that has ended has its prompt again."""
        found = seen()
        return found if found["done"].state is State.DONE else {}

    listed = await asyncio.to_thread(eventually, once_done, "the end of a program")
    # This is what makes it needful: seen from mngr's own server, the agent on the other one looks stopped.
    assert listed["there"].state is State.STOPPED
    here, there, done = (
        Target(listed[name].key, listed[name].address, name, "local", where, listed[name].state)
        for name, where in (("here", str(world.socket)), ("there", socket), ("done", str(world.socket)))
    )
    key = AgentKey(here.key.host_id, "agent-" + "0" * 32)
    unknown = Target(key, f"{key.agent_id}@{key.host_id}.local", "nobody", "local")

    # A message, an unknown address among its targets: each has a result of its own, and the text arrives as it is.
    sent = outcome(await steer(mngr, Act.MESSAGE, [here, there, unknown], "hello\n-m ünï"))
    assert sent == {"here": (True, "sent"), "there": (True, "sent"), "nobody": (False, "it is not there any more")}
    await until("here", here_starts, "told hello", "told -m ünï")
    await until("there", there_starts, "told hello", "told -m ünï")

    stopped = outcome(await steer(mngr, Act.STOP, [there, here]))
    assert stopped == {"there": (True, "stopped"), "here": (True, "stopped")}

    # What ended by itself is really started again, and each where it was: one more start, and no second process.
    started = outcome(await steer(mngr, Act.START, [there, here, done]))
    assert set(started.values()) == {(True, "started")}
    await until("done", "started", "started")
    await until("here", here_starts, "told hello", "told -m ünï", here_starts)
    await until("there", there_starts, "told hello", "told -m ünï", there_starts)

    destroyed = outcome(await steer(mngr, Act.DESTROY, [there, here, done]))
    assert set(destroyed.values()) == {(True, "destroyed")}
    assert seen() == {}
    assert world.run(["tmux", "-S", socket, "list-sessions", "-F", "#S"]).stdout.split() == ["mine"]

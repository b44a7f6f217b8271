"""Reading `mngr list`: every captured answer, the same cut short anywhere, and what no mngr should say but might."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from selftest_core.agents import AgentKey, State
from selftest_core.errors import ToolError, ToolFailedError, ToolOutputError
from selftest_core.fleet.sources.mngr_list import parse_listing
from selftest_core.tools.mngr import split_error
from worlds import ROOT

if TYPE_CHECKING:
    from selftest_core.fleet.observations import Listed

CAPTURED = ROOT / "tests" / "fixtures" / "mngr" / "0.3.0"
LOCAL = "host-12705af9626e47c29cba3e8a4d8c3a80"
WHOLE = {
    # name: (exit status, agents, errors)
    "list0_json.out": (0, 0, 0),
    "list1_json.out": (0, 1, 0),
    "list_5_json.out": (0, 5, 0),
    "list_states_json.out": (0, 9, 0),
    "list_bad_provider.out": (0, 0, 0),
    "remote_list.out": (0, 6, 0),
    "err_down_json.out": (1, 5, 1),
    "err_blackhole.out": (1, 5, 1),
    "corrupt_json.out": (1, 0, 1),
    "missing_datajson.out": (0, 67, 0),
    "workdir_gone.out": (0, 68, 0),
    "perf_10.json": (0, 10, 0),
    "perf_100.json": (0, 100, 0),
    "v2_list0.json": (6, 0, 1),
}
NO_LISTING = (
    "err_down_human.out",
    "err_down_jsonl.out",
    "list_states_jsonl.out",
    "list0_schema.out",
    "list0_hosts.out",
    "list_hosts_json.out",
    "list_hosts_jsonl.out",
    "notmux_list.out",
    "destroy_force.out",
    "msg_json.out",
    "stop_json.out",
    "start_json.out",
)
NO_ANSWER = ("badcfg_backend", "badcfg_key", "badcfg_toml", "stop_missing", "transcript")


def captured(name: str) -> str:
    return (CAPTURED / name).read_text("utf-8")


def read(text: str, **more: Any) -> Listed:
    return parse_listing(text, at=1000.0, provider=more.pop("provider", None), **more)


def said(name: str = "list1_json.out", index: int = 0) -> dict[str, Any]:
    agent: dict[str, Any] = json.loads(captured(name))["agents"][index]
    return agent


def listing(*agents: object, errors: object = ()) -> str:
    return json.dumps({"agents": list(agents), "errors": errors})


@pytest.mark.parametrize(("name", "exit_status", "agents", "errors"), [(n, *rest) for n, rest in WHOLE.items()])
def test_every_captured_listing_is_read_whole(name: str, exit_status: int, agents: int, errors: int) -> None:
    text = captured(name)
    listed = read(text, exit_status=exit_status, seconds=1.5)
    document = json.loads(text)
    assert [agent.id for agent in listed.agents] == [each["id"] for each in document["agents"]]
    assert [agent.state_word for agent in listed.agents] == [each["state"] for each in document["agents"]]
    assert (len(listed.agents), len(listed.errors)) == (agents, errors)
    assert (listed.at, listed.provider, listed.seconds) == (1000.0, None, 1.5)


def test_every_field_of_an_agent_arrives() -> None:
    agent = next(a for a in read(captured("remote_list.out")).agents if not a.host.is_local)
    assert agent.key == AgentKey("host-c190d7a53e035e4c8f328cd3c708cabd", "agent-5637dc76a2cf4ed7a9f2de70290efc75")
    assert agent.address == f"{agent.id}@{agent.host.id}.boxes"
    assert (agent.name, agent.type, agent.state) == ("r-sleep", "command", State.WAITING)
    assert (agent.command, agent.branch) == ("sleep 400000", "mngr/r-sleep")
    assert agent.labels["kind"] == "remote"
    assert agent.created_at is not None
    assert 1.7e9 < agent.created_at < 1.9e9
    assert agent.started_at is not None
    assert agent.started_at >= agent.created_at
    assert agent.pid is not None
    assert agent.host.name == "box1"
    assert agent.host.state == "RUNNING"
    assert agent.host.ssh is not None
    assert (agent.host.ssh.user, agent.host.ssh.port) == ("root", 2222)
    assert agent.host.ssh.command.endswith("-p 2222 root@127.0.0.1")


def test_each_state_of_the_captured_zoo_is_known() -> None:
    states = {agent.name: agent.state for agent in read(captured("list_states_json.out")).agents}
    assert states["a-done"] is State.DONE
    assert states["d-none"] is State.STOPPED
    assert states["c-crash"] is State.REPLACED
    assert {agent.state for agent in read(captured("list_5_json.out")).agents} > {State.RUNNING_UNKNOWN_AGENT_TYPE}


def test_a_provider_that_is_down_is_named_beside_the_healthy_agents() -> None:
    (error,) = read(captured("err_down_json.out"), exit_status=1, stderr=captured("err_down_json.err")).errors
    assert (error.provider, error.message) == ("boxes", "Offline hosts not supported for this provider")
    (error,) = read(captured("v2_list0.json"), exit_status=6).errors
    assert error.provider == "modal"
    assert error.is_unreachable
    assert "Modal token missing or invalid" in error.message
    assert error.hint.startswith("run `modal token new`")


def test_a_host_that_cannot_be_read_is_named_and_no_provider_is_blamed() -> None:
    (error,) = read(captured("corrupt_json.out"), exit_status=1, provider="local").errors
    assert (error.provider, error.host_id, error.agent_id) == (None, LOCAL, None)
    assert "Invalid control character" in error.message


@pytest.mark.parametrize("name", NO_LISTING)
def test_the_answer_of_another_command_is_no_listing(name: str) -> None:
    with pytest.raises(ToolOutputError):
        read(captured(name))


@pytest.mark.parametrize("name", NO_ANSWER)
def test_an_error_without_an_answer_keeps_what_mngr_said(name: str) -> None:
    stderr = captured(f"{name}.err")
    with pytest.raises(ToolFailedError) as raised:
        read(captured(f"{name}.out"), exit_status=1, stderr=stderr)
    assert raised.value.detail
    assert raised.value.detail in stderr
    assert not raised.value.detail.startswith("Error")
    assert raised.value.tool_exit_status == 1


@pytest.mark.parametrize("name", ["list_states_json.out", "err_down_json.out", "v2_list0.json", "corrupt_json.out"])
def test_an_answer_cut_anywhere_is_an_error_and_never_a_shorter_fleet(name: str) -> None:
    text = captured(name).rstrip()
    cuts = [*range(1, len(text) - 1, 97), len(text) - 1, len(text) - 2]
    for cut in cuts:
        with pytest.raises(ToolOutputError) as raised:
            read(text[:cut], exit_status=-9)
        assert "SIGKILL" in raised.value.detail, cut
    assert len(read(text).agents) == len(json.loads(text)["agents"])


@pytest.mark.parametrize(
    ("text", "exit_status", "title"),
    [
        ("", 0, "gave no answer"),
        ("", -9, "gave no answer"),
        (" \n", 0, "gave no answer"),
        ("Traceback (most recent call last):\n  boom", 1, "no JSON"),
        ("\x1b[31mno\x1b[0m", 0, "no JSON"),
        ("\x00\x00", 0, "no JSON"),
        ("[]", 0, "something else"),
        ("null", 0, "something else"),
        ("12", 0, "something else"),
        ('"agents"', 0, "something else"),
        ("{}", 0, "something else"),
        ('{"agents": null}', 0, "something else"),
        ('{"agents": {}, "errors": []}', 0, "something else"),
        ('{"agents": [], "errors": "all"}', 0, "something else"),
        ("[" * 200_000, 0, "no JSON"),
        ('{"agents": ' + "[" * 200_000, 0, "cut short"),
        ('{"agents": [' + "1" * 10_000 + "]}", 0, "cut short"),
    ],
)
def test_what_is_no_listing_is_a_clear_error(text: str, exit_status: int, title: str) -> None:
    with pytest.raises(ToolOutputError) as raised:
        read(text, exit_status=exit_status)
    assert title in raised.value.title
    assert len(str(raised.value)) < 2000


def test_lines_that_a_plugin_prints_around_the_answer_do_not_spoil_it() -> None:
    noise = "WARNING: plugin x is old\n{'not': json}\n"
    assert read(noise + captured("list_5_json.out") + "bye\n") == read(captured("list_5_json.out"))


def test_errors_without_agents_are_still_an_answer() -> None:
    listed = read('{"errors": [{"message": "all is lost", "provider_name": "modal", "help_text": "pray"}]}')
    assert listed.agents == ()
    assert (listed.errors[0].provider, listed.errors[0].message, listed.errors[0].hint) == (
        "modal",
        "all is lost",
        "pray",
    )


def test_a_failure_that_the_listing_does_not_mention_is_not_swallowed() -> None:
    (error,) = read(listing(), exit_status=1, stderr="Error: odd  [do this]").errors
    assert (error.message, error.hint) == ("odd", "do this")
    (error,) = read(listing(), exit_status=-15).errors
    assert "SIGTERM" in error.message


@pytest.mark.parametrize(
    "broken",
    [
        None,
        [],
        "agent",
        {},
        {"name": "nameless"},
        {**said(), "id": ""},
        {**said(), "id": "--force"},
        {**said(), "id": "a b"},
        {**said(), "id": "agent-1\n"},
        {**said(), "id": 5},
        {**said(), "name": ""},
        {**said(), "name": None},
        {**said(), "host": None},
        {**said(), "host": {"id": "host-1"}},
        {**said(), "host": {**said()["host"], "id": None}},
        {**said(), "host": {**said()["host"], "provider_name": None}},
    ],
)
def test_one_agent_that_cannot_be_read_costs_that_one_alone(broken: Any) -> None:
    good = [said("list_5_json.out", 0), said("list_5_json.out", 1)]
    listed = read(listing(good[0], broken, good[1]))
    assert [agent.id for agent in listed.agents] == [each["id"] for each in good]
    (error,) = listed.errors
    assert "cannot be read" in error.message


def test_an_unreadable_agent_is_named_by_what_can_be_read_of_it() -> None:
    (error,) = read(listing({**said(), "name": 7})).errors
    assert (error.provider, error.host_id, error.agent_id) == ("local", LOCAL, said()["id"])


@pytest.mark.parametrize(
    ("field", "value", "attribute", "expected"),
    [
        ("state", "DREAMING", "state", State.UNKNOWN),
        ("state", "DREAMING", "state_word", "DREAMING"),
        ("state", None, "state", State.UNKNOWN),
        ("state", ["RUNNING"], "state", State.UNKNOWN),
        ("pid", "12", "pid", None),
        ("pid", True, "pid", None),
        ("labels", None, "labels", {}),
        ("labels", {"n": 5, "s": "x"}, "labels", {"n": "5", "s": "x"}),
        ("labels", ["a"], "labels", {}),
        ("plugin", None, "plugin", {}),
        ("plugin", {"claude": {"waiting_reason": "PERMISSIONS"}}, "waiting_reason", "PERMISSIONS"),
        ("plugin", {"claude": "x"}, "waiting_reason", None),
        ("create_time", "yesterday", "created_at", None),
        ("create_time", 5, "created_at", None),
        ("create_time", "2026-11-21T00:00:00", "created_at", 1795219200.0),
        ("create_time", "2026-11-21T01:00:00+01:00", "created_at", 1795219200.0),
        ("start_time", "9999-99-99T00:00:00Z", "started_at", None),
        ("idle_seconds", "long", "idle_seconds", None),
        ("idle_seconds", 3, "idle_seconds", 3.0),
        ("idle_seconds", 10**400, "idle_seconds", None),
        ("command", None, "command", ""),
        ("initial_branch", 5, "branch", None),
        ("start_on_boot", "yes", "start_on_boot", False),
        ("name", "\x1b[31m[bold]‮", "name", "\x1b[31m[bold]‮"),
    ],
)
def test_a_field_of_another_form_is_as_good_as_not_said(field: str, value: Any, attribute: str, expected: Any) -> None:
    (agent,) = read(listing({**said(), field: value})).agents
    assert getattr(agent, attribute) == expected


def test_an_older_mngr_says_less_and_a_newer_one_more() -> None:
    least = {"id": "agent-1", "name": "a", "host": {"id": "host-1", "provider": "docker"}}
    (agent,) = read(listing(least)).agents
    assert (agent.state, agent.state_word, agent.host.provider, agent.host.name) == (
        State.UNKNOWN,
        "",
        "docker",
        "host-1",
    )
    more = {**said(), "mood": "fine", "host": {**said()["host"], "colour": {"deep": [1]}}}
    assert read(listing(more)) == read(listing(said()))


def test_numbers_that_are_none_tell_nothing() -> None:
    text = listing({**said(), "idle_seconds": math.nan, "runtime_seconds": math.inf})
    assert "NaN" in text
    (agent,) = read(text).agents
    assert agent.idle_seconds is None


def test_text_that_no_file_can_carry_is_mended() -> None:
    text = listing({**said(), "name": "half \ud83d", "labels": {"\ud800": "\udfff"}})
    (agent,) = read(text).agents
    (agent.name + "".join(agent.labels) + "".join(agent.labels.values())).encode("utf-8")
    assert agent.name.startswith("half ")


def test_the_same_id_on_two_hosts_is_two_agents_and_twice_on_one_host_is_one() -> None:
    other = {**said(), "host": {**said()["host"], "id": "host-2", "provider_name": "boxes"}}
    listed = read(listing(said(), other, said()))
    assert [agent.host.id for agent in listed.agents] == [LOCAL, "host-2"]
    assert "twice" in listed.errors[0].message


def test_errors_of_any_form_are_kept() -> None:
    listed = read(listing(errors=["plain", {}, {"message": 5, "exception_type": "Oops", "host_id": "host-1"}]))
    assert listed.errors[0].message.endswith("plain")
    assert listed.errors[1].message
    assert (listed.errors[2].message, listed.errors[2].host_id) == ("host-1: Oops", "host-1")


@pytest.mark.parametrize(
    ("stderr", "detail", "hint"),
    [
        ("Error: bad  [mend it]\n", "bad", "mend it"),
        ("WARNING: x\nError: Agent not found: y  [Use 'mngr list'.]\n", "Agent not found: y", "Use 'mngr list'."),
        ("Error: two\nlines  [first\n  second]\n", "two\nlines", "first\n  second"),
        ("Error: fields: ['bogus']\n", "fields: ['bogus']", ""),
        ("ERROR: Error processing host h\n", "Error processing host h", ""),
        ("Error: one\nError: two  [h]", "two", "h"),
        ("just words\n", "just words", ""),
        ("", "", ""),
    ],
)
def test_what_mngr_complains_of_is_parted_from_its_advice(stderr: str, detail: str, hint: str) -> None:
    assert split_error(stderr) == (detail, hint)


_FIELDS = st.sampled_from(["id", "name", "host", "provider_name", "labels", "plugin", "ssh", "state", "x"])
_JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text() | st.integers(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_FIELDS, inner, max_size=6),
    max_leaves=20,
)


@given(_JSON)
def test_any_json_in_the_place_of_an_agent_is_read_or_reported(value: Any) -> None:
    listed = read(listing(said(), value))
    assert listed.agents[0].id == said()["id"]
    assert len(listed.agents) + len(listed.errors) == 2


@given(st.text())
def test_any_other_text_is_a_tool_error(text: str) -> None:
    with pytest.raises(ToolError):
        read(text, exit_status=1)

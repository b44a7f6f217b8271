"""Which mngr is run, how, and with which environment. Other programs named mngr stand in for broken ones."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from selftest_core.conversation.last_messages import last_messages, parse_transcript
from selftest_core.errors import ToolBrokenError, ToolFailedError, ToolMissingError, ToolOutputError, ToolTimeoutError
from selftest_core.fleet.sources.mngr_list import list_agents, parse_listing
from selftest_core.tools import mngr as tool
from selftest_core.tools.mngr import Mngr, MngrProgram, find_mngr, mngr_environment
from worlds import BIN, PATIENCE, ROOT

if TYPE_CHECKING:
    from selftest_core.agents import Agent
    from worlds import World

CAPTURED = ROOT / "tests" / "fixtures" / "mngr" / "0.3.0"


def stand_in(folder: Path, script: str) -> Mngr:
    """Another program of that name: a shell script."""
    path = folder / "mngr"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return Mngr(MngrProgram(path, "PATH"), {"PATH": "/usr/bin:/bin", "CAPTURED": str(CAPTURED)}, folder)


def test_the_mngr_on_path_comes_first_and_else_the_one_beside_us(tmp_path: Path) -> None:
    theirs = stand_in(tmp_path, "true").program.path
    assert find_mngr({"PATH": f"{tmp_path}:/usr/bin"}) == MngrProgram(theirs, "PATH")
    beside = find_mngr({"PATH": "/usr/bin:/bin"})
    assert (beside.source, beside.path.parent) == ("environment", Path(sys.executable).parent)
    assert find_mngr({}) == beside


def test_tmux_is_taken_out_or_set_to_the_server_that_has_the_agent() -> None:
    environ = {"TMUX": "/tmp/x,1,2", "TMUX_PANE": "%1", "TMUX_TMPDIR": "/t", "MNGR_HOST_DIR": "/m", "PATH": "/bin"}
    kept = {"TMUX_TMPDIR": "/t", "MNGR_HOST_DIR": "/m", "PATH": "/bin"}
    assert mngr_environment(environ) == kept
    assert mngr_environment(environ, "/t/tmux-0/other") == {**kept, "TMUX": "/t/tmux-0/other,0,0"}
    assert environ["TMUX"] == "/tmp/x,1,2"


def test_no_command_starts_an_agent_by_accident_or_asks_a_question() -> None:
    addresses = ("a@h.local", "b@h.local")
    assert "--no-start" in tool.message_arguments(addresses)
    assert "-f" in tool.destroy_arguments(addresses)
    assert "--restart" in tool.start_arguments(addresses, restart=True)
    assert "--restart" not in tool.start_arguments(addresses, restart=False)
    for arguments in (
        tool.message_arguments(addresses),
        tool.stop_arguments(addresses),
        tool.start_arguments(addresses, restart=True),
        tool.destroy_arguments(addresses),
    ):
        assert set(addresses) < set(arguments)
        assert "json" in arguments


@pytest.mark.parametrize(
    ("text", "version"),
    [("mngr, version 0.3.0", (0, 3, 0)), ("0.2.17", (0, 2, 17)), ("mngr 1.0", (1, 0, 0)), ("0.4.0rc1", (0, 4, 0))],
)
def test_a_version_is_read_from_whatever_surrounds_it(text: str, version: tuple[int, int, int]) -> None:
    assert tool.parse_version(text) == version


def test_what_is_no_version_is_an_error() -> None:
    with pytest.raises(ToolOutputError):
        tool.parse_version("none")


async def test_the_real_mngr_says_its_version_without_being_run_and_when_run(tmp_path: Path) -> None:
    real = Mngr(MngrProgram(BIN / "mngr", "environment"), {"PATH": "/nowhere"}, tmp_path)
    installed = await real.check()
    assert installed.startswith("0.3.")
    asked = stand_in(tmp_path, f'exec "{BIN}/mngr" "$@"')
    asked.environ["HOME"] = str(tmp_path)
    assert await asked.version() == installed


@pytest.mark.parametrize("version", ["0.2.0", "0.2.1", "0.2.2"])
async def test_versions_that_are_known_to_be_broken_are_refused_with_the_cure(tmp_path: Path, version: str) -> None:
    with pytest.raises(ToolBrokenError) as raised:
        await stand_in(tmp_path, f"echo mngr, version {version}").check()
    assert version in raised.value.title
    assert "uv tool install --upgrade" in raised.value.hint


@pytest.mark.parametrize("version", ["0.1.9", "0.2.3", "0.2.17", "0.3.0", "0.4.1"])
async def test_other_versions_are_not_refused(tmp_path: Path, version: str) -> None:
    assert await stand_in(tmp_path, f"echo mngr, version {version}").check() == version


async def test_an_mngr_that_cannot_even_say_its_version_is_broken(tmp_path: Path) -> None:
    with pytest.raises(ToolBrokenError, match="cannot print its version") as raised:
        await stand_in(tmp_path, "echo RuntimeError: boom >&2; exit 1").check()
    assert "RuntimeError" in raised.value.detail
    assert raised.value.hint


async def test_a_new_version_at_the_same_place_is_noticed(tmp_path: Path) -> None:
    assert await stand_in(tmp_path, "echo 0.3.0").version() == "0.3.0"
    newer = stand_in(tmp_path, "echo 0.3.1")
    tool_time = newer.program.path.stat().st_mtime + 5
    os.utime(newer.program.path, (tool_time, tool_time))
    assert await newer.version() == "0.3.1"
    newer.program.path.unlink()
    with pytest.raises(ToolMissingError):
        await newer.version()


async def test_a_listing_comes_with_its_errors_and_its_provider(tmp_path: Path) -> None:
    listed = await list_agents(stand_in(tmp_path, 'cat "$CAPTURED/err_down_json.out"; exit 1'), "boxes")
    assert (len(listed.agents), listed.provider) == (5, "boxes")
    assert listed.errors[0].provider == "boxes"
    assert listed.at > 1.7e9


async def test_one_provider_is_asked_by_name_and_never_through_a_shell(tmp_path: Path) -> None:
    mngr = stand_in(tmp_path, 'printf "%s\\n" "$@" > argv; cat "$CAPTURED/list0_json.out"')
    await list_agents(mngr, "odd; name")
    assert (tmp_path / "argv").read_text().splitlines()[-1] == "--provider=odd; name"


async def test_an_mngr_that_hangs_is_ended_at_the_deadline(tmp_path: Path) -> None:
    with pytest.raises(ToolTimeoutError):
        await list_agents(stand_in(tmp_path, "sleep 1000"), None, timeout=0.2)


async def test_an_mngr_killed_half_way_gives_no_half_fleet(tmp_path: Path) -> None:
    with pytest.raises(ToolOutputError, match="cut short") as raised:
        await list_agents(stand_in(tmp_path, 'head -c 5000 "$CAPTURED/perf_10.json"; kill -9 $$'), None)
    assert "SIGKILL" in raised.value.detail


async def test_a_broken_setting_of_mngr_is_told_in_its_own_words(tmp_path: Path) -> None:
    with pytest.raises(ToolFailedError) as raised:
        await list_agents(stand_in(tmp_path, 'cat "$CAPTURED/badcfg_toml.err" >&2; exit 1'), None)
    assert "settings.toml" in raised.value.detail


def test_of_a_traceback_the_exception_is_told_with_all_of_its_lines() -> None:
    frames = 'Traceback (most recent call last):\n  File "main.py", line 3, in <module>\n    read()\n    ~~~~^^\n'
    said = "pydantic_core.ValidationError: 1 validation error\nextras\n  Extra inputs are not permitted\n    See there"
    assert tool.split_error(frames + said) == (said, "")


async def test_mngr_sees_closed_input_and_no_tmux(tmp_path: Path) -> None:
    mngr = stand_in(tmp_path, 'cat > input; env > env; cat "$CAPTURED/list0_json.out"')
    mngr.environ["TMUX"] = "/somewhere,1,1"
    await list_agents(mngr, None)
    assert (tmp_path / "input").read_text() == ""
    assert "TMUX=" not in (tmp_path / "env").read_text()
    await list_agents(mngr, None, tmux_socket="/there")
    assert "TMUX=/there,0,0" in (tmp_path / "env").read_text()


async def test_the_real_mngr_lists_nothing_in_a_new_world(world: World) -> None:
    world.make_repository()
    mngr = Mngr(find_mngr(world.environment), world.environment, world.repository)
    listed = await list_agents(mngr, "local", timeout=PATIENCE)
    assert (listed.agents, listed.errors, listed.provider) == ((), (), "local")


def agent_of(agent_type: str) -> Agent:
    (agent,) = parse_listing((CAPTURED / "list1_json.out").read_text(), at=1.0, provider=None).agents
    return replace(agent, type=agent_type)


async def test_a_command_agent_has_no_messages_and_mngr_is_not_even_asked(tmp_path: Path) -> None:
    assert await last_messages(stand_in(tmp_path, "exit 9"), agent_of("command"), 5) == ()


async def test_a_type_without_transcript_has_none_and_other_errors_are_told(tmp_path: Path) -> None:
    script = 'cat "$CAPTURED/transcript.err" >&2; exit 1'
    assert await last_messages(stand_in(tmp_path, script), agent_of("odd"), 5) == ()
    with pytest.raises(ToolFailedError) as raised:
        await last_messages(
            stand_in(tmp_path, "echo 'Error: Host is offline  [wait]' >&2; exit 1"), agent_of("claude"), 5
        )
    assert (raised.value.detail, raised.value.hint) == ("Host is offline", "wait")


async def test_the_last_messages_are_asked_for_and_read(tmp_path: Path) -> None:
    events = (
        '[{"type":"header"},{"type":"step","source":"user","message":"do it"},'
        '{"type":"observation","results":[]},{"type":"step","source":"agent","message":"","tool_calls":'
        '[{"function_name":"Bash","arguments":{"command":"ls"}}]},'
        '{"type":"step","source":"agent","message":[{"type":"text","text":"done \\u001b[1m"}]}]'
    )
    mngr = stand_in(tmp_path, f"printf '%s\\n' \"$@\" > argv; cat <<'X'\n{events}\nX")
    assert await last_messages(mngr, agent_of("claude"), 2) == ("agent:\n  > Bash: ls", "agent:\n  done")
    assert "transcript" in (tmp_path / "argv").read_text()
    assert parse_transcript(events)[0] == "person:\n  do it"


@pytest.mark.parametrize("text", ["{", '{"a": 1}', "nonsense", '"x"'])
def test_what_is_no_transcript_is_an_error(text: str) -> None:
    with pytest.raises(ToolOutputError):
        parse_transcript(text)

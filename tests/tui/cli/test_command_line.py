"""The command line itself: help, wrong arguments, wrong settings, endings."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from pseudo_terminal import shell_in
from selftest_core.demo.world import AGENTS
from standins import EMPTY, calls, mngr_that
from tui.cli.programs import PROGRAM, by_name, listed, ours
from worlds import PATIENCE, ROOT, eventually

if TYPE_CHECKING:
    from pathlib import Path

    from worlds import World

COMMANDS = (
    "list", "run", "runs", "resume", "answer", "stop", "draft", "sync", "check", "review", "verify", "report", "record",
    "replay", "search", "doctor", "key-guard", "completion", "schema", "demo", "sweep",
)  # fmt: skip


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_help_has_examples_and_fits(shared_world: World, command: str) -> None:
    done = ours(shared_world, *([command] if command else []), "--help", env={"COLUMNS": "80"}, check=True)

    assert "examples:" in done.stdout
    assert f"selftest-tui {command}".strip() in done.stdout
    assert "--batch" in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80
    if not command:
        assert all(name in done.stdout for name in COMMANDS)


def test_help_and_lists_load_no_screen(shared_world: World) -> None:
    code = (
        "import sys\nfrom selftest_tui.cli.main import main\n"
        "for words in (['--help'], ['list', '--no-wait'], ['lst'], ['list', '--help']):\n"
        "    main(words)\n"
        "assert not {'textual', 'modal', 'git', 'libtmux', 'pydantic'} & sys.modules.keys(), sorted(sys.modules)\n"
        "main(['list', '--no-wait', '--json'])\n"
        "assert 'textual' not in sys.modules\n"
    )
    shared_world.run([sys.executable, "-c", code])


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["lst"], "Did you mean `selftest-tui list`?"),
        (["--batch", "doktor"], "Did you mean `selftest-tui doctor`?"),
        (["help"], "`selftest-tui --help`"),
        (["--socket", "/x", "sweeep"], "Did you mean `selftest-tui sweep`?"),
        (
            ["qqqq"],
            f"The commands are: {', '.join(COMMANDS)}.",
        ),
        (["list", "--jsn"], "Did you mean --json? `selftest-tui list --help`"),
        (["list", "--batch", "--qqqq"], "`selftest-tui list` does not take '--qqqq'"),
        (["--qqqq"], "See `selftest-tui --help`"),
        (["list", "\x1b[31mred"], "See `selftest-tui list --help`"),
        (["demo", "--agents", "none"], "not a number from 1 to 1000"),
        (["--set", "poll_local", "list"], "KEY=VALUE"),
        (["--set", "pol_local=3", "list"], "Did you mean poll_local?"),
        (["--batch"], "not in a git repository"),
        (["list", "--", "-k", "name"], "Only `run` and `verify` take arguments after --"),
        (["run", "--env", "TOKEN=secret"], "name the variable alone, as TOKEN"),
        (["run", "--env", "TOKEN", "tests/a.py"], "TESTS come before --env"),
        (["run", "--timeout", "0"], "not more than 0"),
        (["run", "--budget-usd", "nan"], "no number"),
        (["answer", "Yes."], "An answer needs a text and a test"),
        ([], "There is no terminal"),
        (["demo"], "There is no terminal"),
        (["review", "main..fixes"], "There is no terminal"),
        (["review", "--batch", "main..fixes", "--pr"], "--pr needs --publish"),
        (["review", "--batch", "main..fixes", "--require-verified"], "--require-verified needs --publish"),
        (["review", "--batch", "main..fixes", "--jobs", "2"], "--jobs and --all need --verify"),
    ],
)
def test_wrong_usage_says_what_to_do_and_ends_with_2(shared_world: World, arguments: list[str], says: str) -> None:
    done = ours(shared_world, *arguments)

    assert done.returncode == 2
    assert says in done.stderr
    assert "Traceback" not in done.stderr
    assert "\x1b" not in done.stderr
    if "--batch" in arguments:
        assert json.loads(done.stdout.splitlines()[-1])["event"] == "error"
    else:
        assert done.stdout == ""


def test_a_wrong_setting_names_its_file_and_line(shared_world: World, tmp_path: Path) -> None:
    (tmp_path / "selftest-tui.toml").write_text("\npoll_lokal = 3\n")

    done = shared_world.run([PROGRAM, "list", "--batch"], cwd=tmp_path, check=False)

    assert done.returncode == 2
    assert f"{tmp_path / 'selftest-tui.toml'}:2" in done.stderr
    line = json.loads(done.stdout.splitlines()[-1])
    assert (line["event"], line["exit_status"], line["hint"]) == ("error", 2, "Did you mean poll_local?")


@pytest.mark.parametrize("words", ["", "review", "replay x.cast"])
def test_a_terminal_without_a_screen_is_told_from_one_with(world: World, words: str) -> None:
    (world.make_repository() / "x.cast").write_text('{"version": 2, "width": 80, "height": 24}\n')
    with shell_in(world, f"exec {PROGRAM} {words}", TERM="dumb") as terminal:
        assert terminal.leader.wait(PATIENCE) == 2
        terminal.wait_for("TERM is dumb")
        assert "\x1b[?1049h" not in terminal.shown.decode()


def test_a_traceback_is_shown_on_request_alone(shared_world: World) -> None:
    assert "Traceback" in ours(shared_world, "lst", env={"SELFTEST_TUI_DEBUG": "1"}).stderr


def test_every_command_prints_its_json(shared_world: World) -> None:
    # Demos that anybody keeps on this machine are none of this test's.
    shared_world.extra["TMPDIR"] = str(shared_world.home)
    schema = json.loads(ours(shared_world, "schema", check=True).stdout)
    assert "list --json" in schema["documents"]
    batch = json.loads(ours(shared_world, "schema", "--batch", check=True).stdout)
    assert batch["event"] == "summary"
    assert batch["$defs"] == schema["$defs"]

    swept = ours(shared_world, "sweep", "--batch", check=True)
    assert json.loads(swept.stdout)["leftovers"] == []
    swept = ours(shared_world, "sweep", "--json", check=True)
    assert json.loads(swept.stdout) == {"leftovers": []}
    assert "Nothing was left behind" in ours(shared_world, "sweep", check=True).stdout


def test_the_help_tells_how_many_agents_a_demo_has(shared_world: World) -> None:
    assert f"default: {AGENTS}" in ours(shared_world, "demo", "--help", check=True).stdout


def test_the_doctor_says_what_is_wrong_and_how_to_mend_it(world: World) -> None:
    mngr_that(world, f"echo '{EMPTY}'", version="mngr, version 0.2.2")

    done = ours(world, "doctor", "--json", "--set", "aliases.kill=destory")

    document = json.loads(done.stdout)
    assert (done.returncode, document["ok"]) == (1, False)
    (mngr,) = [check for check in document["checks"] if check["name"] == "mngr"]
    assert mngr["status"] == "failed"
    assert "0.2.2" in mngr["says"]
    assert mngr["hint"]
    assert mngr["hint"] in ours(world, "doctor").stdout.replace("\n", " ")
    (aliases,) = [check for check in document["checks"] if check["name"] == "aliases"]
    assert aliases["says"].endswith("aliases.kill: there is no command destory. Did you mean destroy?")


# mngr that misbehaves


@pytest.mark.parametrize(
    ("listing", "version", "deadline", "says"),
    [
        ("echo '{\"agents\": [{'", "mngr 0.3.0", 280, "cut short"),
        ("echo Traceback >&2; exit 1", "mngr 0.3.0", 280, "mngr list"),
        ("sleep 1000", "mngr 0.3.0", 1, "did not answer within 1 s"),
        (f"echo '{EMPTY}'", "mngr, version 0.2.2", 280, "0.2.2"),
    ],
    ids=["cut short", "a traceback", "hanging", "a broken version"],
)
def test_a_list_without_mngrs_answer_is_still_an_answer(
    world: World, listing: str, version: str, deadline: int, says: str
) -> None:
    mngr_that(world, listing, version=version)
    world.tmux("new-session", "-d", "-s", "mine", "sleep 100000")

    programs = ours(world, "list", "--json", "--set", f"list_deadline={deadline}")

    document = json.loads(programs.stdout)
    (error,) = document["errors"]
    assert says in error["message"]
    assert [session["name"] for session in document["sessions"]] == ["mine"]
    people = ours(world, "list", "--set", f"list_deadline={deadline}")
    assert says in people.stderr
    assert "mine" in people.stdout
    assert (programs.returncode, people.returncode) == (1, 1)
    assert ours(world, "list", "--no-wait").returncode == 0

    world.end_server()
    alone = ours(world, "list", "--set", f"list_deadline={deadline}")
    assert alone.stdout == "No agents are known: mngr gave no answer.\n"


def test_without_any_mngr_the_command_that_mends_it_is_shown(world: World) -> None:
    # An interpreter of its own, which has no mngr beside it, and a PATH with what a machine without mngr has.
    bare, tools = world.root / "bare", world.root / "tools"
    world.run([sys.executable, "-m", "venv", "--without-pip", bare])
    (site,) = bare.glob("lib/python*/site-packages")
    paths = [path for path in sys.path if path and "site-packages" in path]
    paths += [str(ROOT / room) for room in ("core", "recorder", "tui")]
    (site / "ours.pth").write_text("\n".join(paths) + "\n")
    tools.mkdir()
    for name in ("tmux", "ps", "sh"):
        (tools / name).symlink_to(world.run(["sh", "-c", f"command -v {name}"]).stdout.strip())
    program = str(bare / "bin" / "python")

    done = world.run([program, "-m", "selftest_tui", "list"], env={"PATH": str(tools)}, check=False)

    assert done.returncode == 1
    assert "mngr is not installed" in done.stderr
    assert "uv tool install" in done.stderr
    assert "Traceback" not in done.stderr


FAR = (
    '{"agents": [{"id": "agent-9", "name": "far", "type": "claude", "state": "RUNNING", "command": "claude",'
    ' "work_dir": "/w", "create_time": "2026-11-21T09:00:00Z", "labels": {}, "plugin": {}, "host":'
    ' {"id": "host-9", "name": "box", "provider_name": "boxes", "state": "RUNNING"}}], "errors": []}'
)
BOXES_DOWN = (
    '{"agents": [], "errors": [{"exception_type": "HostConnectionError", "message": "no route to box",'
    ' "is_provider_inaccessible": true, "provider_name": "boxes"}]}'
)


def test_agents_of_a_provider_that_is_down_stay_as_they_were_last_known(world: World) -> None:
    mngr_that(world, f"echo '{FAR}'")
    first = by_name(listed(world))["far"]
    assert (first["stale"], first["state"]) == (False, "RUNNING")

    mngr_that(world, f"echo '{BOXES_DOWN}'; exit 6")
    document = listed(world)

    later = by_name(document)["far"]
    assert (later["stale"], later["state"], later["as_of"]) == (True, "RUNNING", first["as_of"])
    (error,) = document["errors"]
    assert error["provider"] == "boxes"
    assert "no route to box" in error["message"]
    people = ours(world, "list", check=True)
    assert "as of" in people.stdout
    assert "no route to box" in people.stderr

    mngr_that(world, f"echo '{EMPTY}'")
    assert listed(world)["agents"] == []


# Endings


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_stops_it_and_the_mngr_that_it_runs(world: World, number: signal.Signals) -> None:
    mngr_that(world, f"echo $$ > {world.root}/pid; sleep 1000")
    process = subprocess.Popen(
        [PROGRAM, "list", "--batch"],
        env=world.environment,
        cwd=world.root,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    note = world.root / "pid"
    eventually(lambda: note.exists() and note.read_text().strip(), "mngr running")
    process.send_signal(number)
    out, err = process.communicate(timeout=PATIENCE)

    assert process.returncode == 3
    assert err.strip() == "selftest-tui: Stopped"
    assert json.loads(out.splitlines()[-1])["exit_status"] == 3
    with pytest.raises(ProcessLookupError):
        os.kill(int(note.read_text()), 0)


@pytest.mark.skipif(not os.access("/dev/full", os.W_OK), reason="this system has no disk that is always full")
@pytest.mark.parametrize("command", ["schema", "--help", "list --no-wait"])
def test_a_full_disk_is_named_and_not_called_a_defect(shared_world: World, command: str) -> None:
    full = shared_world.run(["sh", "-c", f"exec '{PROGRAM}' {command} > /dev/full"], check=False)

    assert full.returncode == 2
    assert "The output could not be written" in full.stderr
    assert "No space left" in full.stderr
    assert "inside selftest-tui" not in full.stderr


def test_a_terminal_that_closes_is_told_of_by_the_status_alone(world: World) -> None:
    mngr_that(world, f"echo $$ > {world.root}/pid; sleep 1000")
    terminal = shell_in(world, f"exec '{PROGRAM}' list")
    note = world.root / "pid"
    eventually(lambda: note.exists() and note.read_text().strip(), "mngr running")
    terminal.hang_up()

    assert terminal.leader.wait(PATIENCE) == 3


def test_a_reader_that_goes_away_is_no_error(world: World) -> None:
    go = world.root / "go"
    os.mkfifo(go)
    mngr_that(world, f"cat {go} > /dev/null; echo '{EMPTY}'")
    process = subprocess.Popen(
        [PROGRAM, "list", "--json"],
        env=world.environment,
        cwd=world.root,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    eventually(lambda: calls(world), "mngr running")
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    go.write_text("")
    err = process.stderr.read()
    process.stderr.close()

    assert process.wait(PATIENCE) == 0
    assert err == b""


@pytest.mark.parametrize("arguments", ["--help", "list --no-wait", "schema", "list --no-wait --batch"])
def test_closed_streams_are_no_error(shared_world: World, arguments: str) -> None:
    shared_world.run(["sh", "-c", f"exec '{PROGRAM}' {arguments} <&- >&- 2>&-"])


def test_an_odd_locale_is_no_error(shared_world: World) -> None:
    done = ours(shared_world, "list", "--no-wait", env={"LC_ALL": "C", "LANG": "C", "PYTHONIOENCODING": "ascii"})

    assert done.returncode == 0, done.stderr
    assert ours(shared_world, "lst", env={"PYTHONIOENCODING": "ascii"}).returncode == 2


def test_it_works_where_its_folder_is_gone(shared_world: World, tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    done = shared_world.run(["sh", "-c", f"rmdir '{gone}'; exec '{PROGRAM}' list"], cwd=gone, check=False)

    assert done.returncode == 2
    assert "is gone" in done.stderr

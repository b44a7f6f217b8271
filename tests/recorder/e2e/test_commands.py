"""Commands of tests: their output, their end, their transcript, and the environment that they run in."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from selftest_recorder.e2e.commands import LIMIT, TimedOut
from selftest_recorder.e2e.end_to_end import EndToEnd
from selftest_recorder.e2e.expect import eventually, expect
from selftest_recorder.e2e.results import Line
from selftest_recorder.e2e.transcript import MOST_OF_A_COMMAND

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def inner(tmp_path: Path) -> Iterator[EndToEnd]:
    """A second test's fixture, which a test may close."""
    made = EndToEnd(tmp_path / "tutorial.sh", "test_inner", lambda name, value: None, lambda: tmp_path)
    yield made
    made.close()


def transcript(e2e: EndToEnd) -> str:
    """The lines after the first."""
    return (e2e.artifacts / "transcript.txt").read_text().partition("\n")[2]


def is_alive(pid: int) -> bool:
    """True while a process runs; one that has ended may wait for a slow init to look."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def test_both_outputs_are_kept_in_their_order(e2e: EndToEnd) -> None:
    result = e2e.run("echo one; sleep 0.1; echo two >&2; sleep 0.1; printf three; exit 3", comment="counting")
    assert (result.exit_status, result.stdout, result.stderr, result.left_out) == (3, "one\nthree", "two\n", 0)
    assert result.lines == (Line("stdout", "one"), Line("stderr", "two"), Line("stdout", "three"))
    text = "echo one; sleep 0.1; echo two >&2; sleep 0.1; printf three; exit 3"
    assert transcript(e2e) == f"# counting\n$ {text}\n  one\n! two\n  three\n? 3\n"


def test_a_list_is_run_as_it_is(e2e: EndToEnd) -> None:
    result = e2e.run(["printf", "%s|", "a b", "$HOME", "*"])
    assert result.stdout == "a b|$HOME|*|"
    assert result.command == "printf '%s|' 'a b' '$HOME' '*'"


def test_a_shell_stops_at_the_first_error(e2e: EndToEnd) -> None:
    expect(e2e.run("false | true\necho unreachable")).to_have_exit_code(1).stdout.to_be_empty()


def test_a_timeout_kills_the_children_that_left_the_group_too(e2e: EndToEnd) -> None:
    command = e2e.start("setsid sh -c 'echo $$; trap \"\" TERM HUP; sleep 1000; sleep 1000' & sleep 1000")
    command.wait_for("\n")
    child = int(command.so_far.stdout)
    assert is_alive(child)
    with pytest.raises(TimedOut, match=r"(?s)did not end within 0 s, and was killed.*\n  \d+\n\? -"):
        command.wait(0)
    eventually(lambda: not is_alive(child), "the end of the child")
    assert "# timeout: killed after 0 s\n? -" in transcript(e2e)


def test_a_child_that_holds_the_pipe_delays_nobody_and_ends_with_the_test(inner: EndToEnd) -> None:
    result = inner.run("(trap '' HUP; echo $BASHPID; sleep 1000; sleep 1000) & true", timeout=100)
    child = int(result.stdout)
    assert is_alive(child)
    inner.close()
    assert not is_alive(child)
    assert not inner.isolation.root.exists()


def test_endless_output_fills_neither_memory_nor_disk(e2e: EndToEnd) -> None:
    result = e2e.run("echo begin; (yes || true) | head -c 50000000; echo end; echo error >&2")
    assert len(result.stdout) < LIMIT + 200_000
    note = f"\n[{result.left_out:,} bytes are left out]\n"
    assert result.left_out + len(result.stdout) - len(note) in range(50_000_010 - len("error\n"), 50_000_011)
    assert result.stdout.startswith("begin\ny\n")
    assert result.stdout.endswith("y\nend\n")
    shown = transcript(e2e)
    assert len(shown) < 3 * MOST_OF_A_COMMAND
    assert shown.endswith("? 0\n")
    assert "! error\n" in shown
    assert "  end\n" in shown


def test_secrets_are_masked_wherever_they_are_shown(e2e: EndToEnd, capfd: pytest.CaptureFixture[str]) -> None:
    e2e.environment["SHOP_TOKEN"] = "hunter2-hunter2"
    command = "printf hunter2-; sleep 0.1; printf 'hunter2\\n'; echo ghp_0123456789012345678901234567890123456789 >&2"
    result = e2e.run(command, comment="with hunter2-hunter2")
    assert result.stdout == "hunter2-hunter2\n"
    with pytest.raises(AssertionError) as failure:
        expect(result.stdout).to_equal("hunter2-hunter3\n")
    with pytest.raises(AssertionError) as of_text:
        expect("hunter2-hunter2").to_be_empty()
    for shown in (transcript(e2e), str(failure.value), str(of_text.value), repr(result)):
        assert "hunter2-hunter2" not in shown
        assert "ghp_" not in shown
        assert "***" in shown


def test_escape_sequences_do_not_reach_the_transcript(e2e: EndToEnd) -> None:
    e2e.run(r"printf '\033]0;title\a\033[31mred\033[0m\r\n\377\n'")
    assert transcript(e2e).splitlines()[1:] == ["  red", "  \N{REPLACEMENT CHARACTER}", "? 0"]


def test_an_unfinished_line_is_in_the_transcript_while_the_command_waits(e2e: EndToEnd) -> None:
    e2e.start("printf 'name? '; exec sleep 1000")
    eventually(lambda: "  name? \n" in transcript(e2e), "the question")


def test_commands_side_by_side_are_told_apart(e2e: EndToEnd) -> None:
    e2e.run("mkfifo go")
    with e2e.start("echo ready; read -r _ < go; echo gone; exec sleep 1000") as server:
        server.wait_for("ready")
        e2e.run("echo now > go")
        server.wait_for("gone")
    assert server.has_ended
    assert "\n# output of: echo ready; read -r _ < go; echo gone; exec sleep 1000\n  gone\n" in transcript(e2e)


def test_a_wait_for_what_never_comes_shows_what_came(e2e: EndToEnd) -> None:
    with pytest.raises(AssertionError, match=r"ended without printing 'ready'\n\$ echo sorry\n  sorry\n\? 0"):
        e2e.start("echo sorry").wait_for("ready")
    with pytest.raises(TimedOut, match=r"did not print 'ready' within 0 s"):
        e2e.start("exec sleep 1000").wait_for("ready", timeout=0)


def test_a_terminal_is_in_the_transcript(e2e: EndToEnd) -> None:
    with e2e.pty("read -rp 'name? ' name; echo hello $name; exit 4", columns=60, lines=5) as terminal:
        terminal.wait_for("name?")
        terminal.type_text("ada")
        terminal.send_keys("Enter")
        assert terminal.wait_for_end() == 4
    assert transcript(e2e).splitlines()[1:] == [
        "  name?", "# text: ada", "# keys: Enter", "  name? ada", "  hello ada", "? 4"
    ]  # fmt: skip


def test_the_environment_is_the_tests_own(e2e: EndToEnd, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_KEY", "of the caller")
    monkeypatch.setenv("TMUX", "/tmp/tmux-0/default,1,0")
    result = e2e.run(
        "env; git log --format=%an%n%s; git status --porcelain; pwd; tmux new-session -d; tmux list-sessions"
    )
    expect(result).to_succeed()
    variables = dict(line.split("=", 1) for line in result.stdout.splitlines() if "=" in line)
    assert {"SHOP_KEY", "TMUX", "TMUX_PANE"}.isdisjoint(variables)
    root = str(e2e.isolation.root)
    for name in ("HOME", "MNGR_HOST_DIR", "TMUX_TMPDIR", "TMPDIR"):
        assert variables[name].startswith(f"{root}/")
    expect(result.stdout).to_contain(f"A Test\nStart\n{e2e.repository}\n0: 1 windows")
    assert len(os.fsencode(f"{variables['TMUX_TMPDIR']}/tmux-{os.getuid()}/default")) < 100


@pytest.mark.real
def test_an_attach_to_an_agent_is_recorded(e2e: EndToEnd) -> None:
    script = e2e.home / "ada.sh"
    script.write_text("#!/bin/sh\necho hello from ada\nexec sleep 100000\n")
    script.chmod(0o755)
    made = f"mngr create ada --type command --no-connect --headless --transfer none -- {script}"
    expect(e2e.run(made)).to_succeed()
    with e2e.pty("mngr connect ada") as terminal:
        terminal.wait_for("hello from ada")
        terminal.send_keys("C-b", "d")
        assert terminal.wait_for_end() == 0
    (cast,) = e2e.artifacts.glob("ada-attach-*.cast")
    expect(cast).to_contain("hello from ada")


def test_a_full_disk_is_told_at_the_end(inner: EndToEnd) -> None:
    (inner.artifacts / "transcript.txt").symlink_to("/dev/full")
    expect(inner.run("echo hello").stdout).to_equal("hello\n")
    with pytest.raises(AssertionError, match=r"transcript.txt cannot be written: No space left on device$"):
        inner.close()
    (inner.artifacts / "transcript.txt").unlink()
    inner.__dict__.pop("_transcript")


def test_what_ends_a_test_ends_its_commands(inner: EndToEnd) -> None:
    command = inner.start("trap '' TERM; echo ready; sleep 1000; sleep 1000")
    command.wait_for("ready")
    inner.close()
    assert command.end().exit_status == -signal.SIGKILL
    assert not is_alive(command.pid)

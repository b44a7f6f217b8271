"""Starting programs: deadlines that end everything, closed input, capped output, signals that children get back."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from selftest_core.errors import ToolFailedError, ToolMissingError, ToolOutputError, ToolTimeoutError
from selftest_core.tools.process import Completed, DeadlinePassed, call_interactive, exchange, run, run_async, spawn
from worlds import PATIENCE, eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

HERE = Path("/")
# Children that would outlive their parent by far, and tell their ids first.
FAMILY = "sleep 1000 & echo $! $$ > {told}; {wait}"


def shell(text: str, timeout: float = PATIENCE, **more: str) -> Completed:
    return run(["sh", "-c", text], timeout=timeout, cwd=HERE, **more)  # type: ignore[arg-type]


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    if not Path("/proc/self/stat").exists():
        return True
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    # A zombie is dead: only its parent, which may be a slow init, has not looked yet.
    return stat.rpartition(")")[2].split()[0] not in "ZX"


def told_pids(told: Path) -> list[int]:
    eventually(lambda: told.exists() and len(told.read_text().split()) == 2, "the children's ids")
    return [int(word) for word in told.read_text().split()]


def test_what_a_program_says_and_how_it_ends_is_returned() -> None:
    done = shell("echo out; echo err >&2; exit 3")
    assert (done.stdout, done.stderr, done.exit_status, done.ok) == ("out\n", "err\n", 3, False)
    assert done.argv == ("sh", "-c", "echo out; echo err >&2; exit 3")
    assert shell("kill -KILL $$").exit_status == -signal.SIGKILL


def test_the_folder_and_the_environment_are_those_given(tmp_path: Path) -> None:
    folder = tmp_path / "a folder"
    folder.mkdir()
    env = {"PATH": os.environ["PATH"], "ONLY": "this"}
    done = run(["sh", "-c", "pwd; env"], timeout=PATIENCE, cwd=folder, env=env)
    assert str(folder.resolve()) in done.stdout
    assert "ONLY=this" in done.stdout
    assert "HOME=" not in done.stdout


def test_input_is_closed_unless_given() -> None:
    assert shell("cat; echo end").stdout == "end\n"
    assert shell("cat; echo end", input="text ü\n").stdout == "text ü\nend\n"


def test_more_input_and_output_than_any_pipe_holds_goes_through() -> None:
    text = "line\n" * 400_000
    assert shell("tee /dev/stderr", input=text).stdout == text


def test_a_program_that_does_not_read_its_input_is_no_error() -> None:
    assert shell("echo done", input="x" * 1_000_000).stdout == "done\n"


def test_bytes_that_are_no_text_are_replaced_or_kept_as_asked() -> None:
    argv = ["sh", "-c", r"printf 'a\377b'"]
    assert run(argv, timeout=PATIENCE, cwd=HERE).stdout == "a�b"
    assert os.fsencode(run(argv, timeout=PATIENCE, cwd=HERE, undecodable="surrogateescape").stdout) == b"a\xffb"
    assert shell("cat", input="\udcff\ud800").stdout


@pytest.mark.parametrize("deafness", ["", "trap '' TERM; "])
def test_a_deadline_ends_the_program_and_its_children(tmp_path: Path, deafness: str) -> None:
    told = tmp_path / "told"
    for timeout in (0.5, 4.0, 30.0):  # a busy machine may not have started it at all within the first
        with pytest.raises(ToolTimeoutError) as raised:
            shell(deafness + "echo why >&2; " + FAMILY.format(told=told, wait="wait"), timeout=timeout)
        assert f"within {timeout:g} s" in raised.value.title
        if told.exists() and told.read_text():
            break
    assert "why" in raised.value.stderr
    for pid in told_pids(told):
        eventually(lambda pid=pid: not is_alive(pid), "the end of the family")  # type: ignore[misc]


@pytest.mark.parametrize("ended", [False, True])
def test_what_came_while_we_were_held_up_ourselves_counts(ended: bool) -> None:
    """The deadline has passed before the first look: a machine that slept, or had no time for us."""
    pipes = [os.pipe() for _ in range(3)]
    (out, out_end), (errors, errors_end), (ear, _) = pipes
    try:
        os.write(out_end, b"answer")
        os.write(errors_end, b"why")

        def late() -> tuple[bytes, bytes]:
            return exchange(out, errors, None, b"", wake=ear, has_ended=lambda: ended, deadline=0.0, limit=100)

        if ended:
            assert late() == (b"answer", b"why")
        else:
            with pytest.raises(DeadlinePassed) as raised:
                late()
            assert raised.value.stderr == b"why"
    finally:
        for file in (each for pipe in pipes for each in pipe):
            os.close(file)


def test_a_program_that_has_ended_is_not_held_up_by_what_it_left_running(tmp_path: Path) -> None:
    told = tmp_path / "told"
    done = shell(FAMILY.format(told=told, wait="echo done"), timeout=900.0)
    child = told_pids(told)[0]
    try:
        assert done.stdout == "done\n"
        assert done.ok
    finally:
        os.kill(child, signal.SIGKILL)


def test_output_without_end_is_cut_off() -> None:
    with pytest.raises(ToolOutputError) as raised:
        run(["yes"], timeout=PATIENCE, cwd=HERE, limit=100_000)
    assert "printed more than 97 KiB" in raised.value.title


def test_of_endless_complaints_the_last_are_kept() -> None:
    done = shell("yes complaint | head -c 3000000 >&2; echo last >&2")
    assert done.stderr.endswith("last\n")
    assert len(done.stderr) < 1_000_000
    assert done.stderr_end.splitlines()[-1] == "last"


def test_a_missing_program_is_named_with_the_way_to_get_it(tmp_path: Path) -> None:
    with pytest.raises(ToolMissingError) as raised:
        run(["tmux", "-V"], timeout=PATIENCE, cwd=HERE, env={"PATH": str(tmp_path)})
    assert "apt install tmux" in raised.value.hint
    assert str(tmp_path) in raised.value.detail
    with pytest.raises(ToolMissingError):
        run([tmp_path / "nothing"], timeout=PATIENCE, cwd=HERE)
    (tmp_path / "text").write_text("no program")
    with pytest.raises(ToolMissingError):
        run([tmp_path / "text"], timeout=PATIENCE, cwd=HERE)


def test_a_program_that_cannot_start_says_why(tmp_path: Path) -> None:
    with pytest.raises(ToolFailedError, match="folder is gone") as raised:
        run(["sh", "-c", "true"], timeout=PATIENCE, cwd=tmp_path / "gone")
    assert str(tmp_path / "gone") in raised.value.detail
    broken = tmp_path / "broken"
    broken.write_text("#!/no/such/interpreter\n")
    broken.chmod(0o755)
    with pytest.raises(ToolFailedError, match="could not be started"):
        run([broken], timeout=PATIENCE, cwd=HERE)
    with pytest.raises(ToolFailedError, match="could not be started"):
        run(["echo", "a\0b"], timeout=PATIENCE, cwd=HERE)


def test_a_program_cannot_reach_our_terminal() -> None:
    done = run([sys.executable, "-c", "import os; print(os.getsid(0) == os.getpid())"], timeout=PATIENCE, cwd=HERE)
    assert done.stdout == "True\n"
    assert shell("true < /dev/tty").exit_status != 0


@pytest.fixture
def ignored() -> Iterator[None]:
    """What a shell does to the jobs that it starts in the background."""
    numbers = (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP)
    before = {number: signal.signal(number, signal.SIG_IGN) for number in numbers}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.usefixtures("ignored")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGPIPE])
def test_signals_that_we_must_ignore_work_again_in_children(number: signal.Signals) -> None:
    code = f"import os, signal; print(signal.getsignal({int(number)}) is signal.SIG_IGN)"
    if number is signal.SIGPIPE:  # Python ignores it by itself
        assert shell(f"kill -{int(number)} $$; echo alive").exit_status == -number
    else:
        assert run([sys.executable, "-c", code], timeout=PATIENCE, cwd=HERE).stdout == "False\n"


def test_nothing_stays_open(tmp_path: Path) -> None:
    def open_files() -> int:
        return len(os.listdir("/dev/fd"))  # noqa: PTH208 -- names that vanish while they are looked at

    def each_way() -> None:
        shell("echo x", input="y")
        with pytest.raises(ToolMissingError):
            run([tmp_path / "nothing"], timeout=PATIENCE, cwd=HERE)
        with pytest.raises(ToolOutputError):
            run(["yes"], timeout=PATIENCE, cwd=HERE, limit=10)
        with pytest.raises(ToolTimeoutError):
            shell("sleep 1000", timeout=0.01)

    each_way()
    gc.collect()
    before = open_files()
    for _ in range(5):
        each_way()
    assert open_files() <= before


async def test_many_run_at_once_without_holding_up_the_loop(tmp_path: Path) -> None:
    # Each waits for a file that only the last one makes, so in turns they would wait for ever.
    go = tmp_path / "go"
    wait = f"while [ ! -e {go} ]; do sleep 0.01; done; echo gone"
    waiting = [run_async(["sh", "-c", wait], timeout=PATIENCE, cwd=HERE) for _ in range(12)]
    last = run_async(["touch", go], timeout=PATIENCE, cwd=HERE)
    *done, _ = await asyncio.gather(*waiting, last)
    assert [each.stdout for each in done] == ["gone\n"] * 12


async def test_errors_come_through_to_the_awaiting_task() -> None:
    with pytest.raises(ToolMissingError):
        await run_async(["no-such-program-here"], timeout=PATIENCE, cwd=HERE)
    with pytest.raises(ToolTimeoutError):
        await run_async(["sleep", "1000"], timeout=0.05, cwd=HERE)


async def test_cancelling_ends_the_program_and_its_children(tmp_path: Path) -> None:
    told = tmp_path / "told"
    script = FAMILY.format(told=told, wait="wait")
    task = asyncio.create_task(run_async(["sh", "-c", script], timeout=900.0, cwd=HERE))
    family = await asyncio.to_thread(told_pids, told)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    for pid in family:
        await asyncio.to_thread(eventually, lambda pid=pid: not is_alive(pid), "the end of the family")


async def test_cancelling_at_once_leaves_nothing_running() -> None:
    before = threading.active_count()
    for _ in range(5):
        task = asyncio.create_task(run_async(["sleep", "1000"], timeout=900.0, cwd=HERE))
        await asyncio.sleep(0)  # lets the task start, and no more
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    await asyncio.to_thread(eventually, lambda: threading.active_count() <= before + 1, "the end of the threads")


def test_any_loop_in_any_thread_will_do() -> None:
    said: list[str] = []

    def other() -> None:
        said.append(asyncio.run(run_async(["echo", "hi"], timeout=PATIENCE, cwd=HERE)).stdout)

    thread = threading.Thread(target=other)
    thread.start()
    thread.join(PATIENCE)
    assert said == ["hi\n"]


def test_a_long_lived_program_ends_with_its_children(tmp_path: Path) -> None:
    told, log = tmp_path / "told", tmp_path / "log"
    running = spawn(["sh", "-c", "echo begun; " + FAMILY.format(told=told, wait="wait")], cwd=HERE, output=log)
    family = told_pids(told)
    assert running.poll() is None
    with pytest.raises(ToolTimeoutError):
        running.wait(0.01)
    running.end()
    for pid in family:
        eventually(lambda pid=pid: not is_alive(pid), "the end of the family")  # type: ignore[misc]
    assert log.read_text() == "begun\n"


def test_a_dialogue_goes_both_ways() -> None:
    running = spawn(["cat"], cwd=HERE, dialogue=True)
    assert running.stdin is not None
    assert running.stdout is not None
    running.stdin.write(b"hello\n")
    assert running.stdout.readline() == b"hello\n"
    assert running.end(grace=PATIENCE) == -signal.SIGTERM


def test_lending_the_terminal_brings_back_the_exit_status(tmp_path: Path) -> None:
    assert call_interactive(["sh", "-c", "exit 7"]) == 7
    assert call_interactive(["sh", "-c", "kill -TERM $$"]) == -signal.SIGTERM
    env = {"PATH": os.environ["PATH"], "TO": str(tmp_path / "made")}
    assert call_interactive(["sh", "-c", 'pwd > "$TO"'], env=env, cwd=tmp_path) == 0
    assert (tmp_path / "made").read_text().strip() == str(tmp_path.resolve())


def test_a_program_that_stops_itself_while_it_has_the_terminal_goes_on() -> None:
    assert call_interactive(["sh", "-c", "kill -STOP $$; exit 6"]) == 6


def test_keys_meant_for_the_program_that_has_the_terminal_do_not_end_us() -> None:
    before = signal.getsignal(signal.SIGINT)
    # Our own process gets what Ctrl-C sends to all of a terminal's foreground.
    assert call_interactive(["sh", "-c", "kill -INT $PPID; kill -TSTP $PPID; kill -QUIT $PPID; exit 5"]) == 5
    assert signal.getsignal(signal.SIGINT) is before


INTERRUPTED_TWICE = """
import asyncio, os, signal, sys, threading
from pathlib import Path
from selftest_core.tools.process import (run, run_async)

def stop(number, frame):
    raise KeyboardInterrupt
signal.signal(signal.SIGTERM, stop)

def again():  # the second one arrives when the program was asked to end, and did not
    while not Path(sys.argv[2]).exists():
        threading.Event().wait(0.01)
    os.kill(os.getpid(), signal.SIGTERM)
threading.Thread(target=again, daemon=True).start()

words = ["sh", "-c", sys.argv[3]]
if sys.argv[1] == "run":
    run(words, timeout=900, cwd=Path("/"))
else:
    asyncio.run(run_async(words, timeout=900, cwd=Path("/")))
"""


@pytest.mark.parametrize("way", ["run", "run_async"])
def test_being_interrupted_twice_spares_no_program(tmp_path: Path, way: str) -> None:
    told, asked = tmp_path / "told", tmp_path / "asked"
    deaf = f"trap 'touch {asked}' TERM; " + FAMILY.format(told=told, wait="while :; do sleep 0.1; done")
    process = subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED_TWICE, way, str(asked), deaf],
        stdin=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    family = told_pids(told)
    process.send_signal(signal.SIGTERM)
    assert process.wait(PATIENCE) != 0
    for pid in family:
        eventually(lambda pid=pid: not is_alive(pid), "the end of the family")  # type: ignore[misc]


def test_a_script_that_somebody_still_has_open_for_writing_is_waited_for(tmp_path: Path) -> None:
    """As a program has it that another thread is just starting: it gets a copy of every open file for a moment."""
    script = tmp_path / "script"
    with ThreadPoolExecutor(1) as pool:
        with script.open("w") as file:
            file.write("#!/bin/sh\necho done\n")
            file.flush()
            script.chmod(0o755)
            until = time.monotonic() + 0.3
            running = pool.submit(run, [script], timeout=PATIENCE, cwd=HERE)
            eventually(lambda: running.done() or time.monotonic() > until)
        assert running.result().stdout == "done\n"

"""The one door to other programs: every process that this project starts is started here.

Each program gets an argv list, a deadline, a folder, a closed stdin unless text is given, and a session of its own,
so that it cannot ask questions on our terminal and can be ended whole, children included. Output is read while it
comes, with a cap, since what a program prints may be endless. Signals that our parent made us ignore (a background
job, nohup) are given back their default: ignoring is inherited, and an agent that ignores Ctrl-C cannot be stopped.

One loop does the reading for `run` and `run_async`; the latter runs it in a thread, so that it works in any event
loop on any thread. It must not know what any program means: that is for the modules beside it.
"""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from selftest_core.errors import ToolFailedError, ToolMissingError, ToolOutputError, ToolTimeoutError
from selftest_core.frozen import dataclass
from selftest_core.tools import groups
from selftest_core.tools.installing import install_hint
from selftest_core.tools.pipes import InterruptedExchange, TooLate, TooMuch, exchange

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Iterator, Mapping, Sequence
    from types import FrameType

OUTPUT_LIMIT = 64 * 1024 * 1024
"""Bytes of stdout after which a program is ended, unless the caller allows more."""

_INHERITED = (
    signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGTERM, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU,
    signal.SIGCHLD,
)  # fmt: skip
_IGNORED_BY_PYTHON = (signal.SIGPIPE, signal.SIGXFSZ)
_RESET_AND_EXEC = (
    "import os,signal,sys\n"
    "for n in sys.argv[1].split(','): signal.signal(int(n), signal.SIG_DFL)\n"
    "os.execvp(sys.argv[2], sys.argv[2:])"
)


@dataclass(frozen=True, slots=True)
class Completed:
    """A program that ended by itself. `exit_status` is negative for a signal; undecodable bytes are replaced."""

    argv: tuple[str, ...]
    exit_status: int
    stdout: str
    stderr: str
    seconds: float

    @property
    def ok(self) -> bool:
        """True where the program says that it succeeded."""
        return self.exit_status == 0

    @property
    def stderr_end(self) -> str:
        """The last lines of stderr, for an error's detail."""
        return "\n".join(self.stderr.strip().splitlines()[-12:])[-2000:]


def run(
    argv: Sequence[str | Path],
    *,
    timeout: float,
    cwd: Path,
    env: Mapping[str, str] | None = None,
    input: str | None = None,  # noqa: A002 -- the word that subprocess uses
    limit: int = OUTPUT_LIMIT,
    undecodable: str = "replace",
) -> Completed:
    """Run a program to its end, `timeout` seconds at most, and return what it said; `env` None inherits ours.

    A non-zero exit status is returned, not raised. `undecodable` is what becomes of bytes that are not UTF-8;
    "surrogateescape" keeps them, for paths. Raises ToolMissingError, ToolTimeoutError, ToolOutputError (more than
    `limit` bytes), ToolFailedError (it could not be started). KeyboardInterrupt ends the program first.
    """
    conversation = _Conversation(argv, timeout=timeout, cwd=cwd, env=env, text=input, limit=limit)
    return conversation.hold(undecodable)


async def run_async(
    argv: Sequence[str | Path],
    *,
    timeout: float,
    cwd: Path,
    env: Mapping[str, str] | None = None,
    input: str | None = None,  # noqa: A002 -- the word that subprocess uses
    limit: int = OUTPUT_LIMIT,
) -> Completed:
    """The same as `run`, without holding up the event loop. Cancelling ends the program, and waits for that."""
    import asyncio  # a tenth of a second that one-shot commands need not pay

    loop = asyncio.get_running_loop()
    answer: asyncio.Future[Completed] = loop.create_future()
    conversation = _Conversation(argv, timeout=timeout, cwd=cwd, env=env, text=input, limit=limit)

    def settle(completed: Completed | None, error: BaseException | None) -> None:
        if answer.done():
            return
        if error is not None:
            answer.set_exception(error)
        elif completed is not None:
            answer.set_result(completed)

    def hold() -> None:
        completed, error = None, None
        try:
            completed = conversation.hold()
        except BaseException as raised:
            error = raised
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(settle, completed, error)

    thread = threading.Thread(target=hold, name=f"run {Path(conversation.argv[0]).name}", daemon=True)
    thread.start()
    try:
        return await asyncio.shield(answer)
    except asyncio.CancelledError:
        conversation.interrupt()
        with contextlib.suppress(Exception):
            await asyncio.shield(answer)
        raise


class Running:
    """A long-lived program in a session of its own; `end` ends it with all its children."""

    def __init__(self, process: subprocess.Popen[bytes], argv: tuple[str, ...]) -> None:
        self.process = process
        self.argv = argv

    @property
    def pid(self) -> int:
        """Its process id, which is also its process group's."""
        return self.process.pid

    @property
    def stdin(self) -> IO[bytes] | None:
        """Its input, where a dialogue was asked for."""
        return self.process.stdin

    @property
    def stdout(self) -> IO[bytes] | None:
        """Its output, where a pipe was asked for."""
        return self.process.stdout

    def poll(self) -> int | None:
        """Its exit status, or None while it lives."""
        return self.process.poll()

    def wait(self, timeout: float) -> int:
        """Wait for its end; raises ToolTimeoutError, and leaves it running then."""
        try:
            return self.process.wait(timeout)
        except subprocess.TimeoutExpired as error:
            raise _too_late(self.argv, timeout) from error

    def end(self, grace: float = groups.GRACE) -> int:
        """Ask the whole group to end, then end it; returns the exit status."""
        groups.end(self.process, grace)
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                with contextlib.suppress(BrokenPipeError):  # what it did not read it will not miss
                    stream.close()
        return self.process.returncode


def spawn(
    argv: Sequence[str | Path],
    *,
    cwd: Path,
    env: Mapping[str, str] | None = None,
    output: Path | None = None,
    pipe: bool = False,
    dialogue: bool = False,
) -> Running:
    """Start a program that goes on by itself. Its output goes to `output` (appended), a pipe, or nowhere.

    `dialogue`: both its input and its output are pipes, for a program that answers line by line.
    """
    words = tuple(str(part) for part in argv)
    with contextlib.ExitStack() as stack:
        out: Any = subprocess.DEVNULL
        pipe = pipe or dialogue
        if pipe:
            out = subprocess.PIPE
        elif output is not None:
            out = stack.enter_context(output.open("ab"))
        errors: Any = subprocess.DEVNULL if pipe else out
        stdin = subprocess.PIPE if dialogue else subprocess.DEVNULL
        process = _start(words, cwd=cwd, env=env, stdin=stdin, stdout=out, stderr=errors)
    return Running(process, words)


def call_interactive(argv: Sequence[str | Path], env: Mapping[str, str] | None = None, cwd: Path | None = None) -> int:
    """Give our terminal to a program until it ends, and return its exit status (negative for a signal).

    For the main thread. Meanwhile Ctrl-C, Ctrl-\\ and Ctrl-Z are the program's alone: caught here rather than ignored,
    since ignoring would be inherited.
    """
    words = tuple(str(part) for part in argv)
    with _deaf_to_the_keyboard():
        process = _start(words, cwd=cwd or Path(), env=env, stdin=None, stdout=None, stderr=None, session=False)
        process.returncode = groups.wait_for_client(process.pid)
        return process.returncode


class _Conversation:
    """One program from its start to its end: what goes in, what comes out, and the deadline."""

    def __init__(
        self,
        argv: Sequence[str | Path],
        *,
        timeout: float,
        cwd: Path,
        env: Mapping[str, str] | None,
        text: str | None,
        limit: int,
    ) -> None:
        self.argv = tuple(str(part) for part in argv)
        self._timeout = timeout
        self._cwd = cwd
        self._env = env
        self._text = text
        self._limit = limit
        self._is_interrupted = False
        self._bell: int | None = None
        self.process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()

    def interrupt(self) -> None:
        """End the program from another thread."""
        with self._lock:
            self._is_interrupted = True
            if self._bell is not None:
                os.write(self._bell, b"!")

    def hold(self, undecodable: str = "replace") -> Completed:
        """Run the program; the thread that calls this does all the reading and writing."""
        began = time.monotonic()
        ear, bell = os.pipe()
        groups.HELD.add(self)
        with self._lock:
            self._bell = bell
            if self._is_interrupted:
                os.write(bell, b"!")
        try:
            stdin = subprocess.DEVNULL if self._text is None else subprocess.PIPE
            process = _start(
                self.argv, cwd=self._cwd, env=self._env, stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE
            )
            self.process = process
            try:
                stdout, stderr = self._exchange(process, began + self._timeout, ear)
            except BaseException:
                groups.end(process, groups.GRACE)
                raise
            finally:
                for stream in (process.stdin, process.stdout, process.stderr):
                    if stream is not None:
                        with contextlib.suppress(OSError):
                            stream.close()
            return Completed(
                self.argv,
                process.returncode,
                stdout.decode("utf-8", undecodable),
                stderr.decode("utf-8", "replace"),
                time.monotonic() - began,
            )
        finally:
            groups.HELD.discard(self)
            with self._lock:
                self._bell = None
                os.close(bell)
            os.close(ear)

    def _exchange(self, process: subprocess.Popen[bytes], deadline: float, ear: int) -> tuple[bytes, bytes]:
        assert process.stdout is not None
        assert process.stderr is not None
        name = Path(self.argv[0]).name
        try:
            return exchange(
                process.stdout.fileno(),
                process.stderr.fileno(),
                process.stdin,
                _encoded(self._text or ""),
                ear=ear,
                has_ended=lambda: process.poll() is not None,
                deadline=deadline,
                limit=self._limit,
            )
        except TooLate as late:
            raise _too_late(self.argv, self._timeout, late.stderr) from None
        except TooMuch:
            raise ToolOutputError(
                f"{name} printed more than {self._limit // 1024:,} KiB",
                "It was ended, since it might never have stopped.",
                argv=self.argv,
            ) from None
        except InterruptedExchange:
            raise ToolFailedError(f"{name} was interrupted", argv=self.argv) from None


def _encoded(text: str) -> bytes:
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace")


def _start(
    argv: tuple[str, ...],
    *,
    cwd: Path,
    env: Mapping[str, str] | None,
    stdin: int | None,
    stdout: Any,
    stderr: Any,
    session: bool = True,
    tries: int = 250,
) -> subprocess.Popen[bytes]:
    import shutil  # with all that unpacks archives: an import of the core does not wait for it

    name = Path(argv[0]).name
    path = (os.environ if env is None else env).get("PATH", os.defpath)
    program = shutil.which(argv[0], path=path)
    if program is None:
        where = f"`{argv[0]}` was looked for on {path}"
        raise ToolMissingError(f"{name} is not installed", where, install_hint(name), argv=argv)
    ignored = [number for number in _INHERITED if signal.getsignal(number) is signal.SIG_IGN]
    words = [program, *argv[1:]]
    if ignored:
        numbers = ",".join(str(int(number)) for number in (*ignored, *_IGNORED_BY_PYTHON))
        words = [sys.executable, "-I", "-S", "-c", _RESET_AND_EXEC, numbers, *words]
    try:
        return subprocess.Popen(
            words,
            cwd=cwd,
            env=None if env is None else dict(env),
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            bufsize=0,
            close_fds=True,
            restore_signals=True,
            start_new_session=session,
        )
    except (OSError, ValueError) as error:
        if isinstance(error, OSError) and error.errno == errno.ETXTBSY and tries > 0:
            time.sleep(0.02)  # it was written just now, and a program that is being started has a copy of its file
            return _start(
                argv, cwd=cwd, env=env, stdin=stdin, stdout=stdout, stderr=stderr, session=session, tries=tries - 1
            )
        if not cwd.is_dir():
            raise ToolFailedError(
                f"{name} could not be started: its folder is gone", str(cwd), "Start again from a folder that exists.",
                argv=argv,
            ) from error  # fmt: skip
        raise ToolFailedError(f"{name} could not be started", str(error), argv=argv) from error


def _too_late(argv: tuple[str, ...], timeout: float, stderr: bytes = b"") -> ToolTimeoutError:
    said = stderr.decode("utf-8", "replace")[-2000:].strip()
    name = Path(argv[0]).name
    return ToolTimeoutError(f"{name} did not answer within {timeout:g} s", said, argv=argv, stderr=said)


@contextlib.contextmanager
def _deaf_to_the_keyboard() -> Iterator[None]:
    def leave_it(number: int, frame: FrameType | None) -> None:
        """The key was meant for the program that has the terminal."""

    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGTSTP)}
    for number in before:
        signal.signal(number, leave_it)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)

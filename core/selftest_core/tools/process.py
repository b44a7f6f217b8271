"""Processes: every program that this project runs is started here.

Each program gets an argument list, a deadline, a folder, a closed stdin unless text is given, and a session of its own:
so it cannot ask questions on our terminal, and is ended with its children. Output is read while it comes, up to a
limit. Signals that our parent made us ignore (a background job, nohup) get their default again: ignoring is inherited,
and an agent that ignores Ctrl-C cannot be stopped.

`exchange` does the reading for `run` and `run_async`; the latter runs it in a thread, so that it works in any event
loop on any thread. Modules for single programs are beside this one; this one knows none of them.
"""

from __future__ import annotations

import contextlib
import errno
import os
import selectors
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from selftest_core.errors import ToolFailedError, ToolMissingError, ToolOutputError, ToolTimeoutError
from selftest_core.frozen import dataclass
from selftest_core.tools import process_groups as groups
from selftest_core.tools.installing import install_hint

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from types import FrameType

OUTPUT_LIMIT = 64 * 1024 * 1024
"""Bytes of stdout after which a program is ended, unless the caller allows more."""
_STDERR_KEPT = 256 * 1024
_CHUNK = 256 * 1024
_ORPHAN_SILENCE = 0.25
"""Seconds of silence after which a pipe is given up that an orphan of an ended program keeps open."""
_END_POLL = 0.01
_LONGEST_WAIT = 1.0

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
        """True for exit status 0."""
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
    input: str | None = None,  # noqa: A002 -- the name in subprocess
    limit: int = OUTPUT_LIMIT,
    undecodable: str = "replace",
) -> Completed:
    """Run a program to its end, `timeout` seconds at most, and return its output; `env` None inherits ours.

    A non-zero exit status is returned, not raised. `undecodable`: the error handler for bytes that are not UTF-8;
    "surrogateescape" keeps them, for paths. Raises ToolMissingError, ToolTimeoutError, ToolOutputError (more than
    `limit` bytes), ToolFailedError (it could not be started). KeyboardInterrupt ends the program first.
    """
    conversation = _Conversation(argv, timeout=timeout, cwd=cwd, env=env, text=input, limit=limit)
    return conversation.run(undecodable)


async def run_async(
    argv: Sequence[str | Path],
    *,
    timeout: float,
    cwd: Path,
    env: Mapping[str, str] | None = None,
    input: str | None = None,  # noqa: A002 -- the name in subprocess
    limit: int = OUTPUT_LIMIT,
) -> Completed:
    """Run a program as `run` does, without blocking the event loop. Cancelling ends the program, and waits for that."""
    import asyncio  # a tenth of a second, not needed by one-shot commands

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

    def run_in_thread() -> None:
        completed, error = None, None
        try:
            completed = conversation.run()
        except BaseException as raised:
            error = raised
        with contextlib.suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(settle, completed, error)

    thread = threading.Thread(target=run_in_thread, name=f"run {Path(conversation.argv[0]).name}", daemon=True)
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
        """Its process id, which is also the id of its process group."""
        return self.process.pid

    @property
    def stdin(self) -> IO[bytes] | None:
        """Its input, for a dialogue."""
        return self.process.stdin

    @property
    def stdout(self) -> IO[bytes] | None:
        """Its output, for a pipe or a dialogue."""
        return self.process.stdout

    @property
    def stderr(self) -> IO[bytes] | None:
        """Its errors, where they have a pipe of their own."""
        return self.process.stderr

    def poll(self) -> int | None:
        """Its exit status, or None while it lives."""
        return self.process.poll()

    def wait(self, timeout: float) -> int:
        """Wait for its end. Raises ToolTimeoutError, and does not end it then."""
        try:
            return self.process.wait(timeout)
        except subprocess.TimeoutExpired as error:
            raise _timeout_error(self.argv, timeout) from error

    def end(self, grace: float = groups.GRACE) -> int:
        """Terminate the process group, kill it after `grace` seconds, and return the exit status."""
        groups.end(self.process, grace)
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            if stream is not None:
                with contextlib.suppress(BrokenPipeError):  # input that it did not read
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
    two_pipes: bool = False,
) -> Running:
    """Start a program in the background. Its output goes to `output` (appended), a pipe, or nowhere.

    `dialogue`: both its input and its output are pipes, for a program that answers line by line. `two_pipes`: its
    output and its errors have a pipe each.
    """
    words = tuple(str(part) for part in argv)
    with contextlib.ExitStack() as stack:
        out: Any = subprocess.DEVNULL
        pipe = pipe or dialogue or two_pipes
        if pipe:
            out = subprocess.PIPE
        elif output is not None:
            out = stack.enter_context(output.open("ab"))
        errors: Any = subprocess.PIPE if two_pipes else subprocess.DEVNULL if pipe else out
        stdin = subprocess.PIPE if dialogue else subprocess.DEVNULL
        process = _start(words, cwd=cwd, env=env, stdin=stdin, stdout=out, stderr=errors)
    return Running(process, words)


def call_interactive(argv: Sequence[str | Path], env: Mapping[str, str] | None = None, cwd: Path | None = None) -> int:
    """Run a program on our terminal, and return its exit status (negative for a signal).

    For the main thread. Meanwhile only the program handles Ctrl-C, Ctrl-\\ and Ctrl-Z: they are caught here rather than
    ignored, since ignoring would be inherited.
    """
    words = tuple(str(part) for part in argv)
    with _ignore_terminal_signals():
        process = _start(words, cwd=cwd or Path(), env=env, stdin=None, stdout=None, stderr=None, session=False)
        process.returncode = groups.wait_for_client(process.pid)
        return process.returncode


class _Conversation:
    """One run of a program: its input, its output, and the deadline."""

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
        self._waker: int | None = None
        self.process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()

    def interrupt(self) -> None:
        """End the program from another thread."""
        with self._lock:
            self._is_interrupted = True
            if self._waker is not None:
                os.write(self._waker, b"!")

    def run(self, undecodable: str = "replace") -> Completed:
        """Run the program; the thread that calls this does all the reading and writing."""
        began = time.monotonic()
        wake, waker = os.pipe()
        groups.RUNNING.add(self)
        with self._lock:
            self._waker = waker
            if self._is_interrupted:
                os.write(waker, b"!")
        try:
            stdin = subprocess.DEVNULL if self._text is None else subprocess.PIPE
            pipe = subprocess.PIPE
            try:
                # In this thread: a sandbox ends with the thread that started it.
                self.process = process = _start(
                    self.argv, cwd=self._cwd, env=self._env, stdin=stdin, stdout=pipe, stderr=pipe
                )
                stdout, stderr = self._exchange(process, began + self._timeout, wake)
            except BaseException:
                if self.process is not None:
                    groups.end(self.process, groups.GRACE)
                raise
            finally:
                for stream in () if self.process is None else _streams(self.process):
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
            groups.RUNNING.discard(self)
            with self._lock:
                self._waker = None
                os.close(waker)
            os.close(wake)

    def _exchange(self, process: subprocess.Popen[bytes], deadline: float, wake: int) -> tuple[bytes, bytes]:
        assert process.stdout is not None
        assert process.stderr is not None
        name = Path(self.argv[0]).name
        try:
            return exchange(
                process.stdout.fileno(),
                process.stderr.fileno(),
                process.stdin,
                _encoded(self._text or ""),
                wake=wake,
                has_ended=lambda: process.poll() is not None,
                deadline=deadline,
                limit=self._limit,
            )
        except DeadlinePassed as late:
            raise _timeout_error(self.argv, self._timeout, late.stderr) from None
        except _TooMuchOutput:
            raise ToolOutputError(
                f"{name} printed more than {self._limit // 1024:,} KiB",
                "It was ended: its output may have no end.",
                argv=self.argv,
            ) from None
        except _Interrupted:
            raise ToolFailedError(f"{name} was interrupted", argv=self.argv) from None


class _Interrupted(Exception):  # noqa: N818 -- no error: it was requested
    """Another thread asked to stop."""


class DeadlinePassed(Exception):  # noqa: N818 -- `_Conversation` makes the error for people
    """The deadline has passed; `stderr` is what was read until then."""

    def __init__(self, stderr: bytes) -> None:
        super().__init__()
        self.stderr = stderr


class _TooMuchOutput(Exception):  # noqa: N818 -- `_Conversation` makes the error for people
    """More output than the limit."""


def exchange(
    out: int,
    errors: int,
    stdin: IO[bytes] | None,
    text: bytes,
    *,
    wake: int,
    has_ended: Callable[[], bool],
    deadline: float,
    limit: int,
) -> tuple[bytes, bytes]:
    """Write `text` to `stdin` and close it, read both outputs until the program has ended, and return them.

    `deadline` is a time of time.monotonic(); a byte on `wake` stops at once; `limit` is in bytes of `out`. Only the end
    of stderr is kept. Raises _Interrupted, DeadlinePassed and _TooMuchOutput, and does not end the program.
    """
    gathered = {out: bytearray(), errors: bytearray()}
    to_write = memoryview(text)
    with selectors.DefaultSelector() as selector:
        for stream in (out, errors, wake):
            os.set_blocking(stream, False)
            selector.register(stream, selectors.EVENT_READ)
        if stdin is not None:
            os.set_blocking(stdin.fileno(), False)
            selector.register(stdin, selectors.EVENT_WRITE)
        open_pipes = 2
        while True:
            # Checked before the pipes are read, so that the last output is always seen.
            ended = has_ended()
            if ended and not open_pipes:
                return bytes(gathered[out]), bytes(gathered[errors])
            left = deadline - time.monotonic()
            # With both pipes closed only the end is awaited, which is no event of the selector.
            patience = _ORPHAN_SILENCE if ended else _LONGEST_WAIT if open_pipes else _END_POLL
            ready = selector.select(max(0.0, min(left, patience)))
            if ended and not ready:
                return bytes(gathered[out]), bytes(gathered[errors])
            for key, _ in ready:
                if key.fd == wake:
                    raise _Interrupted
                if key.fd in gathered:
                    chunk = _available(key.fd)
                    if chunk is None:
                        selector.unregister(key.fd)
                        open_pipes -= 1
                    else:
                        gathered[key.fd] += chunk
                elif stdin is not None:
                    to_write = _written(key.fd, to_write)
                    if not to_write:
                        selector.unregister(stdin)
                        stdin.close()
            del gathered[errors][:-_STDERR_KEPT]
            if len(gathered[out]) > limit:
                raise _TooMuchOutput
            # This process may have been suspended, not the program: so output until now counts, and an end as well.
            if left <= 0 and ended:
                return bytes(gathered[out]), bytes(gathered[errors])
            if left <= 0:
                raise DeadlinePassed(bytes(gathered[errors]))


def _available(fd: int) -> bytes | None:
    """Read what is available (b"" for nothing), or None at the end."""
    try:
        return os.read(fd, _CHUNK) or None
    except BlockingIOError:
        return b""


def _written(fd: int, text: memoryview) -> memoryview:
    """Write a part and return the rest; no rest where the reader closed its end, which is no error."""
    if not text:
        return text
    try:
        return text[os.write(fd, text[:65536]) :]
    except BlockingIOError:
        return text
    except BrokenPipeError:
        return text[:0]


def _encoded(text: str) -> bytes:
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace")


def _streams(process: subprocess.Popen[bytes]) -> list[IO[bytes]]:
    return [one for one in (process.stdin, process.stdout, process.stderr) if one is not None]


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
    import shutil  # imported here: it imports all archive formats

    name = Path(argv[0]).name
    path = (os.environ if env is None else env).get("PATH", os.defpath)
    program = shutil.which(argv[0], path=path)
    if program is None:
        where = f"`{argv[0]}` was searched on {path}"
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
            time.sleep(0.02)  # it was just written, and another program that is being started still has its file open
            return _start(
                argv, cwd=cwd, env=env, stdin=stdin, stdout=stdout, stderr=stderr, session=session, tries=tries - 1
            )
        if not cwd.is_dir():
            raise ToolFailedError(
                f"{name} could not be started: its folder is gone", str(cwd), "Start again from a folder that exists.",
                argv=argv,
            ) from error  # fmt: skip
        raise ToolFailedError(f"{name} could not be started", str(error), argv=argv) from error


def _timeout_error(argv: tuple[str, ...], timeout: float, stderr: bytes = b"") -> ToolTimeoutError:
    detail = stderr.decode("utf-8", "replace")[-2000:].strip()
    name = Path(argv[0]).name
    return ToolTimeoutError(f"{name} did not answer within {timeout:g} s", detail, argv=argv, stderr=detail)


@contextlib.contextmanager
def _ignore_terminal_signals() -> Iterator[None]:
    def do_nothing(number: int, frame: FrameType | None) -> None:
        """Do nothing: the signal was for the program on the terminal."""

    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGTSTP)}
    for number in before:
        signal.signal(number, do_nothing)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)

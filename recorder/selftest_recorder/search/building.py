"""Builder of the search's index: a process of its own at low priority, one at a time for each repository.

    python -m selftest_recorder.search.building REPOSITORY

It prints a line of JSON for each step, indexes what is new or has changed, the newest run first, and removes what is
gone. It can be killed at any time: what was committed stays. A second builder waits for the first, and finds nothing
left to do. It ends when nobody reads its progress any more.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from selftest_core import paths
from selftest_core.errors import SelftestError, UsageError
from selftest_core.frozen import dataclass
from selftest_core.git.command import find_place
from selftest_core.tools import process
from selftest_recorder.search.database import DamagedIndexError, Database, discard, index_file
from selftest_recorder.search.sources import Sources

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from selftest_core.tools.process import Running
    from selftest_recorder.search.sources import Line, Source

_NICENESS = 10
_SECONDS_OF_A_BATCH = 0.5
_LOOK_AGAIN = 0.1


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of a build: bytes and sources that are done and in all, lines so far. `error`: what failed.

    `is_waiting`: another process builds. `is_done`: the index is complete.
    """

    done: int = 0
    total: int = 0
    sources: int = 0
    all_sources: int = 0
    lines: int = 0
    seconds: float = 0.0
    is_waiting: bool = False
    is_done: bool = False
    error: str = ""
    detail: str = ""
    hint: str = ""

    @property
    def share(self) -> float:
        """The share that is done, from 0 to 1."""
        return 1.0 if self.is_done else min(self.done / self.total, 1.0) if self.total else 0.0

    @property
    def rate(self) -> float:
        """Bytes in a second."""
        return self.done / self.seconds if self.seconds else 0.0


def start_builder(repository: Path, environ: Mapping[str, str]) -> Running:
    """Start a builder; `follow` reads its progress. Ending it does no harm."""
    argv = (sys.executable, "-P", "-m", "selftest_recorder.search.building", str(repository))
    return process.spawn(argv, cwd=Path("/"), env=dict(environ), pipe=True)


def follow(builder: Running) -> Iterator[Progress]:
    """Iterate over the progress of a builder until it ends. The last one says `is_done`, or has an error."""
    assert builder.stdout is not None
    last = Progress()
    for line in builder.stdout:
        with contextlib.suppress(ValueError, TypeError):
            last = Progress(**json.loads(line))
            yield last
    if not last.is_done and not last.error:
        yield Progress(error="Indexing ended early", hint="Search again: what was indexed is kept.")


def build(repository: Path, environ: Mapping[str, str], tell: Callable[[Progress], None]) -> None:
    """Bring the index up to date. Raises SelftestError."""
    path = index_file(repository, environ)
    with _lock(path, lambda: tell(Progress(is_waiting=True))):
        try:
            git_dir = find_place(repository, environ).git_dir
        except UsageError:
            git_dir = None
        sources = Sources(repository, git_dir, environ, paths.cache_folder(environ))
        try:
            _update(path, sources, tell)
        except DamagedIndexError:
            discard(path)
            _update(path, sources, tell)


def _update(path: Path, sources: Sources, tell: Callable[[Progress], None]) -> None:
    began = time.monotonic()
    with Database(path, is_writer=True) as database:
        found = sources.find()
        known = database.stamps()
        wanted = {_key(one): one for one in found}
        for key, (number, _) in known.items():
            if key not in wanted:
                with database.transaction():
                    database.remove(number)
        waiting = [one for key, one in wanted.items() if key not in known or known[key][1] != one.stamp]
        total = sum(one.size for one in waiting)
        done = finished = lines = 0
        while finished < len(waiting):
            batch_began = time.monotonic()
            with database.transaction():
                while finished < len(waiting) and time.monotonic() - batch_began < _SECONDS_OF_A_BATCH:
                    one = waiting[finished]
                    if _key(one) in known:
                        database.remove(known[_key(one)][0])
                    lines += database.add(one, _readable(sources, one))
                    finished += 1
                    done += one.size
            tell(Progress(done, total, finished, len(waiting), lines, time.monotonic() - began))
    tell(Progress(done, total, finished, len(waiting), lines, time.monotonic() - began, is_done=True))


def _key(source: Source) -> tuple[str, str, str]:
    return source.run, str(source.kind), source.name


def _readable(sources: Sources, source: Source) -> Iterator[Line]:
    """Read a source as far as it can be read: a damaged file has the lines before the damage."""
    with contextlib.suppress(OSError, SelftestError):
        yield from sources.read(source)


@contextlib.contextmanager
def _lock(path: Path, say_waiting: Callable[[], None]) -> Iterator[None]:
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle = os.open(path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        hint = "XDG_CACHE_HOME names another folder for it."
        raise SelftestError("The index of the search cannot be written", str(error), hint) from error
    try:
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                say_waiting()
                time.sleep(_LOOK_AGAIN)  # not in flock itself: the wait is told, and Ctrl-C ends it
        yield
    finally:
        os.close(handle)


def main(arguments: Sequence[str]) -> int:
    """Build the index of a repository, and print the progress."""
    os.nice(_NICENESS)

    def tell(progress: Progress) -> None:
        fields = {name: getattr(progress, name) for name in Progress.__dataclass_fields__}
        sys.stdout.write(json.dumps(fields) + "\n")
        sys.stdout.flush()

    try:
        build(Path(arguments[0]), os.environ, tell)
    except SelftestError as error:
        tell(Progress(error=error.title, detail=error.detail, hint=error.hint))
        return 1
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

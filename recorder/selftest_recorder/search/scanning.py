"""Scan of the index for a regular expression, in a process of its own: an expression may take for ever on a line.

    python -m selftest_recorder.search.scanning REPOSITORY EXPRESSION RUN [KIND…]

It prints lines of JSON, `{"hit": […]}` and `{"done": sources, "of": sources}`, and ends when nobody reads them.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from selftest_core.errors import SelftestError
from selftest_core.tools import process
from selftest_recorder.search.database import Database, index_file
from selftest_recorder.search.hits import Hit, Scope, Searcher, parse_regex
from selftest_recorder.search.sources import Kind

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from selftest_core.tools.process import Running


def start_scan(repository: Path, expression: str, scope: Scope, environ: Mapping[str, str]) -> Running:
    """Start a scan; `follow_scan` reads what it finds. Ending it does no harm."""
    argv = (sys.executable, "-P", "-m", "selftest_recorder.search.scanning", str(repository), expression, scope.run)
    return process.spawn((*argv, *scope.kinds), cwd=Path("/"), env=dict(environ), pipe=True)


def follow_scan(scan: Running) -> Iterator[Hit | float]:
    """Iterate over the hits as they are found, and the share that was searched, from 0 to 1, which is 1 at the end."""
    assert scan.stdout is not None
    for line in scan.stdout:
        with contextlib.suppress(ValueError, TypeError, KeyError):
            said = json.loads(line)
            if "hit" in said:
                hit = Hit._make(said["hit"])
                yield hit._replace(kind=Kind(hit.kind), spans=tuple((begin, end) for begin, end in hit.spans))
            else:
                yield said["done"] / said["of"] if said["of"] else 1.0


def main(arguments: Sequence[str]) -> int:
    """Scan, and print what is found."""
    repository, expression, run, *kinds = arguments

    def write(**said: object) -> None:
        sys.stdout.write(json.dumps(said) + "\n")
        sys.stdout.flush()

    try:
        with Database(index_file(Path(repository), os.environ)) as database:
            scope = Scope(run, frozenset(map(Kind, kinds)))
            searcher = Searcher(database, Path(repository))
            for hit in searcher.scan(parse_regex(expression), scope, lambda done, of: write(done=done, of=of)):
                write(hit=hit)
    except SelftestError:
        return 1
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

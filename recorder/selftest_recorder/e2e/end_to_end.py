"""End-to-end tests of a tutorial: a test cites a block, runs it unchanged, and checks its effect.

    def test_list(e2e, world):
        block = e2e.write_tutorial_block(\"\"\"
            selftest-tui list --json
        \"\"\")
        done = block.run(environment=world.environment, cwd=world.repository)

The citation is checked when the test runs; `selftest-tui check` reads it without running anything. A block that ends
with an error is returned like any other: the test decides.
"""

from __future__ import annotations

import contextlib
import textwrap
from typing import TYPE_CHECKING

from selftest_core.frozen import dataclass
from selftest_core.tools import process
from selftest_core.tutorial.citations import Citation
from selftest_core.tutorial.coverage import cover
from selftest_core.tutorial.tutorial import parse_blocks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from selftest_core.tools.process import Completed
    from selftest_core.tutorial.tutorial import Tutorial
    from selftest_recorder.e2e.session import Session

_DEADLINE = 400.0
_SHELL = ("bash", "-euo", "pipefail", "-c")


@dataclass(frozen=True, slots=True)
class TutorialBlock:
    """A block that a test cites. `text`: the commands of the test's citation, dedented."""

    text: str

    def run(self, *, environment: Mapping[str, str], cwd: Path, timeout: float = _DEADLINE) -> Completed:
        """Run the block in a shell that stops at the first error, and return its exit status."""
        return process.run([*_SHELL, self.text], timeout=timeout, cwd=cwd, env=environment)

    @contextlib.contextmanager
    def open(
        self, *, environment: Mapping[str, str], cwd: Path, columns: int = 100, lines: int = 30
    ) -> Iterator[Session]:
        """Run the block in a terminal, for blocks that open a screen or ask a question."""
        from selftest_recorder.e2e.session import open_session

        argv = [*_SHELL, self.text]
        with open_session(argv, environment=environment, cwd=cwd, columns=columns, lines=lines) as session:
            yield session


class EndToEnd:
    """The fixture `e2e`. `record` is called with each block that the test cites."""

    def __init__(self, tutorial: Path, test: str, record: Callable[[str], None]) -> None:
        self._path = tutorial
        self._test = test
        self._record = record

    def write_tutorial_block(self, text: str) -> TutorialBlock:
        """Cite a block of the tutorial. Raises AssertionError with the nearest block for other texts."""
        cited = textwrap.dedent(text).strip("\n")
        coverage = cover(self._read().blocks, [Citation(self._test, self._test, 1, cited)])
        for stale in coverage.stale:
            nearest = stale.nearest and f"the nearest, at line {stale.nearest.line}:\n{stale.nearest.text}"
            raise AssertionError(f"{self._test} cites no block of {self._path.name}; {nearest or 'none is like it'}")
        self._record(cited)
        return TutorialBlock(cited)

    def _read(self) -> Tutorial:
        try:
            return parse_blocks(self._path.read_text(encoding="utf-8-sig"))
        except FileNotFoundError:
            raise AssertionError(f"{self._test} cites a block, and there is no {self._path}") from None

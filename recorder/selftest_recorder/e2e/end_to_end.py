"""End-to-end tests: commands in an isolated environment, with a transcript; and blocks of a tutorial, run unchanged.

    def test_list(e2e):
        result = e2e.run("selftest-tui list --json", comment="an empty fleet")
        expect(result).to_succeed().to_have_json({"agents": []})

        block = e2e.write_tutorial_block(\"\"\"
            selftest-tui list
        \"\"\")
        expect(block.run()).to_succeed()

The citation is checked when the test runs; `selftest-tui check` reads it without running anything. A command that ends
with an error is returned like any other: the test decides. One that does not end fails the test.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import textwrap
from functools import cached_property
from typing import TYPE_CHECKING

from selftest_core.config import load_config
from selftest_core.run.crew.env_filter import is_secret_name
from selftest_core.tutorial.citations import Citation
from selftest_core.tutorial.coverage import cover
from selftest_core.tutorial.tutorial import parse_blocks
from selftest_recorder.e2e.commands import Command
from selftest_recorder.e2e.isolation import Isolation
from selftest_recorder.e2e.options import KEPT
from selftest_recorder.e2e.results import hide
from selftest_recorder.e2e.transcript import Transcript
from selftest_recorder.onhost.masking import USUAL_PATTERNS, make_secrets

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from selftest_core.config import Config
    from selftest_core.tutorial.tutorial import Tutorial
    from selftest_recorder.e2e.noop import Noop
    from selftest_recorder.e2e.results import Result
    from selftest_recorder.e2e.session import Session
    from selftest_recorder.onhost.masking import Secrets

TIMEOUT = 120.0
"""Seconds that a command may take unless the test says otherwise."""
_BLOCK_TIMEOUT = 400.0
_SHELL = ("bash", "-euo", "pipefail", "-c")
_SHORTEST_GUESS = 8
"""Characters of a value that is masked because of its variable's name alone."""


class TutorialBlock:
    """A block that a test cites. `text`: the commands of the test's citation, dedented."""

    def __init__(self, text: str, e2e: EndToEnd, noop: Noop | None = None) -> None:
        self.text = text
        self._e2e = e2e
        self._noop = noop

    def run(
        self,
        *,
        environment: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        timeout: float = _BLOCK_TIMEOUT,
        comment: str = "",
    ) -> Result:
        """Run the block, as `EndToEnd.run` does."""
        __tracebackhide__ = True
        return self._e2e.run(self._script(), timeout=timeout, comment=comment, environment=environment, cwd=cwd)

    def start(
        self, *, environment: Mapping[str, str] | None = None, cwd: Path | None = None, comment: str = ""
    ) -> Command:
        """Run the block in the background, as `EndToEnd.start` does."""
        return self._e2e.start(self._script(), comment=comment, environment=environment, cwd=cwd)

    def pty(
        self,
        *,
        environment: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        columns: int = 100,
        lines: int = 30,
        comment: str = "",
    ) -> contextlib.AbstractContextManager[Session]:
        """Run the block in a terminal, for blocks that open a screen or ask a question."""
        return self._e2e.pty(
            self._script(), columns=columns, lines=lines, comment=comment, environment=environment, cwd=cwd
        )

    open = pty

    def _script(self) -> str:
        return self.text if self._noop is None else self._noop.replace(self.text)


class EndToEnd:
    """The fixture `e2e`. `record` is called with the name and value of each property of the test's report.

    `artifacts`: the folder of this test's transcript, cited blocks and recordings. `without`: a program that does
    nothing in one of its blocks.
    """

    def __init__(
        self,
        tutorial: Path,
        test: str,
        record: Callable[[str, str], None],
        artifacts: Callable[[], Path],
        without: Noop | None = None,
    ) -> None:
        self._path = tutorial
        self._test = test
        self._record = record
        self._make_artifacts = artifacts
        self._commands: list[Command] = []
        self._blocks = 0
        self._without = without

    @cached_property
    def artifacts(self) -> Path:
        """The folder of what this test leaves: transcript.txt, the cited blocks, recordings of attaches."""
        folder = self._make_artifacts()
        self._record("e2e_artifacts", str(folder))
        return folder

    @cached_property
    def isolation(self) -> Isolation:
        """The private folders of this test, made by the first command that uses them."""
        return Isolation(self.artifacts)

    @property
    def environment(self) -> dict[str, str]:
        """The environment of commands. A test may change it."""
        return self.isolation.environment

    @property
    def home(self) -> Path:
        """The HOME of commands."""
        return self.isolation.home

    @property
    def repository(self) -> Path:
        """A git repository with one commit, in which commands run."""
        return self.isolation.repository

    def use_backends(self, *names: str) -> None:
        """Let mngr use these backends of providers, which cost money or need a network, beside the local one."""
        self.isolation.use_backends(names)

    def run(
        self,
        command: str | Sequence[str | Path],
        *,
        timeout: float = TIMEOUT,
        comment: str = "",
        environment: Mapping[str, str] | None = None,
        cwd: Path | None = None,
    ) -> Result:
        """Run a command to its end and return its result, whatever its exit status is.

        A string runs in a shell that stops at the first error. `environment`: exactly these variables; `cwd`: a folder;
        else those of this test. Raises TimedOut when it was killed with all its children after `timeout` seconds.
        """
        __tracebackhide__ = True
        return self.start(command, comment=comment, environment=environment, cwd=cwd).wait(timeout)

    def start(
        self,
        command: str | Sequence[str | Path],
        *,
        comment: str = "",
        environment: Mapping[str, str] | None = None,
        cwd: Path | None = None,
    ) -> Command:
        """Start a command that runs until `end`, the end of its `with` block, or the end of the test."""
        argv, text = _words(command)
        own = self.environment if environment is None else environment
        secrets = self._secrets(own)
        if comment:
            self._transcript.comment(comment, secrets)
        started = Command(
            argv, text, cwd=cwd or self.repository, environment=own, transcript=self._transcript.command(text, secrets)
        )
        self._commands.append(started)
        return started

    @contextlib.contextmanager
    def pty(
        self,
        command: str | Sequence[str | Path],
        *,
        columns: int = 100,
        lines: int = 30,
        comment: str = "",
        environment: Mapping[str, str] | None = None,
        cwd: Path | None = None,
    ) -> Iterator[Session]:
        """Run a command in a terminal: send keys, wait for text, read the screen. It ends with the block."""
        from selftest_recorder.e2e.session import open_session

        argv, text = _words(command)
        own = self.environment if environment is None else environment
        secrets = self._secrets(own)
        if comment:
            self._transcript.comment(comment, secrets)
        told = self._transcript.command(text, secrets)
        shown = [""]

        def tell(kind: str, what: str) -> None:
            if kind != "screen":
                told.note(f"{kind}: {what}")
            elif what.rstrip() != shown[0]:
                shown[0] = what.rstrip()
                told.feed("stdout", f"{shown[0]}\n".encode())

        with open_session(
            argv, environment=own, cwd=cwd or self.repository, columns=columns, lines=lines, tell=tell
        ) as session:
            try:
                yield session
            finally:
                status = None
                with contextlib.suppress(AssertionError, ValueError):  # tmux has no answer where the terminal is gone
                    tell("screen", session.screen())
                    status = session.exit_status
                if status is None:
                    told.note("closed while it ran")
                told.close(status)

    def write_tutorial_block(self, text: str) -> TutorialBlock:
        """Cite a block of the tutorial. Raises AssertionError with the nearest block for other texts."""
        cited = textwrap.dedent(text).strip("\n")
        coverage = cover(self._read().blocks, [Citation(self._test, self._test, 1, cited)])
        for stale in coverage.stale:
            nearest = stale.nearest and f"the nearest, at line {stale.nearest.line}:\n{stale.nearest.text}"
            raise AssertionError(f"{self._test} cites no block of {self._path.name}; {nearest or 'none is like it'}")
        self._record("tutorial_block", cited)
        self._blocks += 1
        (self.artifacts / f"block-{self._blocks}.sh").write_text(f"{cited}\n", encoding="utf-8")
        is_replaced = self._without is not None and self._without.block == self._blocks
        return TutorialBlock(cited, self, self._without if is_replaced else None)

    def close(self, *, keep: bool = False) -> None:
        """End all commands, and everything that they started in the isolated environment, unless it is kept."""
        problems: list[str] = []
        if not keep:
            for command in self._commands:
                command.end()
        if "isolation" in self.__dict__:
            if keep:
                self.isolation.keep()
                self._record(KEPT, str(self.isolation.root))
            else:
                problems += self.isolation.end()
        if "_transcript" in self.__dict__:
            self._transcript.close()
            if self._transcript.problem:
                problems.append(f"{self._transcript.path} cannot be written: {self._transcript.problem}")
        if problems:
            raise AssertionError("; ".join(problems))

    @cached_property
    def _transcript(self) -> Transcript:
        transcript = Transcript(self.artifacts / "transcript.txt")
        transcript.comment(f"test: {self._test}", make_secrets((), ()))
        return transcript

    @cached_property
    def _config(self) -> Config:
        return load_config(self._path.parent, os.environ)

    def _secrets(self, environment: Mapping[str, str]) -> Secrets:
        config = self._config
        named = {*config.env, *config.mask_env}
        values = [
            value for variables in (os.environ, environment) for name, value in variables.items()
            if name in named or (is_secret_name(name) and len(value) >= _SHORTEST_GUESS)
        ]  # fmt: skip
        secrets = make_secrets(values, (*USUAL_PATTERNS, *config.mask_patterns))
        hide(secrets)
        return secrets

    def _read(self) -> Tutorial:
        try:
            return parse_blocks(self._path.read_text(encoding="utf-8-sig"))
        except FileNotFoundError:
            raise AssertionError(f"{self._test} cites a block, and there is no {self._path}") from None


def _words(command: str | Sequence[str | Path]) -> tuple[list[str], str]:
    """Return the argument list of a command, and its text."""
    if isinstance(command, str):
        return [*_SHELL, command], command
    words = [str(word) for word in command]
    return words, shlex.join(words)

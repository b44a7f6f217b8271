"""Every error that a user meets: what happened, the details, and what to do.

    SelftestError               exit 2 unless said otherwise
    ├── UsageError              a wrong argument
    ├── ConfigError             a wrong setting, with its file and line
    ├── RefusedError            refused for safety, exit 4
    └── ToolError               an outside program; keeps argv, exit status and the end of stderr
        ├── ToolMissingError    it is not installed
        ├── ToolBrokenError     it is a version known not to work
        ├── ToolTimeoutError    it did not answer within its deadline
        ├── ToolFailedError     it ended with an error
        └── ToolOutputError     what it printed is not what it promises

Errors are shown by one place (`selftest_tui.shared.problems`, `selftest_tui.cli.command`), never by who raises them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


class SelftestError(Exception):
    """An error with a title (one line), a detail (any lines) and a hint (what to do now)."""

    exit_status = 2

    def __init__(self, title: str, detail: str = "", hint: str = "") -> None:
        super().__init__(title)
        self.title = title
        self.detail = detail
        self.hint = hint

    def __str__(self) -> str:
        return "\n".join(part for part in (self.title, self.detail, self.hint) if part)


class UsageError(SelftestError):
    """A wrong argument on the command line."""


class ConfigError(SelftestError):
    """A setting that is unknown or has a wrong value."""


class RefusedError(SelftestError):
    """Something that would damage what is not ours."""

    exit_status = 4


class ToolError(SelftestError):
    """An outside program did not do what it was run for."""

    def __init__(
        self,
        title: str,
        detail: str = "",
        hint: str = "",
        *,
        argv: Sequence[str] = (),
        exit_status: int | None = None,
        stderr: str = "",
    ) -> None:
        super().__init__(title, detail, hint)
        self.argv = tuple(argv)
        self.tool_exit_status = exit_status
        self.stderr = stderr


class ToolMissingError(ToolError):
    """The program is not installed, or not where PATH looks."""


class ToolBrokenError(ToolError):
    """The program's version is known not to work."""


class ToolTimeoutError(ToolError):
    """The program was ended at its deadline."""


class ToolFailedError(ToolError):
    """The program ended with an error."""


class ToolOutputError(ToolError):
    """The program printed something else than it promises, or was cut short."""


def describe_error(error: BaseException, otherwise: str = "") -> str:
    """Say what went wrong, without the hint; `otherwise` where the error has no text."""
    if isinstance(error, SelftestError):
        return ": ".join(part for part in (error.title, error.detail.strip()[-1500:]) if part)
    return str(error) or otherwise


def describe_unexpected(error: BaseException) -> str:
    """Put an unexpected error in one line: the last line of its traceback, and the place in the code that raised it."""
    import traceback  # not needed before the first unexpected error
    from pathlib import PurePath

    while isinstance(error, BaseExceptionGroup) and error.exceptions:
        error = error.exceptions[0]
    frames = traceback.extract_tb(error.__traceback__)
    place = f" ({PurePath(frames[-1].filename).name}:{frames[-1].lineno} in {frames[-1].name})" if frames else ""
    if isinstance(error, SelftestError):
        return f"{describe_error(error)}{place}"
    return f"{''.join(traceback.format_exception_only(error)).strip().splitlines()[-1]}{place}"

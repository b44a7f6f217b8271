"""JSON of `selftest-tui doctor`, `key-guard`, `completion` and `sweep`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from selftest_core.schema.model import Line, Shape, Text

if TYPE_CHECKING:
    from collections.abc import Iterable

    from selftest_core.doctor.doctor import Check


class CheckItem(Shape):
    """One check of the doctor."""

    name: Text
    status: Literal["ok", "warning", "failed"]
    says: Text
    hint: Text


class DoctorDocument(Shape):
    """`selftest-tui doctor --json`. `ok`: no check failed; warnings do not matter."""

    ok: bool
    checks: list[CheckItem]


class DoctorLine(Line, DoctorDocument):
    """`selftest-tui doctor --batch`."""

    event: Literal["summary"] = "summary"


def doctor_document(checks: Iterable[Check]) -> DoctorDocument:
    """Convert the doctor's checks."""
    items = [CheckItem(name=check.name, status=check.status, says=check.text, hint=check.hint) for check in checks]
    return DoctorDocument(ok=all(item.status != "failed" for item in items), checks=items)


class GuardedServer(Shape):
    """The keys Ctrl-Q and Ctrl-T of one tmux server. `changed`: those that this call has changed."""

    socket: Text
    keys: dict[str, Literal["free", "open", "guarded"]] = Field(
        description="free: not bound by mngr. open: acts at once. guarded: asks first."
    )
    changed: list[Text]


class CompletionLine(Line):
    """`selftest-tui completion SHELL --batch`: the script that completes the command line in that shell."""

    event: Literal["summary"] = "summary"
    shell: Literal["bash", "zsh", "fish", "tcsh"]
    script: str


class KeyGuardDocument(Shape):
    """`selftest-tui key-guard --json`: the tmux servers that run."""

    servers: list[GuardedServer]


class KeyGuardLine(Line, KeyGuardDocument):
    """`selftest-tui key-guard --batch`."""

    event: Literal["summary"] = "summary"


class LeftoverItem(Shape):
    """Something that an ended process left behind. `kept`: the user asked to keep it."""

    path: Text = Field(description="The leftover's folder.")
    kind: Literal[
        "demo",
        "agents",
        "session",
        "clone",
        "branches",
        "trust",
        "refs",
        "run",
        "review",
        "slots",
        "packages",
        "sandboxes",
    ]
    run: Text | None = Field(description="The id of the run or review; null for a demo, a verification and sandboxes.")
    says: Text
    names: list[Text] = Field(description="Exactly what is removed: agents, branches, refs, sessions or sandboxes.")
    kept: bool
    removed: bool
    problems: list[Text]


class SweepDocument(Shape):
    """`selftest-tui sweep --json`."""

    leftovers: list[LeftoverItem]


class SweepLine(Line, SweepDocument):
    """`selftest-tui sweep --batch`."""

    event: Literal["summary"] = "summary"

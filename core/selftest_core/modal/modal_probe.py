"""Probe of Modal: one question to it, by a process of its own that ends after eight seconds at most."""

from __future__ import annotations

import contextlib
import json
import sys
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import TYPE_CHECKING, Any

from selftest_core.errors import RefusedError, ToolError, ToolFailedError, ToolOutputError, ToolTimeoutError
from selftest_core.frozen import dataclass
from selftest_core.tools.mngr import interpreter_of
from selftest_core.tools.process import run

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from selftest_core.modal.account import ModalAccount
    from selftest_core.tools.mngr import MngrProgram

SECONDS = 8.0
"""Deadline of one question. Without it an unreachable server is told after 56 seconds."""
_MARGIN = 1.5
"""Seconds for the start of the program, which ends with a reason of its own before the deadline."""
_PROGRAM = Path(__file__).with_name("probe_program.py")
_LIMIT = 16 * 1024 * 1024
_TIMED_OUT, _TERMINATED = 124, 137
_HOST_TAG, _NAME_TAG = "mngr_host_id", "mngr_host_name"


@dataclass(frozen=True, slots=True)
class Sandbox:
    """One live sandbox. `host_id`: of mngr's host, empty while mngr has not tagged it."""

    id: str
    host_id: str = ""
    host_name: str = ""


@dataclass(frozen=True, slots=True)
class Spend:
    """Cost of the workspace in USD since `since` (a date): metered, and billed after credits and discounts."""

    since: str
    metered: Decimal
    billed: Decimal


@dataclass(frozen=True, slots=True)
class ModalAnswer:
    """One answer. `costs`: metered USD by host, None where it was not told; `costs_problem` says why, if Modal did.

    `spend`: None where it was not asked, or not told; `spend_problem` says why. `exits`: exit status by sandbox,
    None while it runs; sandboxes that Modal does not know any more are missing. `problems`: by sandbox that could not
    be ended.
    """

    workspace: str
    version: str = ""
    sandboxes: tuple[Sandbox, ...] = ()
    costs: Mapping[str, Decimal] | None = None
    costs_problem: str = ""
    spend: Spend | None = None
    spend_problem: str = ""
    exits: Mapping[str, int | None] | None = None
    problems: Mapping[str, str] | None = None


def how_it_ended(status: int) -> str:
    """Say how a sandbox ended, by its exit status."""
    if status == _TIMED_OUT:
        return "its sandbox reached its timeout (exit status 124)"
    if status == _TERMINATED:
        return "its sandbox was terminated (exit status 137)"
    return f"its sandbox ended with exit status {status}"


def ask(
    program: MngrProgram,
    environ: Mapping[str, str],
    account: ModalAccount,
    *,
    look: bool = False,
    spend: bool = False,
    poll: Sequence[str] = (),
    terminate: Sequence[str] = (),
    workspace: str | None = None,
    seconds: float = SECONDS,
) -> ModalAnswer:
    """Ask Modal once. `workspace`: the one that it must be, where that matters.

    Raises RefusedError where mngr's credentials or this shell's are of another workspace, and ToolError for the rest.
    """
    python = interpreter_of(program.path) or sys.executable
    request = {
        "token_id": account.token_id, "token_secret": account.token_secret, "environment": account.environment,
        "app": account.app, "seconds": seconds - _MARGIN, "workspace": workspace, "look": look, "spend": spend,
        "poll": list(poll), "terminate": list(terminate),
    }  # fmt: skip
    try:
        done = run(
            (python, "-I", _PROGRAM), timeout=seconds, cwd=Path("/"), env=_environment(environ, account),
            input=json.dumps(request), limit=_LIMIT,
        )  # fmt: skip
    except ToolTimeoutError as late:
        _refuse_error({"kind": "unreachable", "message": f"Modal did not answer within {seconds:g} s"}, late)
        raise
    try:
        told = json.loads(done.stdout)
    except ValueError:
        raise ToolOutputError("Modal could not be asked", done.stderr_end, argv=done.argv[:3]) from None
    if not isinstance(told, dict):
        raise ToolOutputError("Modal could not be asked", done.stdout[:200], argv=done.argv[:3])
    _refuse_error(told.get("error"))
    if told.get("own_workspace") != told.get("workspace"):
        raise RefusedError(
            "mngr and this shell use different workspaces of Modal",
            f"mngr's settings lead to {told.get('workspace')!r}, this shell to {told.get('own_workspace')!r}.",
            "Use one token for both: unset MODAL_TOKEN_ID and MODAL_PROFILE, or change mngr's provider settings.",
        )
    return _read(told)


def _environment(environ: Mapping[str, str], account: ModalAccount) -> dict[str, str]:
    made = dict(environ)
    if account.profile:
        # Modal's own variables would win over the profile that mngr names.
        for name in ("MODAL_TOKEN_ID", "MODAL_TOKEN_SECRET"):
            made.pop(name, None)
        made["MODAL_PROFILE"] = account.profile
    return made


def _refuse_error(error: object, cause: Exception | None = None) -> None:
    if not isinstance(error, dict):
        return
    kind, message = error.get("kind"), str(error.get("message", ""))[:1000]
    if kind == "workspace":
        raise RefusedError("Modal's workspace is another one now", message, "Nothing was changed there.")
    titles = {
        "auth": ("Modal refuses the token", "Run: modal token new"),
        "unreachable": ("Modal does not answer", "https://status.modal.com tells whether it is down."),
        "limited": ("Modal limits the rate of requests", "It is asked again later."),
        "missing": ("Modal's client is not installed beside mngr", "Install mngr with its plugin: imbue-mngr-modal"),
    }
    title, hint = titles.get(str(kind), ("Modal could not be asked", ""))
    raise (ToolFailedError if kind != "other" else ToolError)(title, message, hint) from cause


def _read(told: Mapping[str, Any]) -> ModalAnswer:
    spend, problem = None, ""
    with contextlib.suppress(KeyError, TypeError, InvalidOperation):
        one = told.get("spend") or {}
        problem = str(one.get("problem", ""))
        spend = Spend(str(one["since"]), Decimal(one["metered"]), Decimal(one["billed"]))
    costs, costs_problem = None, str(told.get("costs_problem", ""))
    try:
        if told.get("costs") is not None:
            costs = {str(host): Decimal(usd) for host, usd in told["costs"].items()}
    except InvalidOperation:
        costs_problem = "Modal's client told a cost that is no number"
    return ModalAnswer(
        workspace=str(told.get("workspace", "")),
        version=str(told.get("modal", "")),
        sandboxes=tuple(_sandbox(one) for one in told.get("sandboxes") or ()),
        costs=costs,
        costs_problem=costs_problem,
        spend=spend,
        spend_problem=problem,
        exits={one: status for one, status in told.get("polled", {}).items() if not isinstance(status, str)},
        problems={one: text for one, text in told.get("terminated", {}).items() if text},
    )


def _sandbox(one: Mapping[str, Any]) -> Sandbox:
    tags = one["tags"]
    return Sandbox(str(one["id"]), str(tags.get(_HOST_TAG, "")), str(tags.get(_NAME_TAG, "")))

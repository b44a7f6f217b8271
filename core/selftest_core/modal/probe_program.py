"""Program that asks Modal once, in mngr's own Python, where `modal` is installed. Nothing else imports `modal`.

It reads one JSON object from stdin and prints one on stdout (`modal_probe.py` writes and reads them). It runs as a
process of its own, since the import takes a quarter of a second and an unreachable server blocks for a minute: the
caller ends it at a deadline. Credentials come on stdin, since other users can read the arguments of a process.

    {"token_id", "token_secret", "profile", "environment", "app", "seconds": float, "workspace": name that is required,
     "look": bool, "spend": bool, "poll": [sandbox id], "terminate": [sandbox id]}

Every answer has `workspace` and `own_workspace` (of this shell's own credentials, where the request brings others), or
`error`: {"kind": "auth" | "unreachable" | "limited" | "workspace" | "missing" | "other", "message"}.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import warnings
from datetime import UTC, datetime, timedelta
from typing import Any

HOST_TAG = "mngr_host_id"
_AT_ONCE = 32
_LONGEST_STATS = timedelta(days=6, hours=23)
"""Modal tells costs of whole hours, of seven days at most."""


def main() -> None:
    """Answer one request."""
    request = json.load(sys.stdin)
    # mngr makes its sandboxes by the second version of the API, and lists no others without this.
    os.environ.setdefault("MODAL_SANDBOX_V2", "1")
    os.environ.setdefault("MODAL_MAX_THROTTLE_WAIT", "2")
    os.environ["MODAL_LOGLEVEL"] = "ERROR"
    warnings.simplefilter("ignore")
    print(json.dumps(asyncio.run(_answer(request))))


async def _answer(request: dict[str, Any]) -> dict[str, Any]:
    try:
        import modal
        import modal.exception as errors
    except ImportError as error:
        return _error("missing", f"`modal` cannot be imported by mngr's Python: {error}")
    kinds = {
        "auth": (errors.AuthError, errors.PermissionDeniedError) if hasattr(errors, "PermissionDeniedError")
        else (errors.AuthError,),
        "unreachable": (errors.ConnectionError, getattr(errors, "ServiceError", errors.ConnectionError)),
        "limited": (getattr(errors, "ResourceExhaustedError", errors.AuthError),),
    }  # fmt: skip
    try:
        async with asyncio.timeout(request["seconds"]):
            return await _ask(modal, request)
    except TimeoutError:
        return _error("unreachable", f"Modal did not answer within {request['seconds']:g} s")
    except (errors.Error, OSError) as error:
        kind = next((kind for kind, types in kinds.items() if isinstance(error, types)), "other")
        return _error(kind, str(error) or type(error).__name__)


def _error(kind: str, message: str) -> dict[str, Any]:
    return {"error": {"kind": kind, "message": message}}


async def _ask(modal: Any, request: dict[str, Any]) -> dict[str, Any]:
    own = None
    if request["token_id"]:
        client = await modal.Client.from_credentials.aio(request["token_id"], request["token_secret"])
        own = await _own_workspace(modal)
    else:
        client = await modal.Client.from_env.aio()
    workspace = modal.Workspace.from_context(client=client)
    await workspace.hydrate.aio()
    name = workspace.name or ""
    told: dict[str, Any] = {"modal": modal.__version__, "workspace": name, "own_workspace": own or name}
    if request["workspace"] is not None and request["workspace"] != name:
        return told | _error("workspace", f"these credentials are of the workspace {name!r}")
    if request["spend"]:
        told["spend"] = await _spend(workspace)
    if request["look"]:
        app, sandboxes = await _sandboxes(modal, client, request)
        told["sandboxes"] = sandboxes
        told["costs"], told["costs_problem"] = await _costs(modal, app)
    told["polled"] = dict([await _poll(modal, client, one) for one in request["poll"]])
    told["terminated"] = dict([await _terminate(modal, client, one) for one in request["terminate"]])
    return told


async def _own_workspace(modal: Any) -> str | None:
    """Return the workspace of this shell's own credentials, None without any."""
    try:
        workspace = modal.Workspace.from_context(client=await modal.Client.from_env.aio())
        await workspace.hydrate.aio()
    except modal.exception.AuthError:
        return None
    return workspace.name or ""


async def _sandboxes(modal: Any, client: Any, request: dict[str, Any]) -> tuple[Any, list[dict[str, Any]]]:
    """List the live sandboxes of the app with their tags. An environment or app that does not exist has none."""
    try:
        app = await modal.App.lookup.aio(request["app"], client=client, environment_name=request["environment"])
    except modal.exception.NotFoundError:
        return None, []
    found = [one async for one in modal.Sandbox.list.aio(app_id=app.app_id, client=client)]
    gate = asyncio.Semaphore(_AT_ONCE)

    async def tagged(sandbox: Any) -> dict[str, Any] | None:
        async with gate:
            try:
                return {"id": sandbox.object_id, "tags": await sandbox.get_tags.aio()}
            except modal.exception.NotFoundError:
                return None  # it ended meanwhile

    listed = await asyncio.gather(*map(tagged, found))
    return app, [one for one in listed if one is not None]


async def _costs(modal: Any, app: Any) -> tuple[dict[str, str] | None, str]:
    """Return the metered USD by host of the last days; None where this version of `modal` (before 1.6) cannot tell."""
    manager = getattr(app, "sandboxes", None)
    if manager is None or not hasattr(manager, "stats"):
        return None, ""
    hour = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
    groups = manager.stats.aio(since=hour - _LONGEST_STATS, group_by_tags=[HOST_TAG])
    try:
        costs = [(group.tags.get(HOST_TAG), str(group.cost)) async for group in groups]
    except modal.exception.Error as error:
        return None, str(error) or type(error).__name__
    return {host: cost for host, cost in costs if host}, ""


async def _spend(workspace: Any) -> dict[str, str] | None:
    """Return the cost of this month; None where this version cannot tell, or where these credentials may not ask."""
    if not hasattr(workspace, "billing") or not hasattr(workspace.billing, "summary"):
        return None
    try:
        summary = await workspace.billing.summary.aio()
    except Exception as error:
        return {"problem": str(error) or type(error).__name__}
    return {
        "since": summary.start.date().isoformat(),
        "metered": str(summary.metered_cost),
        "billed": str(summary.billed_cost),
    }


async def _poll(modal: Any, client: Any, sandbox_id: str) -> tuple[str, Any]:
    """Return the exit status of a sandbox: null while it runs, a text where it is not known any more."""
    try:
        sandbox = await modal.Sandbox.from_id.aio(sandbox_id, client=client)
        return sandbox_id, await sandbox.poll.aio()
    except modal.exception.NotFoundError as error:
        return sandbox_id, str(error) or "not found"


async def _terminate(modal: Any, client: Any, sandbox_id: str) -> tuple[str, str]:
    """End a sandbox; return why that failed, empty when it has ended, or had."""
    try:
        sandbox = await modal.Sandbox.from_id.aio(sandbox_id, client=client)
        await sandbox.terminate.aio()
    except modal.exception.NotFoundError:
        return sandbox_id, ""
    except modal.exception.Error as error:
        return sandbox_id, str(error) or type(error).__name__
    return sandbox_id, ""


if __name__ == "__main__":
    main()

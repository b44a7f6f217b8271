"""Control plane of Modal on 127.0.0.1: a real grpclib server, built from the protos in the wheel of `modal`.

    with ControlPlane() as plane:
        plane.sandboxes["sb-…"] = Sandbox(tags={"mngr_host_id": "host-…"})
        subprocess.run([...], env={**os.environ, **plane.environment(folder)})

It answers what `modal` and mngr's plugin ask for: hello, names, apps, volumes, images that are built already, sandboxes
in pages, their tags and ends, and the bill. It makes no sandbox, so a `mngr create` ends where it asks for one. It
proves no quota, no price and no eventual consistency of the real one.
"""

from __future__ import annotations

import asyncio
import base64
import json
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, Self

import grpclib
from grpclib.const import Cardinality, Handler, Status
from grpclib.server import Server
from modal_proto import api_pb2
from modal_proto.api_grpc import ModalClientBase

from on_modal.block_store import BlockStore

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

PAGE = 50
"""Sandboxes in one answer."""
_SERVICE = "/modal.client.ModalClient/"
APP = "ap-1"

Result = api_pb2.GenericResult
TIMEOUT = Result.GENERIC_STATUS_TIMEOUT
TERMINATED = Result.GENERIC_STATUS_TERMINATED


@dataclass
class Sandbox:
    """One sandbox. `ended`: its status, 0 while it lives."""

    tags: dict[str, str] = field(default_factory=dict)
    ended: int = 0
    created_at: float = 0.0


class ControlPlane:
    """The server, in a thread of its own. Change its attributes at any time; `calls` counts what was asked.

    `fails`: by method, the status and the text of its next failures. `workspaces`: by token.
    """

    def __init__(self) -> None:
        self.sandboxes: dict[str, Sandbox] = {}
        self.workspaces = {"ak-ann": "ann"}
        self.apps: dict[tuple[str, str], str] = {}
        self.calls: Counter[str] = Counter()
        self.fails: dict[str, list[tuple[Status, str]]] = {}
        self.hangs: set[str] = set()
        self.files: dict[str, tuple[bytes, ...]] = {}  # of the one volume: hashes of the blocks by path
        self.port = 0
        self._store = BlockStore()
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="control plane", daemon=True)

    def __enter__(self) -> Self:
        self._store.__enter__()
        self._thread.start()
        assert self._ready.wait(30)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(30)
        self._store.__exit__()

    def add(self, identity: str, host: str | None = None, **tags: str) -> str:
        """Let a sandbox live, tagged as mngr does it for this host, or not at all."""
        named = {"mngr_host_id": host, "mngr_host_name": f"name-of-{host}"} if host is not None else {}
        self.sandboxes[identity] = Sandbox({**named, **tags}, created_at=time.time() - len(self.sandboxes))
        return identity

    def environment(self, folder: Path, token: str = "ak-ann") -> dict[str, str]:
        """Return the variables that lead `modal` here; `folder` has no settings of Modal."""
        return {
            "MODAL_SERVER_URL": f"http://127.0.0.1:{self.port}",
            "MODAL_TOKEN_ID": token,
            "MODAL_TOKEN_SECRET": "as-secret",
            "MODAL_DISABLE_API_PROXY": "1",
            "MODAL_CONFIG_PATH": str(folder / "no-modal.toml"),
        }

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)

        async def start() -> Server:
            server = Server([_Service(self)])
            await server.start("127.0.0.1", 0)
            self.port = server._server.sockets[0].getsockname()[1]
            return server

        server = self._loop.run_until_complete(start())
        self._ready.set()
        self._loop.run_forever()
        server.close()
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
        self._loop.run_until_complete(asyncio.sleep(0))
        self._loop.close()

    # The answers, by the method's name. A method that is not here is answered with UNIMPLEMENTED.

    def client_hello(self, asked: Any, workspace: str) -> Any:
        return api_pb2.ClientHelloResponse()

    def workspace_name_lookup(self, asked: Any, workspace: str) -> Any:
        return api_pb2.WorkspaceNameLookupResponse(username=workspace, workspace_name=workspace)

    def auth_token_get(self, asked: Any, workspace: str) -> Any:
        claims = base64.urlsafe_b64encode(json.dumps({"exp": int(time.time()) + 3600}).encode()).decode().rstrip("=")
        return api_pb2.AuthTokenGetResponse(token=f"e30.{claims}.e30")

    def app_get_or_create(self, asked: Any, workspace: str) -> Any:
        key = (asked.environment_name, asked.app_name)
        if key not in self.apps:
            raise grpclib.GRPCError(Status.NOT_FOUND, f"no app {key[1]!r} in the environment {key[0]!r}")
        return api_pb2.AppGetOrCreateResponse(app_id=self.apps[key])

    def volume_get_or_create(self, asked: Any, workspace: str) -> Any:
        made = api_pb2.VolumeGetOrCreateResponse(volume_id="vo-1", version=asked.version)
        made.metadata.version, made.metadata.name = asked.version, asked.deployment_name
        return made

    def volume_list_files2(self, asked: Any, workspace: str) -> Any:
        folder = PurePosixPath("/") / asked.path
        told = api_pb2.VolumeListFiles2Response()
        for name in sorted({_below(folder, path) for path in self.files} - {""}):
            is_file = str(folder / name) in self.files
            kind = api_pb2.FileEntry.FILE if is_file else api_pb2.FileEntry.DIRECTORY
            told.entries.add(path=str(folder / name).lstrip("/"), type=kind)
        if not told.entries and str(folder) != "/":
            raise grpclib.GRPCError(Status.NOT_FOUND, f"no folder {folder}")
        return told

    def volume_put_files2(self, asked: Any, workspace: str) -> Any:
        told = api_pb2.VolumePutFiles2Response()
        for number, file in enumerate(asked.files):
            for place, block in enumerate(file.blocks):
                if block.contents_sha256 not in self._store.blocks:
                    told.missing_blocks.add(file_index=number, block_index=place, put_url=self._store.url())
            self.files[f"/{file.path.lstrip('/')}"] = tuple(block.contents_sha256 for block in file.blocks)
        return told

    def volume_get_file2(self, asked: Any, workspace: str) -> Any:
        path = f"/{asked.path.lstrip('/')}"
        if path not in self.files:
            raise grpclib.GRPCError(Status.NOT_FOUND, f"no file {path}")
        size = sum(len(self._store.blocks[digest]) for digest in self.files[path])
        urls = [self._store.url(digest) for digest in self.files[path]]
        return api_pb2.VolumeGetFile2Response(get_urls=urls, size=size, len=size)

    def environment_get_or_create(self, asked: Any, workspace: str) -> Any:
        made = api_pb2.EnvironmentGetOrCreateResponse(environment_id="en-1")
        made.metadata.settings.image_builder_version = "2025.06"
        return made

    def image_get_or_create(self, asked: Any, workspace: str) -> Any:
        return api_pb2.ImageGetOrCreateResponse(image_id="im-1", result=Result(status=Result.GENERIC_STATUS_SUCCESS))

    def sandbox_list_v2(self, asked: Any, workspace: str) -> Any:
        before = asked.before_timestamp or float("inf")
        living = sorted(self.sandboxes.items(), key=lambda one: -one[1].created_at)
        listed = [
            api_pb2.SandboxInfo(id=identity, created_at=one.created_at, app_id=APP)
            for identity, one in living
            if not one.ended and one.created_at < before
        ]
        return api_pb2.SandboxListResponse(sandboxes=listed[:PAGE])

    def sandbox_tags_get_v2(self, asked: Any, workspace: str) -> Any:
        tags = self._sandbox(asked.sandbox_id).tags
        return api_pb2.SandboxTagsGetResponse(
            tags=[api_pb2.SandboxTag(tag_name=name, tag_value=value) for name, value in tags.items()]
        )

    def sandbox_wait_v2(self, asked: Any, workspace: str) -> Any:
        ended = self._sandbox(asked.sandbox_id).ended
        return api_pb2.SandboxWaitResponse(result=Result(status=ended))

    def sandbox_terminate_v2(self, asked: Any, workspace: str) -> Any:
        sandbox = self._sandbox(asked.sandbox_id)
        sandbox.ended = sandbox.ended or TERMINATED
        return api_pb2.SandboxTerminateResponse()

    def workspace_billing_summary(self, asked: Any, workspace: str) -> Any:
        told = api_pb2.WorkspaceBillingSummaryResponse(metered_cost="12.50", billed_cost="2.50")
        told.start_timestamp.CopyFrom(asked.start_timestamp)
        return told

    def sandbox_get_time_range_stats(self, asked: Any, workspace: str) -> Any:
        """Answer the cost of each host, of which only modal 1.6 and newer asks."""
        told = api_pb2.SandboxGetTimeRangeStatsResponse()  # no proto of older versions has it
        for one in self.sandboxes.values():
            group = told.groups.add(cost_str="0.25")
            if one.tags.get("mngr_host_id"):
                group.tags["mngr_host_id"].value = one.tags["mngr_host_id"]
        return told

    def _sandbox(self, identity: str) -> Sandbox:
        if identity not in self.sandboxes:
            raise grpclib.GRPCError(Status.NOT_FOUND, f"no sandbox {identity}")
        return self.sandboxes[identity]


class _Service:
    """The methods of the protos, each answered by the plane's method of the same name in snake case."""

    def __init__(self, plane: ControlPlane) -> None:
        self._plane = plane

    def __mapping__(self) -> dict[str, Handler]:
        known = ModalClientBase.__mapping__(_Names())
        return {
            path: one._replace(func=self._answer(path.removeprefix(_SERVICE), one.reply_type))
            for path, one in known.items()
            if one.cardinality in (Cardinality.UNARY_UNARY, Cardinality.UNARY_STREAM)
        }

    def _answer(self, method: str, reply: Callable[[], Any]) -> Callable[[Any], Any]:
        async def answer(stream: Any) -> None:
            asked = await stream.recv_message()
            plane = self._plane
            plane.calls[method] += 1
            if method in plane.hangs:
                await asyncio.sleep(3600)
            if plane.fails.get(method):
                raise grpclib.GRPCError(*plane.fails[method].pop(0))
            token = stream.metadata.get("x-modal-token-id")
            if token not in plane.workspaces:
                raise grpclib.GRPCError(Status.UNAUTHENTICATED, f"unknown token {token}")
            call = getattr(plane, _snake(method), None)
            if call is None:
                raise grpclib.GRPCError(Status.UNIMPLEMENTED, f"{method} is not served here")
            await stream.send_message(call(asked, plane.workspaces[token]) or reply())

        return answer


class _Names:
    """Every method of the service by name, since only their types are of interest."""

    def __getattr__(self, name: str) -> str:
        return name


def _below(folder: PurePosixPath, path: str) -> str:
    """Return the name directly below the folder that leads to the path, empty for a path elsewhere."""
    parts = PurePosixPath(path).parts
    return parts[len(folder.parts)] if parts[: len(folder.parts)] == folder.parts and path != str(folder) else ""


def _snake(name: str) -> str:
    """Return `sandbox_list_v2` for `SandboxListV2`."""
    words = "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)
    return words.removeprefix("_")

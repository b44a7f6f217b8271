"""Sightings: sandboxes that live on Modal and that mngr does not see, and since when, kept between processes.

mngr tags a sandbox with its host only after its tunnel is up, so a crash in between leaves one that no command of mngr
lists, until its timeout of minutes to a day. One sighting proves nothing: a host that is being made looks the same. So
what was seen is kept in the state folder, for one place (workspace, environment and app) at a time, and a sandbox may
be ended only after a second sighting. The fold is pure; times are seconds since the epoch.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import secrets
from dataclasses import replace
from typing import TYPE_CHECKING

from selftest_core.frozen import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from selftest_core.modal.modal_probe import Sandbox

APART = 600.0
"""Seconds between two sightings that count: no host takes as long to be made."""
UNTAGGED_AGE = 1800.0
"""Seconds since its first sighting after which an untagged sandbox is nobody's."""
_FILE = "modal-sandboxes.json"
_LIMIT = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Sighting:
    """A sandbox that mngr does not see, first and last seen so; `host_id` is empty without mngr's tag."""

    sandbox: str
    host_id: str
    first: float
    last: float

    def kept_reason(self) -> str:
        """Return why it may not be ended yet, empty if it may."""
        needed = APART if self.host_id else UNTAGGED_AGE
        if self.last - self.first >= needed:
            return ""
        what = "the second sighting" if self.host_id else "it has no tag of mngr's, which a new one lacks too"
        return f"{what}: look again in {max(1, math.ceil((needed - (self.last - self.first)) / 60))} min"


@dataclass(frozen=True, slots=True)
class Sightings:
    """All sandboxes of one place that mngr does not see. `hosts`: the sandbox of each host that was seen at last."""

    place: tuple[str, str, str] = ("", "", "")
    hidden: tuple[Sighting, ...] = ()
    hosts: tuple[tuple[str, str], ...] = ()


def note(before: Sightings, place: tuple[str, str, str], hidden: Iterable[Sandbox], now: float) -> Sightings:
    """Note what is hidden now; what is not any more is forgotten. Another place, or a clock set back, begins anew."""
    known = {one.sandbox: one for one in before.hidden if before.place == place and one.first <= one.last <= now}
    seen = []
    for sandbox in hidden:
        old = known.get(sandbox.id)
        is_same = old is not None and old.host_id == sandbox.host_id
        first = old.first if old is not None and is_same else now
        seen.append(Sighting(sandbox.id, sandbox.host_id, first, now))
    return replace(before if before.place == place else Sightings(), place=place, hidden=tuple(seen))


def note_hosts(before: Sightings, place: tuple[str, str, str], sandboxes: Iterable[Sandbox]) -> Sightings:
    """Remember the sandboxes of hosts, by which their ends are asked for later. The newest thousands are kept."""
    kept = dict(before.hosts) if before.place == place else {}
    for one in sandboxes:
        if one.host_id:
            kept.pop(one.host_id, None)
            kept[one.host_id] = one.id
    base = before if before.place == place else Sightings(place)
    return replace(base, hosts=tuple(kept.items())[-5_000:])


def load(folder: Path) -> Sightings:
    """Read the sightings; none where the file is missing, foreign or broken, so that all must be seen twice again."""
    try:
        with (folder / _FILE).open("rb") as file:
            document = json.loads(file.read(_LIMIT))
        workspace, environment, app = map(str, document["place"])
        hidden = tuple(
            Sighting(str(one["sandbox"]), str(one["host"]), float(one["first"]), float(one["last"]))
            for one in document["hidden"]
        )
        hosts = tuple((str(host), str(sandbox)) for host, sandbox in document["hosts"].items())
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return Sightings()
    if not all(math.isfinite(one.first) and math.isfinite(one.last) for one in hidden):
        return Sightings()
    return Sightings((workspace, environment, app), hidden, hosts)


def save(folder: Path, sightings: Sightings) -> None:
    """Replace the file. Raises OSError, and then keeps the old one."""
    document = {
        "place": sightings.place,
        "hidden": [
            {"sandbox": one.sandbox, "host": one.host_id, "first": one.first, "last": one.last}
            for one in sightings.hidden
        ],
        "hosts": dict(sightings.hosts),
    }
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft = folder / f".{_FILE}.{os.getpid()}.{secrets.token_hex(4)}"
    try:
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as file:
            json.dump(document, file)
        draft.replace(folder / _FILE)
    except BaseException:
        with contextlib.suppress(OSError):
            draft.unlink()
        raise

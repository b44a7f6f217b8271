"""Smoke agents: one on each place of a run, with a tiny prompt of its own, before any other agent is made. Pure.

A smoke agent proves that its type starts there, receives its prompt, may run a command and write a file, and that the
file can be fetched. Its id, its name and the nonce of its outcome follow from the plan, so a new conductor finds it
again after a kill.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from selftest_core.frozen import dataclass
from selftest_core.usage.tokens import from_fields

if TYPE_CHECKING:
    from selftest_core.journal import Entry
    from selftest_core.run.plan.plan import RunPlan
    from selftest_core.usage.tokens import Usage

_CUT_OFF = "the conductor ended before it was done"
_UNFIT = re.compile(r"[^A-Za-z0-9]+")


@dataclass(frozen=True, slots=True)
class Smoke:
    """One smoke agent, from the journal. `number`: from 1 on its place. `is_ok` None: it is not done.

    `seconds`: how long it took. `says`: why it failed; untrusted. `usage`: its usage, if that was metered.
    """

    place: str
    agent_type: str
    number: int
    agent_id: str
    name: str
    is_ok: bool | None = None
    seconds: float | None = None
    says: str = ""
    usage: Usage | None = None


def smoke_of(plan: RunPlan, place: str, number: int) -> Smoke:
    """Return the `number`-th smoke agent of a run on this place."""
    digest = _digest(f"smoke {plan.repository} {plan.run} {plan.created_at} {place} {number}")
    where = _UNFIT.sub("-", place).strip("-")[:20]
    name = f"smoke-{where}-{digest[:4]}-{plan.run[-4:]}" if where else f"smoke-{digest[:4]}-{plan.run[-4:]}"
    return Smoke(place, plan.agent_type, number, f"agent-{digest[:32]}", name)


def nonce_of(agent_id: str) -> str:
    """Return the nonce that the outcome of a smoke agent must contain."""
    return f"smoke {_digest(f'nonce {agent_id}')[:12]}"


def report_of(agent_id: str) -> str:
    """Return the outcome file that a smoke agent must write."""
    return json.dumps(
        {"errored": False, "tests_passing_after": None, "changes": {}, "summary_markdown": nonce_of(agent_id)}
    )


def unproven_places(plan: RunPlan, smokes: tuple[Smoke, ...]) -> tuple[str, ...]:
    """Return the places where no smoke agent has succeeded."""
    return tuple(place for place in plan.smoke if not any(one.place == place and one.is_ok for one in smokes))


def apply_smoke(smokes: tuple[Smoke, ...], entry: Entry, agent_type: str) -> tuple[Smoke, ...]:
    """Apply a journal line `smoking` or `smoked` to the smoke agents."""
    fields = entry.fields
    place, number = _text(fields.get("place")), fields.get("number")
    if not isinstance(number, int):
        return smokes
    found = next((one for one in smokes if (one.place, one.number) == (place, number)), None)
    if entry.event == "smoking":
        new = Smoke(place, agent_type, number, _text(fields.get("agent_id")), _text(fields.get("name")))
        if found is not None:
            return smokes
        left = (replace(one, is_ok=False, says=_CUT_OFF) if _is_left(one, place) else one for one in smokes)
        return (*left, new)
    if found is None:
        return smokes
    seconds = fields.get("seconds")
    ended = Smoke(
        place, found.agent_type, number, found.agent_id, found.name, is_ok=fields.get("ok") is True,
        seconds=float(seconds) if isinstance(seconds, int | float) else None, says=_text(fields.get("says")),
        usage=from_fields(fields.get("usage")),
    )  # fmt: skip
    return tuple(ended if one is found else one for one in smokes)


def _is_left(smoke: Smoke, place: str) -> bool:
    return smoke.place == place and smoke.is_ok is None


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()

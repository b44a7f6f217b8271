"""What mngr says of an act on agents: the JSON of `message`, `stop`, `start` and `destroy`, read agent by agent.

It answers with names, not ids, and only with those that it found. What its answer is worth is for
`actions.agent_actions` to judge.
"""

from __future__ import annotations

import json
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping


class Act(StrEnum):
    """What can be done to an agent."""

    MESSAGE = "message"
    STOP = "stop"
    START = "start"
    DESTROY = "destroy"


DONE_WORD = {Act.MESSAGE: "sent", Act.STOP: "stopped", Act.START: "started", Act.DESTROY: "destroyed"}
_DONE_LIST = {
    Act.MESSAGE: "successful_agents",
    Act.STOP: "stopped_agents",
    Act.START: "started_agents",
    Act.DESTROY: "destroyed_agents",
}


class Answer(NamedTuple):
    """What mngr's JSON says of one agent, by name."""

    ok: bool
    says: str
    hint: str = ""


def read_answer(act: Act, text: str) -> dict[str, Answer] | None:
    """mngr's answer by the agents' names; None where it is none (empty, cut short, another form)."""
    try:
        said = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(said, dict) or not isinstance(said.get(_DONE_LIST[act]), list):
        return None
    leftovers = "; ".join(str(each.get("message", "")) for each in _objects(said, "failures"))
    done = Answer(True, DONE_WORD[act], f"mngr left something behind: {leftovers}" if leftovers else "")
    answers = {name: done for name in said[_DONE_LIST[act]] if isinstance(name, str)}
    for each in _objects(said, "blocked_agents"):
        words = f"sent, but a dialog holds it up: {each.get('error', '')}"
        answers[str(each.get("agent"))] = Answer(True, words, "Attach to it, and answer the dialog.")
    for each in _objects(said, "failed_agents"):
        error = str(each.get("error", ""))
        hint = "Start it, then send again." if "not running" in error else ""
        answers[str(each.get("agent"))] = Answer(False, error or "mngr could not, and did not say why", hint)
    return answers


def _objects(said: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    listed = said.get(name)
    return [each for each in listed if isinstance(each, dict)] if isinstance(listed, list) else []

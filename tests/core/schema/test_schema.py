"""The JSON that scripts rely on: its fields, its schema, and that any text can be printed."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest

import scenes
from selftest_core.errors import RefusedError
from selftest_core.schema.fleet import list_document
from selftest_core.schema.model import error_line, instant, safe_text
from selftest_core.schema.registry import schema

if TYPE_CHECKING:
    from collections.abc import Callable

    from selftest_core.fleet.view import FleetView

ALL_SCENES = [
    scenes.few, scenes.hundred, scenes.empty, scenes.starting, scenes.provider_down, scenes.no_mngr, scenes.no_tmux,
    scenes.on_their_way, scenes.hostile, scenes.two_of_one_name,
]  # fmt: skip
CONTRACT = {
    "id", "name", "type", "state", "attention", "reason", "stale", "as_of", "provider", "host", "branch", "labels",
    "session", "run", "test",
}  # fmt: skip


def validate(document: object, described: dict[str, Any]) -> None:
    """Not `jsonschema.validate`, which checks the whole schema itself each time: that takes a second."""
    jsonschema.Draft202012Validator(described).validate(document)


def printed(view: FleetView) -> dict[str, Any]:
    document: dict[str, Any] = list_document(view).model_dump(mode="json")
    return document


def test_the_list_has_what_scripts_rely_on() -> None:
    document = printed(scenes.provider_down().view)
    assert {"as_of", "agents", "sessions", "errors"} <= document.keys()
    assert document["as_of"] == "2026-11-21T09:35:38.000Z"
    agents = document["agents"]
    assert isinstance(agents, list)
    assert all(agent.keys() >= CONTRACT for agent in agents)
    by_name = {agent["name"]: agent for agent in agents}
    card = by_name["st-7f-pay-card"]
    assert card["host"] == {"id": scenes.MODAL.id, "name": "st-7f-sandbox", "state": "RUNNING"}
    assert (card["provider"], card["stale"], card["attention"]) == ("modal", True, True)
    assert card["as_of"] == "2026-11-21T09:34:57.000Z"
    assert card["reason"] == "its host st-7f-sandbox (modal) does not answer"
    tax = by_name["st-7f-cart-tax"]
    assert (tax["state"], tax["attention"], tax["reason"], tax["stale"]) == ("RUNNING", False, "", False)
    assert tax["as_of"] == "2026-11-21T09:35:37.500Z"
    assert (tax["session"], tax["socket"]) == ("mngr-st-7f-cart-tax", scenes.SOCKET)
    assert (tax["run"], tax["test"]) == (scenes.RUN, "tests/test_cart.py::test_tax")
    assert tax["branch"] == "mngr/st-7f-cart-tax"
    assert tax["labels"]["selftest_role"] == "tester"
    assert by_name["nightly-export"]["as_of"] == "2026-11-21T09:35:37.000Z"
    assert by_name["nightly-export"]["run"] is None
    assert document["errors"] == [
        {
            "key": "provider:modal",
            "provider": "modal",
            "message": "modal cannot be reached: Could not reach api.modal.com: connection timed out",
            "hint": "Run: modal token new",
        }
    ]
    assert [session["name"] for session in document["sessions"]] == ["logs", "editor"]


@pytest.mark.parametrize("make", ALL_SCENES)
def test_every_scene_prints_json_that_any_reader_takes_and_the_schema_allows(make: Callable[[], scenes.Scene]) -> None:
    shown = make()
    document = printed(shown.view)
    # Not ASCII, so half surrogates would not pass.
    text = json.dumps(document, ensure_ascii=False, allow_nan=False).encode()
    again = json.loads(text)
    assert again == document
    assert len(again["agents"]) == len(shown.view.rows)
    whole = schema()
    validate(again, {**whole["documents"]["list --json"], "$defs": whole["$defs"]})
    validate({"event": "summary", "at": again["as_of"], "run": None, **again}, whole)


def test_the_schema_refuses_what_is_not_ours() -> None:
    whole = schema()
    jsonschema.Draft202012Validator.check_schema(whole)
    document = printed(scenes.few().view)
    del document["agents"][0]["reason"]
    with pytest.raises(jsonschema.ValidationError):
        validate(document, {**whole["documents"]["list --json"], "$defs": whole["$defs"]})
    with pytest.raises(jsonschema.ValidationError):
        validate({"event": "summary"}, whole)


def test_every_document_and_line_of_the_schema_is_described() -> None:
    whole = schema()
    for reference in whole["documents"].values():
        assert whole["$defs"][reference["$ref"].rpartition("/")[2]]["description"]
    lines = [reference for name, reference in whole["documents"].items() if "--batch" in name]
    for reference in lines:
        required = whole["$defs"][reference["$ref"].rpartition("/")[2]]["required"]
        assert {"event", "at", "run"} <= set(required)


def test_hostile_text_is_kept_but_for_half_surrogates() -> None:
    document = list_document(scenes.hostile().view)
    names = {agent.name for agent in document.agents}
    assert "\x1b[31mred\x1b]0;title\x07" in names
    assert "\ufffdlone surrogate" in names
    assert safe_text("\ud83d\ude00 whole pair") == "\U0001f600 whole pair"
    assert safe_text("plain") == "plain"


@pytest.mark.parametrize("at", [None, float("nan"), float("inf"), 1e300, -1e300])
def test_impossible_times_are_null(at: float | None) -> None:
    assert instant(at) is None


def test_times_are_utc_with_a_z() -> None:
    assert instant(0.0) == "1970-01-01T00:00:00.000Z"
    assert instant(1_795_253_700.25) == "2026-11-21T09:35:00.250Z"


def test_the_order_is_the_same_each_time() -> None:
    once = list_document(scenes.hundred().view).model_dump_json()
    assert list_document(scenes.hundred().view).model_dump_json() == once
    assert list_document(scenes.on_their_way().view).expecting == ["boxes", "modal", "remote"]


def test_an_error_ends_a_batch_with_its_exit_status() -> None:
    line = error_line(RefusedError("no", "because \ud800", "do this"), 0.0).model_dump(mode="json")
    assert line == {
        "event": "error",
        "at": "1970-01-01T00:00:00.000Z",
        "run": None,
        "title": "no",
        "detail": "because \ufffd",
        "hint": "do this",
        "exit_status": 4,
    }

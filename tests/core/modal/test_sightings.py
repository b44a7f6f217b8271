"""A sandbox may be ended after a second sighting at one place, an untagged one after half an hour."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from selftest_core.modal.modal_probe import Sandbox
from selftest_core.modal.sightings import APART, UNTAGGED_AGE, Sightings, load, note, note_hosts, save

if TYPE_CHECKING:
    from pathlib import Path

HERE, THERE = ("ann", "mngr-u", "mngr-modal"), ("bob", "mngr-u", "mngr-modal")
TAGGED, UNTAGGED = Sandbox("sb-1", "host-1", "one"), Sandbox("sb-2")

looks = st.lists(
    st.tuples(
        st.floats(0, 7200),  # seconds since the last look; below it the clock may go back
        st.booleans(),
        st.sampled_from([HERE, THERE]),
        st.sets(st.sampled_from([TAGGED, UNTAGGED])),
    ),
    max_size=12,
)


@given(looks)
def test_what_may_be_ended_was_hidden_at_two_looks_that_far_apart_and_at_all_between(looks: list[tuple]) -> None:  # type: ignore[type-arg]
    now, seen, history = 1e9, Sightings(), []
    for seconds, goes_back, place, hidden in looks:
        now += -seconds if goes_back else seconds
        seen = note(seen, place, sorted(hidden, key=lambda one: one.id), now)
        history.append((now, place, hidden))
        for one in seen.hidden:
            if not one.kept_reason():
                needed = APART if one.host_id else UNTAGGED_AGE
                since = next(
                    number
                    for number in range(len(history))
                    if all(at == place and one.sandbox in {each.id for each in ids} for _, at, ids in history[number:])
                )
                times = [at for at, _, _ in history[since:]]
                assert max(times) - min(times) >= needed
                assert now - min(times) >= needed


def test_a_retagged_sandbox_begins_anew_and_its_host_is_remembered() -> None:
    seen = note(Sightings(), HERE, [Sandbox("sb-2")], 1000.0)
    seen = note(seen, HERE, [Sandbox("sb-2", "host-2")], 1000.0 + UNTAGGED_AGE)
    assert "again in 10 min" in seen.hidden[0].kept_reason()
    hosts = note_hosts(seen, HERE, [TAGGED, UNTAGGED])
    assert hosts.hosts == (("host-1", "sb-1"),)
    assert note_hosts(hosts, THERE, []).hosts == ()


def test_a_saved_file_reads_as_it_was_and_a_broken_one_as_nothing(tmp_path: Path) -> None:
    seen = note_hosts(note(Sightings(), HERE, [TAGGED, UNTAGGED], 1000.5), HERE, [TAGGED])
    save(tmp_path / "new", seen)
    assert load(tmp_path / "new") == seen
    path = tmp_path / "new" / "modal-sandboxes.json"
    whole = path.read_text()
    for text in ("", "[]", whole[:-20], whole.replace("1000.5", "NaN"), whole.replace('"hidden"', '"hiden"')):
        path.write_text(text)
        assert load(tmp_path / "new") == Sightings()
    with pytest.raises(OSError, match="exists"):
        save(path, replace(seen, hidden=()))
    assert list((tmp_path / "new").iterdir()) == [path]

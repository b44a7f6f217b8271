"""Spans of a recording hold the events that reading line by line gives, however it is cut and damaged."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from selftest_recorder.cast.reader import read_cast
from selftest_recorder.cast.spans import Position, read_span

if TYPE_CHECKING:
    from pathlib import Path

HEADERS = [b'{"version": 2, "width": 80, "height": 24}', b'{"version": 3, "term": {"cols": 80, "rows": 24}}']
CODES = ("o", "o", "o", "i", "m", "r", "x", "z", "oo", "")
TIMES: st.SearchStrategy[object] = st.one_of(
    st.sampled_from((0, 0.5, 1, 1.25, 2, 3.5, 900.0)),
    st.sampled_from((-3, -0.0, 1e300, 4e8, float("nan"), float("inf"), "1.5", "soon", None, True, [])),
)
DATA = st.one_of(
    st.text(max_size=6),
    st.sampled_from(("100x40", "0x0", "wide", "9999x9999", "\ud800", "\x1b[31m", ', "o", ', 5, None, True, ["a"])),
)
WHOLE = st.builds(
    lambda time, code, data: json.dumps([time, code, data]).encode(),
    st.sampled_from((0, 0.5, 1, 1.25)), st.sampled_from(("o", "o", "m")), st.text(max_size=6),
)  # fmt: skip
ODD = st.one_of(
    st.builds(
        lambda parts, ascii_only: json.dumps(parts, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass"),
        st.one_of(st.tuples(TIMES, st.sampled_from(CODES), DATA), st.lists(st.one_of(TIMES, DATA), max_size=5)),
        st.booleans(),
    ),
    st.sampled_from((b"", b"  \t", b"# comment", b"{}", b"[" * 3000, b'\xef\xbb\xbf[1, "o", "a"]', b'[1, "o", "a"]\r')),
    st.binary(max_size=12).map(lambda data: data.replace(b"\n", b"")),
)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("spans") / "some.cast"


@settings(max_examples=300, deadline=None)
@given(
    header=st.sampled_from(HEADERS),
    lines=st.lists(st.one_of(WHOLE, WHOLE, ODD), max_size=12),
    end=st.sampled_from((b"\n", b"", b'\n[9.0, "o", "cut')),
    size=st.integers(1, 300),
)
def test_spans_of_any_size_hold_the_events_of_the_lines(
    path: Path, header: bytes, lines: list[bytes], end: bytes, size: int
) -> None:
    path.write_bytes(b"\n".join((header, *lines)) + end)
    recording, reference = read_cast(path), read_cast(path)
    place = Position(0.0, recording.begins, 1)
    seen: list[tuple[float, str, str]] = []
    while (span := read_span(recording, place, size)).times or span.end.offset > place.offset:
        assert span.has_only_output == (set(span.codes) <= {"o"})
        seen += zip(span.times, span.codes, span.data, strict=True)
        place = span.end
    assert seen == [(event.time, event.code, event.data) for event in reference.events(growing=True)]
    assert recording.problems == reference.problems

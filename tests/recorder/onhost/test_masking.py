"""What must not be written is not, however the stream is cut."""

from __future__ import annotations

import itertools
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from selftest_recorder.onhost.masking import USUAL_PATTERNS, Masker, make_secrets

SECRET = "s3cr3t-t0ken"
CUTS = st.lists(st.integers(0, 60), max_size=8)


def pieces(data: bytes, cuts: list[int]) -> list[bytes]:
    places = sorted({min(cut, len(data)) for cut in cuts} | {0, len(data)})
    return [data[start:end] for start, end in itertools.pairwise(places)]


def masked(masker: Masker, parts: list[bytes], *, settle: bool = False) -> bytes:
    out = b""
    for part in parts:
        out += masker.feed(part)
        if settle:
            out += masker.settle()
    return out + masker.close()


@settings(derandomize=True, deadline=None, database=None)
@given(
    words=st.lists(st.sampled_from([SECRET, SECRET[:5], SECRET[3:], "hello", "\x1b[31m", "\r\n", "é", "s", "s3"])),
    cuts=CUTS,
    settle=st.booleans(),
)
def test_a_value_is_masked_however_it_is_cut_and_nothing_else_is(
    words: list[str], cuts: list[int], settle: bool
) -> None:
    data = "".join(words).encode()
    out = masked(Masker(make_secrets([SECRET], [])), pieces(data, cuts), settle=settle)
    assert len(out) == len(data)
    assert SECRET.encode() not in out
    expected = data.replace(SECRET.encode(), b"*" * len(SECRET))
    # The first bytes of a value may have gone out before it was clear that it is one; never more of it.
    differing = [place for place, (one, other) in enumerate(zip(out, expected, strict=True)) if one != other]
    ending = len(data) - max([length for length in range(len(SECRET)) if data.endswith(SECRET.encode()[:length])])
    starts = [found.start() for found in re.finditer(re.escape(SECRET).encode(), data)]
    for place in differing:
        assert place >= ending or any(start <= place < start + 3 for start in starts)


@pytest.mark.parametrize("cuts", [[], [30], [5, 20, 33]])
def test_tokens_of_usual_shapes_and_patterns_of_the_person_are_masked(cuts: list[int]) -> None:
    text = "key sk-abcdefghijklmnopqrstuvwx, ghp_abcdefghijklmnopqrstuvwxyz0123456789 and order-4711 are\r\n"
    masker = Masker(make_secrets([], [*USUAL_PATTERNS, r"order-\d{4}"]))
    out = masked(masker, pieces(text.encode(), cuts)).decode()
    assert out == f"key {'*' * 27}, {'*' * 40} and {'*' * 10} are\r\n"


def test_a_secret_of_many_lines_is_masked_line_by_line() -> None:
    masker = Masker(make_secrets(["-----BEGIN-----\nabcdefghijkl\nxy\n-----END-----"], []))
    assert masked(masker, [b"cat key\r\nabcdefghijkl\r\nxy\r\n"]) == b"cat key\r\n************\r\nxy\r\n"


def test_what_is_too_short_is_in_every_other_word() -> None:
    assert not make_secrets(["1", "yes", ""], [])
    assert masked(Masker(make_secrets([], [])), [b"yes 1"]) == b"yes 1"


def test_what_is_held_back_comes_when_it_is_no_secret() -> None:
    masker = Masker(make_secrets([SECRET], []))
    assert masker.feed(b"look: s3cr3t") == b"look: s3c"
    assert masker.holds
    assert masker.settle() == b""
    assert masker.feed(b"s are none") == b"r3ts are none"
    assert masker.feed(b"s3cr3t-t0") == b"s3c"
    assert masker.close() == b"******"


def test_a_pattern_that_is_none_is_refused() -> None:
    with pytest.raises(re.error):
        make_secrets([], ["("])

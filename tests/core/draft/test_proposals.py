"""Proposed blocks: what differs beneath one heading and nothing else; the kept ones alone come into the tutorial."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from selftest_core.draft.proposals import ProposalKind, compose, propose, refusal_reason
from selftest_core.draft.sections import choose_sections, outline
from selftest_core.errors import UsageError

BASE = """#!/bin/sh
set -e

echo above

##########
# Carts
##########

# Add.
shop add tea

shop list

# Refunds

# Carts again

shop refund 1
"""


def drafted(*blocks: str, heading: str = "Carts") -> str:
    """The base with these blocks beneath a heading."""
    before = outline(BASE)
    section = before.find(heading)
    assert section is not None
    old = "\n\n".join(("", *(block.text for block in section.blocks)))
    new = "\n\n".join(("", *blocks))
    return BASE.replace(f"{section.heading.text}{old}", f"{section.heading.text}{new}", 1)


def test_headings_are_named_by_their_words_and_found_by_a_part_of_them() -> None:
    assert [one.id for one in outline(BASE).sections] == ["Carts", "Refunds", "Carts again"]
    assert [one.id for one in choose_sections(BASE, (), "t")] == ["Carts", "Refunds", "Carts again"]
    assert [one.id for one in choose_sections(BASE, ("refu", "# carts", "Refunds"), "t")] == ["Refunds", "Carts"]
    for wanted, said in (("cart", "is a part of 2 headings"), ("", "no heading ''"), ("Refnuds", "mean 'Refunds'")):
        with pytest.raises(UsageError) as raised:
            choose_sections(BASE, (wanted,), "t")
        assert said in f"{raised.value.title} {raised.value.hint}"
    twins = outline("# A\n\nls\n\n# A\n\n# \x1b[31m\u202e ###\n\n####\n")
    assert [one.id for one in twins.sections] == ["A (line 1)", "A (line 5)", "\ufffd[31m\ufffd", "heading of line 9"]
    with pytest.raises(UsageError, match="has no heading"):
        choose_sections("ls\n", (), "t")


def test_new_edited_and_removed_blocks_are_proposals_of_their_own() -> None:
    text = drafted("# First.\nshop new", "# Add some.\nshop add tea --count 2", "shop pay")
    found = propose(BASE, text, "Carts")
    assert [(one.kind, one.base, one.text) for one in found] == [
        (ProposalKind.NEW, "", "# First.\nshop new"),
        (ProposalKind.EDITED, "# Add.\nshop add tea", "# Add some.\nshop add tea --count 2"),
        (ProposalKind.EDITED, "shop list", "shop pay"),
    ]
    assert refusal_reason(BASE, text, "Carts") == ""
    assert [one.id for one in propose(BASE, text, "Carts")] == [one.id for one in found]
    # The same block proposed elsewhere, and in another order, is the same proposal.
    again = propose(BASE, drafted("# Add some.\nshop add tea --count 2", "shop list"), "Carts")
    assert [one.id for one in again] == [found[1].id]
    gone = propose(BASE, drafted("shop list"), "Carts")
    assert [(one.kind, one.line) for one in gone] == [(ProposalKind.REMOVED, 10)]
    assert compose(BASE, [(gone[0], "")]) == drafted("shop list")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (BASE, "changes no block"),
        (BASE.replace("shop refund 1", "shop refund 2"), "the blocks of another heading: Carts again"),
        (BASE.replace("# Refunds", "# Returns"), "it changes headings: Refunds"),
        (BASE.replace("# Refunds\n\n", ""), "it removes a heading: Refunds"),
        (drafted("# A comment alone", "ls"), "it adds a heading: A comment alone"),
        (BASE.replace("echo above", "echo below"), "above the first heading"),
        (BASE.replace("set -e", "set -x"), "above the first heading"),
        ("# A whole new file\n\nls\n", "above the first heading"),
        (drafted("cat <<END\none", "two\nEND"), "heredoc END that begins here is cut"),
        ("", "above the first heading"),
        (drafted(*(f"shop add {number}" for number in range(300))), "300 blocks beneath its heading"),
    ],
)
def test_more_than_the_blocks_beneath_the_heading_is_refused(text: str, reason: str) -> None:
    assert reason in refusal_reason(BASE, text, "Carts")


blocks = st.sampled_from([
    "shop add tea", "# Add.\nshop add tea", "shop list", "# All.\nshop list --all", "shop pay 3 |\n    cat", "ls", "é",
])  # fmt: skip


@given(
    st.lists(blocks, max_size=4), st.lists(blocks, max_size=5), st.data(), st.sampled_from(["\n", "\r\n", "\r"]),
    st.booleans(), st.booleans(),
)  # fmt: skip
def test_what_is_kept_comes_in_and_every_other_line_stays(
    old: list[str], new: list[str], data: st.DataObject, ending: str, is_last: bool, is_ended: bool
) -> None:
    rest = [] if is_last else ["# Next", "last"]

    def made(own: list[str]) -> str:
        text = "\n\n".join(["# Top", "\n\nfirst", "# Own", *own, *rest]) + ("\n" if is_ended else "")
        return text.replace("\n", ending)

    base, text = made(old), made(new)
    found = propose(base, text, "Own")
    assert compose(base, []) == base
    whole = outline(compose(base, [(one, one.text) for one in found])).find("Own")
    assert whole is not None
    assert [block.text for block in whole.blocks] == new
    kept = [one for one in found if data.draw(st.booleans())]
    some = compose(base, [(one, one.text) for one in kept])
    after, before = outline(some), outline(base)
    # Beneath the heading stand the base's blocks with the kept proposals, and nothing else changed.
    expected = []
    for place in range(len(old) + 1):
        expected += [one.text for one in kept if one.place == place and one.kind is ProposalKind.NEW]
        if place < len(old):
            decided = [one for one in kept if one.place == place and one.kind is not ProposalKind.NEW]
            expected += [one.text for one in decided if one.text] if decided else [old[place]]
    own = after.find("Own")
    assert own is not None
    assert [block.text for block in own.blocks] == expected
    head = base[: base.index("# Own")]
    assert some.startswith(head)
    if rest:
        assert some[some.index("# Next") :] == base[base.index("# Next") :]
    assert [one.id for one in after.sections] == [one.id for one in before.sections]

"""How a tutorial file is cut into preamble, headings and blocks."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from selftest_core.tutorial.tutorial import Block, Heading, parse_blocks

TUTORIAL = """\
#!/usr/bin/env bash
# A tour.
set -euo pipefail

##############################
# First things
##############################

# List them.
tool list
tool list --json

tool stop one

# The end
"""


def test_pieces_are_told_apart_and_keep_their_lines() -> None:
    tutorial = parse_blocks(TUTORIAL)
    assert tutorial.preamble == "#!/usr/bin/env bash\n# A tour.\nset -euo pipefail"
    assert [(block.line, block.text) for block in tutorial.blocks] == [
        (9, "# List them.\ntool list\ntool list --json"),
        (13, "tool stop one"),
    ]
    assert [heading.line for heading in tutorial.headings] == [5, 15]
    assert tutorial.headings[1].text == "# The end"
    assert tutorial.warnings == ()


@pytest.mark.parametrize(
    "spoiled",
    [
        TUTORIAL.replace("\n", "\r\n"),
        TUTORIAL.replace("\n", "\r"),
        "\ufeff" + TUTORIAL,
        "\ufeff" + TUTORIAL.replace("\n", "\r\n"),
        TUTORIAL.replace("\n\n", "\n \t\n"),
        TUTORIAL.rstrip("\n"),
        TUTORIAL + "\n\n  \n",
    ],
    ids=["crlf", "cr", "bom", "bom and crlf", "blank lines", "no last newline", "empty end"],
)
def test_editors_change_nothing(spoiled: str) -> None:
    assert parse_blocks(spoiled) == parse_blocks(TUTORIAL)


def test_several_empty_lines_separate_once_and_the_count_of_lines_stays() -> None:
    blocks = parse_blocks("\n\none\n\n\n\n  two\n").blocks
    assert [(block.line, block.text) for block in blocks] == [(3, "one"), (7, "  two")]


def test_a_file_without_shebang_has_no_preamble() -> None:
    tutorial = parse_blocks("# Title\n\none\n")
    assert tutorial.preamble == ""
    assert [heading.text for heading in tutorial.headings] == ["# Title"]


def test_options_apart_from_the_shebang_are_preamble_still() -> None:
    tutorial = parse_blocks("#!/bin/sh\n\nset -eu\n\nset -x\n\none\n\nset +x\n")
    assert [block.text for block in tutorial.blocks] == ["one", "set +x"]


def test_a_command_that_hides_in_the_preamble_is_warned_of() -> None:
    tutorial = parse_blocks("#!/bin/sh\nset -e\nrm -r everything\nagain\n\none\n")
    assert [warning.line for warning in tutorial.warnings] == [3]
    assert [block.text for block in tutorial.blocks] == ["one"]


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("cat <<EOF\none\n\ntwo\nEOF\n", [1]),
        ("one\ncat > f <<-'END'\n\tx\n\n\tEND\n", [2]),
        ("cat <<EOF\none\nEOF\n\ntwo\n", []),
        ("cat <<-EOF\n\tone\n\tEOF\n", []),
        ("cat <<A <<B\nA\nB\n", []),
        ("cat <<A <<B\nA\n\nB\n", [1]),
        ("cat <<< word\n\ntwo\n", []),
        ("echo $((1 << 2))\n\ntwo\n", []),
        ("# cat <<EOF\ntwo\n", []),
        ("echo '<<EOF'\n\ntwo\n", []),
        ("echo $((1 << two))\n\n((x = 1 << two))\n", []),
        ("cat <<EOF | sh -c 'one'\nit's\nEOF\n\ntwo\n", []),
        ("cat <<EOF\none\n\nit's\n\nEOF\n\necho 'two\n\n'\n", [1, 8]),
        ('x="$(cat <<EOF\none\n\ntwo\nEOF\n)"\n', [1]),
    ],
)
def test_a_heredoc_that_is_cut_is_warned_of(text: str, lines: list[int]) -> None:
    assert [warning.line for warning in parse_blocks(text).warnings] == lines


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("echo 'one\n\ntwo'\n", [1]),
        ('one\ntool -m "first\n\nsecond\n\nthird"\n\ntwo\n', [2]),
        ("echo 'one\ntwo'\n\nthree\n", []),
        ("python -c '\nx = \"1\"\n\nprint(x)\n'\n\ntool 'a'\n\ntool 'b'\n", [1]),
        ("echo it\\'s\n\ntwo\n", []),
        ('echo "it\'s"\n\ntwo\n', []),
        ("echo $'it\\'s'\n\ntwo\n", []),
        ("one # don't\n\ntwo\n", []),
        ("# don't\none\n\ntwo\n", []),
        ('echo "$(echo "it\'s" \'a"b\')" "$#"\n\ntwo\n', []),
        ("echo \"$(echo 'one\n\ntwo')\"\n", [1]),
        ('echo "${x#\'}" "a \\" b" "$((1 + (2)))"\n\ntwo\n', []),
        ("(one; echo ')')\n\ncase x in x) echo 'y' ;; esac\n", []),
        ("echo ${#x}'\n\n# not 'a' heading\n\n' two\n", [1]),
        ("echo it's\n\necho 'a'\n\necho 'b'\n", [1]),
    ],
)
def test_a_string_that_is_cut_is_warned_of_once(text: str, lines: list[int]) -> None:
    assert [warning.line for warning in parse_blocks(text).warnings] == lines


@pytest.mark.parametrize("text", ["", "\n", " \n\t\n", "\ufeff"])
def test_nothing_comes_of_nothing(text: str) -> None:
    tutorial = parse_blocks(text)
    assert (tutorial.preamble, tutorial.blocks, tutorial.headings) == ("", (), ())


@given(
    st.lists(
        st.sampled_from(
            ["", "  ", "# c", "cmd", "\tcmd x", "#!/bin/sh", "set -e", "cat <<E", "E", "a\x0cb", "it's", 'x "$((']
        )
    )
)
def test_every_line_belongs_to_one_piece_at_its_number(lines: list[str]) -> None:
    tutorial = parse_blocks("\n".join(lines))
    pieces: list[Block | Heading] = [*tutorial.blocks, *tutorial.headings]
    found = {piece.line + offset: line for piece in pieces for offset, line in enumerate(piece.text.split("\n"))}
    expected = {number: line for number, line in enumerate(lines, start=1) if line.strip()}
    assert found.items() <= expected.items()
    preamble = [line for line in tutorial.preamble.split("\n") if line.strip()]
    assert preamble == [expected[number] for number in sorted(expected.keys() - found.keys())]

"""What a test file cites is read without importing it."""

from __future__ import annotations

import textwrap

import pytest

from selftest_core.tutorial.citations import read_tests


def cited(source: str) -> list[tuple[str, int, str]]:
    read = read_tests(textwrap.dedent(source), "tests/test_it.py")
    assert not read.unreadable
    return [(one.test, one.line, one.text) for one in read.citations]


def test_a_call_in_a_function_is_a_citation() -> None:
    found = cited('''
        def test_one(e2e):
            e2e.write_tutorial_block("""
                git init
                git add .
            """)
    ''')
    assert found == [("tests/test_it.py::test_one", 3, "\n        git init\n        git add .\n    ")]


@pytest.mark.parametrize(
    "place",
    [
        "async def test_it(e2e):\n    CALL",
        "@pytest.mark.parametrize('n', [1, 2])\ndef test_it(e2e, n):\n    if n:\n        CALL",
        "if True:\n    def test_it(e2e):\n        CALL",
        "try:\n    import x\nexcept ImportError:\n    def test_it(e2e):\n        CALL",
        "def test_it(e2e):\n    with e2e:\n        for _ in ():\n            CALL",
    ],
)
def test_a_call_is_found_wherever_a_test_may_stand(place: str) -> None:
    assert cited(place.replace("CALL", 'e2e.write_tutorial_block("ls")'))[0][0] == "tests/test_it.py::test_it"


def test_a_method_has_its_class_in_the_node_id() -> None:
    found = cited("""
        class TestOuter:
            class TestInner:
                def test_it(self, e2e):
                    e2e.write_tutorial_block("ls")
    """)
    assert [test for test, _, _ in found] == ["tests/test_it.py::TestOuter::TestInner::test_it"]


def test_the_docstring_section_ends_at_the_next_one() -> None:
    found = cited('''
        def test_one(e2e):
            """Say hello.

            Tutorial block:
                echo hello |
                    cat

                echo again

            Scope: the greeting
            """
    ''')
    assert found == [("tests/test_it.py::test_one", 5, "echo hello |\n    cat\n\necho again")]


def test_a_section_without_indentation_ends_at_a_header() -> None:
    found = cited('''
        def test_one(e2e):
            """Say hello.

            Tutorial block:
            echo hello
            Scope:
            the greeting
            """
    ''')
    assert [text for _, _, text in found] == ["echo hello"]


@pytest.mark.parametrize(
    ("argument", "text"),
    [
        ("BLOCK", "git push"),
        ("dedent(BLOCK)", "git push"),
        ("textwrap.dedent('''\nls\n''')", "\nls\n"),
        ("'a' 'b'", "ab"),
        ("f'a{BLOCK}'", None),
        ("f'a {{}}'", "a {}"),
        ("BLOCK + 'b'", None),
    ],
)
def test_a_text_that_stands_in_the_file_is_read(argument: str, text: str | None) -> None:
    source = f'BLOCK = "git push"\ndef test_it(e2e):\n    e2e.write_tutorial_block({argument})\n'
    read = read_tests(source, "t.py")
    assert [one.text for one in read.citations] == ([text] if text is not None else [])
    assert bool(read.unreadable) is (text is None)


def test_calls_come_in_the_order_of_the_file() -> None:
    found = cited("""
        def test_it(e2e):
            if e2e:
                e2e.write_tutorial_block("one")
            e2e.write_tutorial_block("two"); e2e.write_tutorial_block("three")
    """)
    assert [(line, text) for _, line, text in found] == [(4, "one"), (5, "two"), (5, "three")]


def test_tabs_within_a_cited_command_stay() -> None:
    source = 'def test_it(e2e):\n\t"""It.\n\n\tTutorial block:\n\t\tprintf "a\tb"\n\n\tScope: all\n\t"""\n'
    assert [one.text for one in read_tests(source, "t.py").citations] == ['printf "a\tb"']


@pytest.mark.parametrize("ending", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_editors_change_nothing(ending: str, mark: bytes) -> None:
    source = "def test_it(e2e):\n    e2e.write_tutorial_block('''\n    one\n    two''')\n".replace("\n", ending)
    read = read_tests(mark + source.encode(), "t.py")
    assert [(one.line, one.text) for one in read.citations] == [(2, "\n    one\n    two")]


def test_a_file_is_decoded_as_python_does() -> None:
    source = "# coding: latin-1\ndef test_it(e2e):\n    e2e.write_tutorial_block('ls é')\n".encode("latin-1")
    assert [one.text for one in read_tests(source, "t.py").citations] == ["ls é"]


def test_what_the_compiler_thinks_of_a_string_is_not_said(recwarn: pytest.WarningsRecorder) -> None:
    assert read_tests("def test_it():\n    x = '\\d'\n", "t.py").tests == 1
    assert not recwarn.list


@pytest.mark.parametrize("argument", ["f'{x}'", "make()", "missing", ""])
def test_a_text_made_at_run_time_is_said_and_not_guessed(argument: str) -> None:
    read = read_tests(f"def test_it(e2e):\n    e2e.write_tutorial_block({argument})\n", "t.py")
    assert not read.citations
    assert [(one.line, "t.py::test_it" in one.message) for one in read.unreadable] == [(2, True)]


def test_what_is_no_test_cites_nothing() -> None:
    assert cited("""
        def helper(e2e):
            e2e.write_tutorial_block("ls")

        def write_tutorial_block(text): ...
    """) == []  # fmt: skip


@pytest.mark.parametrize("source", ["def test_(:\n", "\0", "x = " + "(" * 500, "-" * 100_000 + "1", b"\xff"])
def test_a_file_that_is_not_python_is_said(source: str | bytes) -> None:
    read = read_tests(source, "t.py")
    assert read.citations == ()
    assert [one.path for one in read.unreadable] == ["t.py"]


def test_the_number_of_tests_counts_uncited_ones() -> None:
    assert read_tests("def test_a(): ...\nclass TestB:\n    def test_c(self): ...\n", "t.py").tests == 2

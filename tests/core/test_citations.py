"""What a test file cites is read without importing it."""

from __future__ import annotations

import textwrap

import pytest

from selftest_core.citations import read_tests


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
    ],
)
def test_a_text_that_stands_in_the_file_is_read(argument: str, text: str) -> None:
    source = f'BLOCK = "git push"\ndef test_it(e2e):\n    e2e.write_tutorial_block({argument})\n'
    assert [one.text for one in read_tests(source, "t.py").citations] == [text]


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


@pytest.mark.parametrize("source", ["def test_(:\n", "\0", "x = " + "(" * 500])
def test_a_file_that_is_not_python_is_said(source: str) -> None:
    read = read_tests(source, "t.py")
    assert read.citations == ()
    assert [one.path for one in read.unreadable] == ["t.py"]


def test_the_number_of_tests_counts_uncited_ones() -> None:
    assert read_tests("def test_a(): ...\nclass TestB:\n    def test_c(self): ...\n", "t.py").tests == 2

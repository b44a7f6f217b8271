"""Variables of an agent reach its shell word for word: nothing of a test's id or of a task's is executed."""

from __future__ import annotations

import importlib
import subprocess
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from selftest_core.run.crew.mngr_commands import sourced

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

HOSTILE = [
    "tests/test_it.py::test_a[x-1]", "`id`", "$(id)", "$HOME", "a b $(id) `id` ${HOME}", "x;id", "x|id", "x&id", "x>y",
    "x\\", "a b\\", 'a "b" \\" $x', "it's $5", "tests/t.py::test_[$(touch${IFS}/tmp/x)]", "~root", "*", "#",
    "a b\n$(id)", "tab\there", "!x", "{a,b}", "é $ü", "日本;id", "\x1b[31m", "", "--yes", "a=b=c", "\\$(id)",
    "a b \\$(id)", "x\r`id`",
]  # fmt: skip


@pytest.fixture(scope="module")
def format_env_file() -> Callable[[Mapping[str, str]], str]:
    """mngr's own function that writes an agent's variables into the file that a shell reads."""
    found: Callable[[Mapping[str, str]], str] = importlib.import_module("imbue.mngr.hosts.host")._format_env_file
    return found


def read_by_a_shell(content: str, count: int, folder: Path, shell: str) -> list[str]:
    """The variables V0 … as a shell has them that read this file."""
    (folder / "env").write_bytes(content.encode())
    names = " ".join(f'"$V{number}"' for number in range(count))
    done = subprocess.run(
        [shell, "-c", f"set -a; . ./env; set +a; printf '%s\\0' {names}"], cwd=folder, capture_output=True, check=True,
        env={"PATH": "/usr/bin:/bin", "HOME": "/nonexistent"},
    )  # fmt: skip
    assert done.stderr == b""
    return done.stdout.decode().split("\0")[:-1]


@pytest.mark.parametrize("shell", ["sh", "bash"])
def test_hostile_values_arrive_word_for_word(
    format_env_file: Callable[[Mapping[str, str]], str], tmp_path: Path, shell: str
) -> None:
    content = format_env_file({f"V{number}": sourced(text) for number, text in enumerate(HOSTILE)})
    assert read_by_a_shell(content, len(HOSTILE), tmp_path, shell) == HOSTILE


TEXTS = st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\0"), max_size=30)
DENSE = st.text(st.sampled_from("ab $`\\\"'\n;|&()<>*?~#!{}[]=\t"), max_size=12)


@settings(derandomize=True, deadline=None, max_examples=30)
@given(st.lists(st.one_of(DENSE, TEXTS), min_size=1, max_size=40))
def test_any_value_arrives_word_for_word(
    format_env_file: Callable[[Mapping[str, str]], str], tmp_path_factory: pytest.TempPathFactory, texts: list[str]
) -> None:
    content = format_env_file({f"V{number}": sourced(text) for number, text in enumerate(texts)})
    assert read_by_a_shell(content, len(texts), tmp_path_factory.mktemp("env"), "sh") == texts

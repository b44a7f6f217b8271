"""What the documents say, held against what there is: commands, targets, links, generated parts."""

from __future__ import annotations

import argparse
import ast
import contextlib
import io
import re
import subprocess
import sys
import tomllib
from typing import TYPE_CHECKING

import pytest

from selftest_core.tools.installing import MNGR_WANTED, PLUGINS_WANTED
from selftest_core.tutorial.check import check
from selftest_tui.cli.arguments import build_parser
from worlds import ROOT

if TYPE_CHECKING:
    from pathlib import Path

DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
README = (ROOT / "README.md").read_text(encoding="utf-8")


def _names(path: Path) -> str:
    return str(path.relative_to(ROOT))


def _code(text: str) -> list[str]:
    """Each line of fenced code, and each piece of code in running text."""
    fenced = [
        line
        for block in re.findall(r"^```\w*\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
        for line in block.splitlines()
    ]
    return fenced + re.findall(r"`([^`\n]+)`", re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE))


def _commands(text: str) -> list[list[str]]:
    """The words behind each `selftest-tui` that stands in code, up to a comment, a pipe or the like."""
    return [
        match.split()
        for code in _code(text)
        for match in re.findall(r"(?:^|[\s;])selftest-tui((?: +[\w./=-]+)*)", code)
    ]


def _targets() -> set[str]:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    return set(re.findall(r"^([a-z][a-z-]*):", makefile, re.MULTILINE))


def test_every_command_is_in_the_readme() -> None:
    _, commands = build_parser()
    rows = re.findall(r"^\| `selftest-tui ?([a-z-]*)` \|", README, re.MULTILINE)
    assert sorted(rows) == sorted(["", *commands])


@pytest.mark.parametrize("path", DOCUMENTS, ids=_names)
def test_every_command_in_the_documents_exists(path: Path) -> None:
    parser, commands = build_parser()
    for words in _commands(path.read_text(encoding="utf-8")):
        if words and not words[0].startswith("-"):
            assert words[0] in commands, f"selftest-tui {' '.join(words)}"
        # A flag that is no flag is an error of the parser; what flags mean is for the tests of the commands.
        if "KEY=VALUE" not in words:
            parser.parse_args(words)


def test_the_options_that_the_readme_names_exist() -> None:
    parser, commands = build_parser()
    with contextlib.redirect_stdout(io.StringIO()) as shown:
        for command in ([], *([name] for name in commands)):
            with pytest.raises(SystemExit):
                parser.parse_args([*command, "--help"])
    known = shown.getvalue().split()
    ours = [code for code in _code(README) if not re.match(r"\s*(?:uv|npm|mngr|git)\b", code)]
    named = {word for code in ours for word in re.findall(r"(?<!\S)--[a-z][a-z-]+", code)}
    assert named
    assert sorted(option for option in named if option not in known) == []


@pytest.mark.parametrize("path", DOCUMENTS, ids=_names)
def test_every_make_target_exists(path: Path) -> None:
    for code in _code(path.read_text(encoding="utf-8")):
        for target in re.findall(r"\bmake ((?:[a-z][a-z-]*)(?: [a-z][a-z-]*)*)", code.partition("#")[0]):
            assert set(target.split()) <= _targets(), code


def test_every_make_target_is_phony_and_explained() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    phony = re.search(r"^\.PHONY: (.*)$", makefile, re.MULTILINE)
    assert phony
    assert set(phony[1].split()) == _targets()
    shown = subprocess.run(["make", "-s", "help"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert {line.split()[1] for line in shown.splitlines()} == _targets() - {"help"}


@pytest.mark.parametrize("path", DOCUMENTS, ids=_names)
def test_every_link_within_the_project_resolves(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        if "://" in link:
            continue
        name, _, anchor = link.partition("#")
        target = path.parent / name if name else path
        assert target.exists(), link
        if anchor:
            headings = re.findall(r"^#+ (.+)$", target.read_text(encoding="utf-8"), re.MULTILINE)
            assert anchor in {re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-") for heading in headings}, link


@pytest.mark.parametrize("path", DOCUMENTS, ids=_names)
def test_every_file_that_is_named_exists(path: Path) -> None:
    named = {
        code
        for code in _code(path.read_text(encoding="utf-8"))
        if re.fullmatch(r"(?:core|recorder|tui|tests|scripts|docs|bench|screenshots)/[\w./-]*", code)
    }
    assert sorted(name for name in named if not (ROOT / name).exists()) == []


def test_what_is_generated_is_fresh() -> None:
    script = ROOT / "scripts" / "generate.py"
    done = subprocess.run([sys.executable, script, "--check"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_what_is_stale_is_written_anew_and_nothing_else() -> None:
    import importlib.util

    spec = importlib.util.spec_from_file_location("generate", ROOT / "scripts" / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    generate = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(generate)
    for path in generate.PARTS:
        fresh = generate.with_parts(path, path.read_text(encoding="utf-8"))
        spoiled = re.sub(r"(<!-- generated: .*-->\n)", r"\1stale\n", fresh)
        assert spoiled != fresh
        assert generate.with_parts(path, spoiled) == fresh
        with pytest.raises(ValueError, match="has no <!-- generated: "):
            generate.with_parts(path, "# nothing\n")


def test_the_versions_that_are_asked_for_are_the_same_everywhere() -> None:
    """bootstrap, the README and doctor must not each want another tmux."""
    from selftest_core.doctor.doctor import GIT_NEEDED, TMUX_NEEDED

    needed = {"tmux": TMUX_NEEDED, "git": GIT_NEEDED}
    bootstrap = (ROOT / "scripts" / "bootstrap").read_text(encoding="utf-8")
    for tool in ("tmux", "git"):
        wanted = re.search(rf"at_least \"\$\({tool} [^)]*\)\" (\d+) (\d+)", bootstrap)
        assert wanted, tool
        version = f"{wanted[1]}.{wanted[2]}"
        assert re.search(rf"{tool} \({re.escape(version)} or newer\)", README)
        assert needed[tool] == (int(wanted[1]), int(wanted[2]))


# the tutorial


TUTORIAL = ROOT / "tutorial.sh"
OF_EVERY_COMMAND = {"--help", "--batch", "--socket", "--set"}
"""Options that every command has and that mean the same there: the tutorial shows each of them once."""


def test_every_option_of_every_command_is_in_the_tutorial() -> None:
    text = TUTORIAL.read_text(encoding="utf-8").replace("\\\n", "")
    code = [line for line in text.splitlines() if not line.startswith("#")]
    calls = [words[words.index("selftest-tui") :] for words in map(str.split, code) if "selftest-tui" in words]
    shown = {(words[1], option) for words in calls if len(words) > 1 for option in words}
    parser, _ = build_parser()
    (commands,) = (one for one in parser._actions if isinstance(one, argparse._SubParsersAction))
    options = {
        (name, option)
        for name, command in commands.choices.items()
        for option in command._option_string_actions
        if option.startswith("--")
    }
    missing = {(name, option) for name, option in options - shown if option not in OF_EVERY_COMMAND}
    assert sorted(missing) == []
    assert {option for words in calls for option in words} >= OF_EVERY_COMMAND
    assert {name for name, _ in options} <= {name for name, _ in shown}


def test_every_block_of_the_tutorial_is_cited_by_a_happy_and_an_unhappy_test() -> None:
    result = check(ROOT, TUTORIAL, ROOT / "tests")
    assert [block.text for block in result.coverage.uncited] == []
    assert [(stale.citation.test, stale.citation.text) for stale in result.coverage.stale] == []
    assert [warning.message for warning in result.tutorial.warnings] == []

    unhappy = {name for path in {citation.path for citation in result.citations} for name in _unhappy_tests(path)}
    lacking = [
        (f"tutorial.sh:{cited.block.line}", f"no {'unhappy' if is_unhappy else 'happy'} test")
        for cited in result.coverage.blocks
        for is_unhappy in (False, True)
        if is_unhappy not in {test in unhappy for test in cited.tests}
    ]
    assert lacking == []


def _unhappy_tests(path: str) -> set[str]:
    """The node ids of the tests of a file that are marked `unhappy`."""
    functions = [node for node in ast.walk(ast.parse((ROOT / path).read_bytes())) if isinstance(node, ast.FunctionDef)]
    marked = [one for one in functions if "pytest.mark.unhappy" in map(ast.unparse, one.decorator_list)]
    return {f"{path}::{one.name}" for one in marked}


def test_each_line_that_installs_names_mngr_as_its_plugins_need_it_and_no_extra_for_uv() -> None:
    """mngr 0.3 refuses to run in a tool that uv installed with extras."""
    example = (ROOT / "docs" / "examples" / "selftest.yml").read_text(encoding="utf-8")
    lines = [line for line in (README + example).splitlines() if line.strip().startswith("uv tool install")]
    assert len(lines) == 3
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    assert extras["claude"] == [MNGR_WANTED, PLUGINS_WANTED["claude"]]
    assert extras["codex"] == [MNGR_WANTED, PLUGINS_WANTED["codex"]]
    for line in lines:
        assert re.findall("--with '([^']+)'", line) == extras["claude"]
        assert "[" not in line
    assert "selftest-tui[" not in example

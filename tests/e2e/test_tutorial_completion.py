"""The block of tutorial.sh about completion, as it stands, in real shells."""

from __future__ import annotations

import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from selftest_recorder.e2e.expect import expect

if TYPE_CHECKING:
    from pathlib import Path

    from selftest_recorder.e2e.end_to_end import EndToEnd
    from worlds import World

COMPLETION = """
    # A script that completes commands, flags, their values, files and runs. The same for zsh, fish and tcsh.
    selftest-tui completion bash > completion.bash
"""
IN_BASH = """
source "$1"; shift
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMPREPLY=()
_shtab_selftest_tui
printf '%s\\n' "${COMPREPLY[@]}"
"""
HOSTILE = "$(touch broken-out)"


def completed(script: Path, folder: Path, *words: str) -> list[str]:
    """What bash offers for the last word of a command line."""
    done = subprocess.run(
        ["bash", "--norc", "-c", IN_BASH, "bash", str(script), "selftest-tui", *words],
        cwd=folder, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert not done.stderr
    return done.stdout.split()


def folder_with_runs(tmp_path: Path) -> Path:
    for name in ("20261123-0800-ab", "review-1234", HOSTILE, "-rf", "two words"):
        (tmp_path / "repository" / ".selftest" / "runs" / name).mkdir(parents=True)
    (tmp_path / "repository" / "src").mkdir()
    return tmp_path / "repository" / "src"


def test_completion_in_bash(e2e: EndToEnd, world: World, tmp_path: Path) -> None:
    block = e2e.write_tutorial_block(COMPLETION)

    result = block.run(environment=world.environment, cwd=tmp_path, timeout=60.0)

    expect(result).to_succeed()
    script, folder = tmp_path / "completion.bash", folder_with_runs(tmp_path)
    assert completed(script, folder, "ru") == ["run", "runs"]
    assert completed(script, folder, "run", "--on-c") == ["--on-cluster"]
    assert completed(script, folder, "run", "--on-cluster", "") == ["ask", "pause", "go"]
    assert completed(script, folder, "review", "--decisions", "../s") == ["../src"]
    offered = ["-rf", "20261123-0800-ab", "review-1234"]
    assert sorted(completed(script, folder, "runs", "")) == offered
    assert completed(script, folder, "stop", "2026") == offered[1:2]
    assert completed(script, tmp_path, "stop", "") == [], "outside of a repository"
    assert completed(script, folder, "run", "../s") == ["../src"], "a folder of tests"
    assert completed(script, folder, "runs", "../s") == ["../src"], "a folder of outcomes"
    assert not list(tmp_path.rglob("broken-out")), "a name of a folder was run"


@pytest.mark.unhappy
def test_completion_on_a_full_disk(e2e: EndToEnd, world: World, tmp_path: Path) -> None:
    block = e2e.write_tutorial_block(COMPLETION)
    (tmp_path / "completion.bash").symlink_to("/dev/full")

    result = block.run(environment=world.environment, cwd=tmp_path, timeout=60.0)

    expect(result).to_have_exit_code(2).stderr.to_contain("could not be written", "No space left on device")


@pytest.mark.unhappy
def test_completion_for_a_shell_that_is_not_known(e2e: EndToEnd, world: World, tmp_path: Path) -> None:
    result = e2e.run("selftest-tui completion csh", environment=world.environment, cwd=tmp_path, timeout=60.0)

    expect(result).to_have_exit_code(2).stderr.to_contain("bash", "zsh", "fish", "tcsh")

    own = {**world.environment, "SHELL": "/bin/csh"}
    result = e2e.run("selftest-tui completion", environment=own, cwd=tmp_path, timeout=60.0)
    expect(result).to_have_exit_code(2).stderr.to_contain("There is no completion for csh")


@pytest.mark.skipif(shutil.which("fish") is None, reason="no fish on PATH")
def test_completion_in_fish(e2e: EndToEnd, world: World, tmp_path: Path) -> None:
    answer = e2e.run("selftest-tui completion fish --batch", environment=world.environment, cwd=tmp_path).json()
    script, folder = tmp_path / "selftest-tui.fish", folder_with_runs(tmp_path)
    script.write_text(answer["script"])

    def offered(line: str) -> list[str]:
        command = f"source {script}; complete -C '{line}'"
        done = subprocess.run(["fish", "-N", "-c", command], cwd=folder, capture_output=True, text=True, check=True)
        return [one.partition("\t")[0] for one in done.stdout.splitlines()]

    assert answer["shell"] == "fish"
    assert offered("selftest-tui run --on-cluster ") == ["ask", "pause", "go"]
    assert "20261123-0800-ab" in offered("selftest-tui runs ")
    assert offered("selftest-tui runs ../s") == ["../src/"]
    assert offered("selftest-tui run ../s") == ["../src/"]
    assert not list(tmp_path.rglob("broken-out"))


@pytest.mark.parametrize("shell", ["zsh", "tcsh"])
def test_the_script_for_another_shell_is_read_without_an_error(
    e2e: EndToEnd, world: World, tmp_path: Path, shell: str
) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"no {shell} on PATH")
    script = tmp_path / "script"
    script.write_text(e2e.run(f"selftest-tui completion {shell}", environment=world.environment, cwd=tmp_path).stdout)

    done = subprocess.run([shell, "-f", "-n", script], capture_output=True, text=True, check=False)

    assert (done.returncode, done.stderr) == (0, "")
    assert "on-cluster" in script.read_text()

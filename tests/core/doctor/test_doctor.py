"""The doctor: each thing that is missing or wrong is named, with the command that mends it, and hides no other."""

from __future__ import annotations

import os
import re
import sys
from typing import TYPE_CHECKING

import pytest

from selftest_core.doctor.doctor import Check, diagnose
from standins import mngr_that
from worlds import BIN, PATIENCE

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from worlds import World


async def checks(environ: Mapping[str, str], cwd: Path) -> dict[str, Check]:
    told = await diagnose(environ, cwd, mngr_timeout=PATIENCE, timeout=PATIENCE)
    found = {check.name: check for check in told}
    # Whatever else is said: what is not well comes with what to do.
    assert all(check.text for check in found.values())
    assert all(check.hint for check in found.values() if check.status != "ok")
    return found


def program(folder: Path, name: str, says: str, status: int = 0) -> None:
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\necho '{says}'\nexit {status}\n")
    path.chmod(0o755)


async def test_a_whole_world_is_found_well(world: World) -> None:
    (world.host_dir / "agents" / "agent-1").mkdir(parents=True)
    world.tmux("new-session", "-d", "sleep 1000")
    found = await checks(world.environment, world.root)
    ill = {name: check for name, check in found.items() if check.status == "failed"}
    assert ill == {}
    assert found["mngr"].text.startswith("0.3.")
    assert str(BIN / "mngr") in found["mngr"].text
    assert "on PATH" in found["mngr"].text
    assert found["mngr settings"].status == "ok"
    assert found["tmux servers"].text == "mngr's own answers"
    assert found["agents"].text == f"1 in {world.host_dir}"
    assert "16 million colours" in found["terminal"].text
    assert found["prices"].status == "ok"


async def test_a_broken_price_table_is_a_warning(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "genai_prices", None)
    found = (await checks(world.environment, world.root))["prices"]
    assert found.status == "warning"
    assert found.text.startswith("genai-prices cannot be used, so tokens have no dollars: ModuleNotFoundError")


async def test_without_any_program_each_one_is_named(world: World, tmp_path: Path) -> None:
    found = await checks({"PATH": str(tmp_path), "HOME": str(world.home)}, world.root)
    for name in ("tmux", "git", "rsync"):
        assert found[name].status == "failed"
        assert f"apt install {name}" in found[name].hint
    assert found["asciinema"].status == "warning"
    # mngr needs no PATH: the one beside us is taken, and said to be.
    assert "beside our own Python" in found["mngr"].text
    assert found["terminal"].status == "warning"


async def test_the_sandbox_of_verifications_is_tried(tmp_path: Path) -> None:
    environ = {"PATH": str(tmp_path / "bin"), "HOME": str(tmp_path)}
    program(tmp_path / "bin", "mngr", "mngr 0.3.0")  # quicker than the real one, which is no question here
    found = (await checks(environ, tmp_path))["bubblewrap"]
    assert (found.status, "with all your rights" in found.text) == ("warning", True)
    assert "apt-get install bubblewrap" in found.hint
    program(tmp_path / "bin", "bwrap", "bwrap: No permissions to create new namespace", 1)
    found = (await checks(environ, tmp_path))["bubblewrap"]
    assert "bubblewrap does not work here" in found.text
    assert "namespace" in found.hint or "sysctl" in found.hint
    environ["SELFTEST_TUI_VERIFY_ISOLATION"] = "require"
    found = (await checks(environ, tmp_path))["bubblewrap"]
    assert (found.status, "`verify` refuses" in found.text) == ("failed", True)
    # One that isolates nothing is found out by the probe, and one that runs nothing as well.
    without = '#!/bin/sh\nwhile [ "$1" != -- ]; do shift; done\nshift\nexec "$@"\n'
    (tmp_path / "bin" / "bwrap").write_text(without)
    found = (await checks({**environ, "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}"}, tmp_path))["bubblewrap"]
    assert (found.status, "read a planted secret" in found.text) == ("failed", True)
    program(tmp_path / "bin", "bwrap", "", 0)
    assert (await checks(environ, tmp_path))["bubblewrap"].status == "failed"
    environ["SELFTEST_TUI_VERIFY_ISOLATION"] = "none"
    assert (await checks(environ, tmp_path))["bubblewrap"].status == "warning"


async def test_uv_is_wanted_where_there_is_a_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Beside our own Python there may be one, which counts.
    monkeypatch.setattr("sys.executable", str(tmp_path / "python"))
    environ = {"PATH": str(tmp_path / "bin"), "HOME": str(tmp_path)}
    program(tmp_path / "bin", "mngr", "mngr 0.3.0")
    assert (await checks(environ, tmp_path))["uv"].status == "ok"
    (tmp_path / "uv.lock").write_text("")
    assert (await checks(environ, tmp_path))["uv"].status == "warning"
    program(tmp_path / "bin", "uv", "uv 0.13.9 (x86_64)")
    found = (await checks(environ, tmp_path))["uv"]
    assert (found.status, found.text) == ("ok", f"0.13.9 at {tmp_path / 'bin' / 'uv'}")


@pytest.mark.parametrize(
    ("name", "says", "status"),
    [
        ("tmux", "tmux 3.1c", "failed"),
        ("tmux", "tmux 3.2", "ok"),
        ("tmux", "tmux next-3.7", "ok"),
        ("tmux", "tmux master", "warning"),
        ("git", "git version 2.37.9", "failed"),
        ("git", "git version 2.38.0", "ok"),
        ("git", "git version 2.50.1 (Apple Git-155)", "ok"),
        ("mngr", "mngr, version 0.2.1", "failed"),
        ("mngr", "mngr, version 0.3.5", "ok"),
        ("mngr", "mngr, version 0.4.0", "warning"),
    ],
)
async def test_versions_are_judged(tmp_path: Path, name: str, says: str, status: str) -> None:
    program(tmp_path / "bin", "mngr", "mngr 0.3.0")
    program(tmp_path / "bin", name, says)
    home = tmp_path / "home"
    found = await checks({"PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin", "HOME": str(home)}, tmp_path)
    assert found[name].status == status
    (number,) = re.findall(r"[0-9.]+[a-z]?$|[0-9.]{4,}(?= )|master", says)
    assert number in found[name].text


async def test_a_program_that_fails_is_no_healthy_one(tmp_path: Path) -> None:
    program(tmp_path / "bin", "git", "dyld: library not loaded", 134)
    found = await checks({"PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin", "HOME": str(tmp_path)}, tmp_path)
    assert found["git"].status == "failed"
    assert "dyld" in found["git"].text
    assert found["tmux"].status == "ok"


async def test_settings_that_cannot_be_read_are_named_theirs_and_ours(world: World) -> None:
    world.load_mngr()
    (world.host_dir / "config.toml").write_text("this is no TOML")
    (world.root / "selftest-tui.toml").write_text("no_such_key = 1\n")
    found = await checks(world.environment, world.root)
    assert found["mngr settings"].status == "failed"
    assert "config" in found["mngr settings"].text
    assert found["settings"].status == "failed"
    assert "no_such_key" in found["settings"].text


async def test_a_tmux_that_is_not_mngrs_is_warned_of(world: World) -> None:
    other = str(world.socket.with_name("other"))
    world.socket.parent.mkdir(mode=0o700, parents=True)
    world.run(["tmux", "-S", other, "new-session", "-d", "sleep 1000"])
    world.load_mngr()
    inside = {**world.environment, "TMUX": f"{other},1,0"}
    found = await checks(inside, world.root)
    assert other in found["tmux servers"].text
    assert found["TMUX"].status == "warning"
    assert "env -u TMUX mngr" in found["TMUX"].hint
    assert "TMUX" not in await checks({**world.environment, "TMUX": f"{world.socket},1,0"}, world.root)


async def test_a_folder_of_agents_that_is_no_folder_is_told(tmp_path: Path) -> None:
    (tmp_path / "m").write_text("")
    environ = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "MNGR_HOST_DIR": str(tmp_path / "m")}
    found = await checks(environ, tmp_path / "gone")
    assert found["agents"].status == "failed"
    assert str(tmp_path / "m") in found["agents"].text
    environ["MNGR_HOST_DIR"] = str(tmp_path / "none")
    found = await checks(environ, tmp_path)
    assert found["agents"].status == "ok"
    assert "no agent was made so far" in found["agents"].text
    assert not (tmp_path / "none").exists()


async def test_an_mngr_that_hangs_is_named_with_the_way_to_look_into_it(world: World) -> None:
    world.host_dir.mkdir(parents=True, exist_ok=True)
    mngr_that(world, "sleep 1000")
    found = {check.name: check for check in await diagnose(world.environment, world.root, mngr_timeout=0.5)}
    settings = found["mngr settings"]
    assert settings.status == "failed"
    assert "did not answer" in settings.text
    assert "`mngr list --format json" in settings.hint
    assert "Mend what it names" not in settings.hint


def a_claude(world: World) -> Path:
    """A stand-in for the program alone: what is looked at here is the doctor, not Claude Code."""
    folder = world.root / "programs"
    program(folder, "claude", "2.1.330 (Claude Code)")
    world.load_mngr()
    world.extra["PATH"] = f"{folder}:{world.root / 'loaded'}:{BIN}:/usr/bin:/bin"
    return folder


async def test_an_agent_type_is_told_whole_without_its_login_being_shown(world: World) -> None:
    folder = a_claude(world)
    program(folder, "jq", "jq-1.6")
    (world.home / ".claude").mkdir()
    (world.home / ".claude" / "settings.json").write_text('{"permissions": {"defaultMode": "acceptEdits"}}')
    world.extra["ANTHROPIC_API_KEY"] = "sk-hush-hush"

    found = (await checks(world.environment, world.root))["claude"]

    assert found.status == "ok", found
    for part in ("2.1.330 at", str(folder / "claude"), "ANTHROPIC_API_KEY is set", "plugin 0.3", "acceptEdits"):
        assert part in found.text
    assert "hush" not in f"{found.text}{found.hint}"

    (world.home / ".claude" / "settings.json").unlink()
    found = (await checks(world.environment, world.root))["claude"]
    assert "permissions: mode not set" in found.text, "Claude Code chooses the mode then, not we"


@pytest.mark.parametrize(
    ("files", "says"),
    [
        ({".claude/.credentials.json": "{}"}, "signed in (.credentials.json)"),
        ({".claude.json": '{"oauthAccount": {"emailAddress": "ann@example.org"}}'}, "an account in .claude.json"),
        ({".claude.json": '{"primaryApiKey": "sk-hush"}'}, "signed in with a key"),
        ({".claude/settings.json": '{"env": {"ANTHROPIC_AUTH_TOKEN": "hush"}}'}, "in your settings of Claude Code"),
        ({".claude.json": "[1"}, "no login was found"),
    ],
)
async def test_a_login_in_files_is_found(world: World, files: dict[str, str], says: str) -> None:
    a_claude(world)
    for name, text in files.items():
        (world.home / name).parent.mkdir(exist_ok=True)
        (world.home / name).write_text(text)

    found = (await checks(world.environment, world.root))["claude"]

    assert says in found.text
    assert "hush" not in found.text
    assert "example.org" not in found.text


@pytest.mark.parametrize(
    ("status", "says"), [(0, "its sandbox starts"), (1, "does not start: bwrap: no user namespaces")]
)
async def test_the_sandbox_of_codex_is_tried(world: World, status: int, says: str) -> None:
    folder = a_claude(world)
    program(folder, "codex", "codex-cli 0.169.0")
    (folder / "codex").write_text(
        '#!/bin/sh\ncase "$1" in\n'
        f"sandbox) echo 'bwrap: no user namespaces' >&2; exit {status};;\n"
        "*) echo codex-cli 0.169.0;;\nesac\n"
    )

    found = (await checks(world.environment, world.root))["codex"]

    assert says in found.text
    assert ("codex sandbox -- true" in found.hint) == (status != 0)


async def test_a_type_that_nobody_chose_is_plainly_not_installed_and_a_chosen_one_fails(world: World) -> None:
    world.load_mngr()
    found = await checks(world.environment, world.root)
    assert (found["codex"].status, found["codex"].text) == ("ok", "not installed")
    assert found["claude"].status == "warning"  # the default, which nobody chose
    assert "npm install -g --prefix ~/.local @anthropic-ai/claude-code" in found["claude"].hint

    (world.root / "selftest-tui.toml").write_text('agent = "codex"\n')
    chosen = await checks(world.environment, world.root)
    assert chosen["codex"].status == "failed"
    assert "`npm install -g --prefix ~/.local @openai/codex`" in chosen["codex"].hint
    assert (chosen["claude"].status, chosen["claude"].text) == ("ok", "not installed")


async def test_a_plugin_that_is_missing_is_installed_by_what_installed_mngr(world: World) -> None:
    folder = a_claude(world)
    world.extra["ANTHROPIC_API_KEY"] = "sk"
    program(folder, "jq", "jq-1.6")
    program(folder, "mngr", "mngr, version 0.3.0")  # another mngr than ours, first on PATH, with no plugin
    found = (await checks(world.environment, world.root))["claude"]
    assert found.status == "warning"
    assert "mngr has no plugin for it" in found.text
    assert found.hint == "`uv tool install 'imbue-mngr>=0.3,<0.4' --with 'imbue-mngr-claude>=0.3,<0.4'`"

    python = a_tool(world, folder)
    assert await _hint_for_claude(world) == f"`{python} -m pip install 'imbue-mngr-claude>=0.3,<0.4'`"
    (world.root / "tool" / "pipx_metadata.json").touch()
    assert await _hint_for_claude(world) == "`pipx inject tool 'imbue-mngr-claude>=0.3,<0.4'`"
    (world.root / "tool" / "uv-receipt.toml").touch()
    assert await _hint_for_claude(world) == found.hint


async def _hint_for_claude(world: World) -> str:
    return (await checks(world.environment, world.root))["claude"].hint


def a_tool(world: World, folder: Path) -> Path:
    """Install the real mngr into an environment of its own, and its launcher into a folder; return its Python."""
    tool = world.root / "tool"
    world.run([sys.executable, "-m", "venv", "--without-pip", tool])
    (site,) = tool.glob("lib/python*/site-packages")
    paths = [path for path in sys.path if "site-packages" in path]
    (site / "theirs.pth").write_text("\n".join(paths) + "\n")
    launcher = folder / "mngr"
    launcher.write_text(f"#!{tool}/bin/python\nimport sys\nfrom imbue.mngr.main import cli\nsys.exit(cli())\n")
    launcher.chmod(0o755)
    return tool / "bin" / "python"


@pytest.mark.parametrize("is_used", [True, False], ids=["a folder of mngr", "a fresh home"])
async def test_an_mngr_that_uv_installed_with_extras_is_found_broken(world: World, is_used: bool) -> None:
    folder = world.root / "programs"
    folder.mkdir()
    a_tool(world, folder)
    receipt = '[tool]\nrequirements = [{ name = "selftest-tui", extras = ["mngr", "claude"], directory = "/clone" }]\n'
    (world.root / "tool" / "uv-receipt.toml").write_text(receipt)
    world.extra["PATH"] = f"{folder}:/usr/bin:/bin"
    if not is_used:
        world.extra["MNGR_HOST_DIR"] = str(world.root / "none")

    found = (await checks(world.environment, world.root))["mngr settings"]

    assert found.status == "failed"
    assert "1 validation error for ToolRequirement" in found.text
    assert "`uv tool install 'imbue-mngr>=0.3,<0.4'`" in found.hint
    assert not (world.root / "none").exists()

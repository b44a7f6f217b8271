"""What agents of one type get of a person's variables, which settings of mngr, and what the plan says of both."""

from __future__ import annotations

import json
from pathlib import Path, PurePosixPath
from typing import Any

import pytest

from core.run.rehearsals import a_plan
from selftest_core.agent_types.profiles import PLAIN, PROFILES, is_of_this_machine, needs, service_of
from selftest_core.config import Config
from selftest_core.run.crew.mngr_commands import create_arguments
from selftest_core.run.fold import Member
from selftest_core.run.plan.estimates import leaving

HERE, THERE = ("local",), ("modal",)


def needed(environ: dict[str, str], places: tuple[str, ...] = HERE, agent_type: str = "claude", **settings: Any) -> Any:
    agents = {f"agents.{agent_type}.{name}": value for name, value in settings.items() if name != "is_copy"}
    return needs(agent_type, Config(agents=agents), environ, places, is_copy=settings.get("is_copy", True))


def test_variables_that_the_program_reads_go_along_as_soon_as_they_are_set() -> None:
    environ = {
        "ANTHROPIC_API_KEY": "sk", "DISABLE_TELEMETRY": "1", "GITHUB_TOKEN": "x", "ANTHROPIC_AUTH_TOKEN": "",
        "AWS_PROFILE": "work", "OPENAI_API_KEY": "sk",
    }  # fmt: skip
    assert needed(environ).env_names == ("ANTHROPIC_API_KEY", "DISABLE_TELEMETRY")
    assert needed(environ, agent_type="codex").env_names == ("OPENAI_API_KEY",)
    assert needed(environ, usual_env=False, env=("GITHUB_TOKEN", "NOT_SET")).env_names == ("GITHUB_TOKEN",)
    assert needed(environ, agent_type="newcomer", env=("GITHUB_TOKEN",)).env_names == ("GITHUB_TOKEN",)
    assert needed(environ, agent_type="command").env_names == ()


def test_a_clouds_variables_go_along_only_where_the_cloud_is_used() -> None:
    environ = {"AWS_PROFILE": "work", "AWS_REGION": "eu-west-1", "GOOGLE_CLOUD_PROJECT": "p"}
    assert needed(environ).env_names == ()
    used = needed({**environ, "CLAUDE_CODE_USE_BEDROCK": "1"}).env_names
    assert used == ("CLAUDE_CODE_USE_BEDROCK", "AWS_PROFILE", "AWS_REGION")


def test_updates_are_off_and_nobody_is_asked_unless_a_person_wants_it() -> None:
    assert needed({}).fixed == ("DISABLE_AUTOUPDATER=1",)
    asks_nobody = {"agent_types.claude.auto_allow_permissions=true", "agent_types.claude.auto_disable_questions=true"}
    assert asks_nobody < set(needed({}).settings)
    assert needed({}, is_copy=False).settings == ("agent_ready_timeout=60",)  # a work tree of one clone
    assert asks_nobody < set(needed({}, THERE, is_copy=False).settings)
    off = needed({}, auto_allow_permissions=False, auto_disable_questions=False, agent_ready_timeout=90.0)
    assert off.settings == ("agent_ready_timeout=90",)
    assert needed({}, agent_type="newcomer").settings == ("agent_ready_timeout=60",)


def test_behind_another_address_the_permissions_mode_is_default_where_the_person_set_none(tmp_path: Path) -> None:
    elsewhere = {"HOME": str(tmp_path), "ANTHROPIC_BASE_URL": "http://127.0.0.1:1"}
    mode = "agent_types.claude.settings_overrides.permissions.defaultMode=default"
    assert mode in needed(elsewhere).settings
    assert mode not in needed({"HOME": str(tmp_path)}).settings
    assert mode not in needed(elsewhere, auto_allow_permissions=False).settings
    (tmp_path / ".claude").mkdir()
    (tmp_path / ".claude" / "settings.json").write_text('{"permissions": {"defaultMode": "acceptEdits"}}')
    assert mode not in needed(elsewhere).settings


def test_the_login_stays_here_unless_it_is_asked_for(tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path)}
    prefix = "agent_types.claude"
    assert not any("sync" in setting for setting in needed(environ).settings)
    kept = needed(environ, THERE).settings
    assert f"{prefix}.sync_claude_credentials=false" in kept
    assert f"{prefix}.sync_claude_json=false" not in kept
    (tmp_path / ".claude.json").write_text(json.dumps({"primaryApiKey": "sk"}))
    assert f"{prefix}.sync_claude_json=false" in needed(environ, THERE).settings
    asked = needed(environ, THERE, sync_claude_credentials=True).settings
    assert f"{prefix}.sync_claude_credentials=true" in asked

    def said(settings: tuple[str, ...]) -> str:
        plan = a_plan(1, agent_type="claude", agent_command=None, provider="modal", agent_settings=settings)
        return "\n".join(f"{one.what} -> {one.to}" for one in leaving(plan))

    assert "your settings of Claude Code (~/.claude and ~/.claude.json) -> modal" in said(kept)
    assert "login" not in said(kept)
    assert "your login of Claude Code (sync_claude_credentials) -> modal" in said(asked)


@pytest.mark.parametrize(
    ("environ", "names", "who"),
    [
        ({}, (), "Anthropic"),
        ({"ANTHROPIC_BASE_URL": "http://127.0.0.1:1234"}, ("ANTHROPIC_BASE_URL",),
         "127.0.0.1:1234 (ANTHROPIC_BASE_URL)"),
        ({"ANTHROPIC_BASE_URL": "http://127.0.0.1:1234"}, (), "Anthropic"),  # it does not reach the agents
        ({"ANTHROPIC_BASE_URL": "https://ann:hush@proxy.example/v1?key=hush"}, ("ANTHROPIC_BASE_URL",),
         "proxy.example (ANTHROPIC_BASE_URL)"),
        ({"ANTHROPIC_BASE_URL": "http://[bad:1"}, ("ANTHROPIC_BASE_URL",),
         "an unreadable address (ANTHROPIC_BASE_URL)"),
        ({"CLAUDE_CODE_USE_BEDROCK": "1"}, ("CLAUDE_CODE_USE_BEDROCK",), "Amazon Bedrock"),
    ],
)  # fmt: skip
def test_the_plan_says_who_answers(environ: dict[str, str], names: tuple[str, ...], who: str) -> None:
    assert service_of("claude", names, environ) == who


def test_an_address_in_the_programs_own_settings_is_found(tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path)}
    (tmp_path / ".claude").mkdir()
    (tmp_path / ".claude" / "settings.json").write_text(json.dumps({"env": {"ANTHROPIC_BASE_URL": "http://gate:80"}}))
    (tmp_path / ".codex").mkdir()
    (tmp_path / ".codex" / "config.toml").write_text(
        'model_provider = "own"\n[model_providers.own]\nbase_url = "http://127.0.0.1:9/v1"\n'
    )
    assert service_of("claude", (), environ) == "gate:80 (ANTHROPIC_BASE_URL in ~/.claude/settings.json)"
    assert service_of("codex", (), environ) == "127.0.0.1:9 (OPENAI_BASE_URL in ~/.codex/config.toml)"
    for path in (tmp_path / ".claude" / "settings.json", tmp_path / ".codex" / "config.toml"):
        path.write_bytes(b"\xff\x00 [[[")
    assert (service_of("claude", (), environ), service_of("codex", (), environ)) == ("Anthropic", "OpenAI")


def test_addresses_of_this_machine_are_known() -> None:
    assert is_of_this_machine("http://127.0.0.1:8080/v1")
    assert is_of_this_machine("localhost:8080")
    assert not is_of_this_machine("https://api.example")


def test_nothing_of_a_profile_is_emptied_and_what_it_sets_reaches_mngr() -> None:
    plan = a_plan(
        1, agent_type="claude", agent_command=None, agent_env=("DISABLE_AUTOUPDATER=1",),
        agent_settings=("agent_ready_timeout=60",), env_names=("ANTHROPIC_API_KEY",), create_args=("-S", "x=1"),
    )  # fmt: skip
    test = plan.tests[0]
    member = Member(test.agent_name, test.node_id, 1, test.agent_id, test.agent_name, "", "local")
    words = create_arguments(
        plan, member, "local", PurePosixPath("/c"), Path("/p"), "shop", ("DISABLE_AUTOUPDATER", "GITHUB_TOKEN")
    )
    given = [words[n + 1] for n, word in enumerate(words) if word == "--env"]
    assert "DISABLE_AUTOUPDATER=1" in given
    assert "DISABLE_AUTOUPDATER=" not in given
    assert "GITHUB_TOKEN=" in given
    assert words[words.index("--pass-env") + 1] == "ANTHROPIC_API_KEY"
    assert [words[n + 1] for n, word in enumerate(words) if word == "-S"] == ["agent_ready_timeout=60", "x=1"]


def test_no_secret_is_called_plain() -> None:
    for profile in PROFILES.values():
        names = (*profile.variables, *(name for _, cloud in profile.clouds.values() for name in cloud))
        secret = [name for name in names if any(word in name for word in ("KEY", "AUTH_TOKEN", "OAUTH", "SECRET"))]
        assert not PLAIN.intersection(secret)

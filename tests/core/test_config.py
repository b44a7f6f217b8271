"""Settings: where they come from, and what is said of wrong ones."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING

import pytest

from selftest_core.config import CONFIG_KEYS, Config, as_variables, load_config, shown_agent_keys, toml_text
from selftest_core.errors import ConfigError
from selftest_core.usage.prices import ModelPrice, prices_of

if TYPE_CHECKING:
    from pathlib import Path


def refused(cwd: Path, environ: dict[str, str] | None = None, overrides: dict[str, str] | None = None) -> ConfigError:
    with pytest.raises(ConfigError) as raised:
        load_config(cwd, environ or {}, overrides)
    return raised.value


def test_the_table_and_the_settings_agree() -> None:
    made = {
        field.name: field.default
        for field in fields(Config)
        if field.name not in ("agents", "keys", "aliases", "views", "sources")
    }
    assert made == {key.name: key.default for key in CONFIG_KEYS}


@pytest.mark.parametrize("place", ["flag", "variable"])
@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("pytest_command", '["a","-m"]', ("a", "-m")),
        ("pytest_command", "[]", ()),
        ("pytest_command", " [ 'uv', 'run', 'two words' ] ", ("uv", "run", "two words")),
        ("pytest_command", "uv run pytest", ("uv", "run", "pytest")),
        ("sockets", '["/a", "/b:c"]', ("/a", "/b:c")),
        ("env", '["TOKEN", "OTHER"]', ("TOKEN", "OTHER")),
        ("prices", '["model=4,0.2,5,20"]', ("model=4,0.2,5,20",)),
        ("mask_patterns", "[0-9]+ [a-z]", ("[0-9]+", "[a-z]")),
        ("mask_patterns", "[7]", ("[7]",)),
        ("usd_per_agent", '""', None),
    ],
)
def test_a_list_is_accepted_as_help_shows_it(
    tmp_path: Path, place: str, name: str, text: str, value: tuple[str, ...] | None
) -> None:
    if place == "flag":
        config = load_config(tmp_path, {}, {name: text})
    else:
        config = load_config(tmp_path, {f"SELFTEST_TUI_{name.upper()}": text})

    assert getattr(config, name) == value


@pytest.mark.parametrize(("name", "text"), [("pytest_command", '["a", -m]'), ("env", '["A B"]'), ("env", "['A', B]")])
def test_a_wrong_list_is_refused(tmp_path: Path, name: str, text: str) -> None:
    error = refused(tmp_path, {}, {name: text})

    assert error.title.startswith(f"--set {name}: {name} must be a list of ")


def test_every_default_is_accepted_from_every_place(tmp_path: Path) -> None:
    (tmp_path / "selftest-tui.toml").write_text("".join(f"{key.name} = {key.default_text}\n" for key in CONFIG_KEYS))
    environ = {
        key.environment_name: key.default_text.strip('"') if not isinstance(key.default, tuple) else ""
        for key in CONFIG_KEYS
    }
    assert load_config(tmp_path, {}) == Config()
    assert load_config(tmp_path.parent, environ) == Config()


def test_each_place_goes_over_the_one_before(tmp_path: Path) -> None:
    person, project = tmp_path / "person", tmp_path / "project"
    (person / "selftest-tui").mkdir(parents=True)
    (person / "selftest-tui" / "selftest-tui.toml").write_text('theme = "nord"\npoll_local = 7\npoll_all = 40\n')
    below = project / "deep" / "inside"
    below.mkdir(parents=True)
    (project / "pyproject.toml").write_text(
        "[project]\nname = 'x'\n\n[tool.selftest-tui]\npoll_local = 8\nremote = false\n"
    )
    environ = {"XDG_CONFIG_HOME": str(person), "SELFTEST_TUI_POLL_ALL": "50", "SELFTEST_TUI_DEBUG": "1"}

    config = load_config(below, environ, {"poll_all": "60"})

    assert (config.theme, config.poll_local, config.remote, config.poll_all) == ("nord", 8.0, False, 60.0)
    assert config.sources["poll_local"] == str(project / "pyproject.toml")


def test_socket_paths_are_relative_to_where_they_are_written(tmp_path: Path) -> None:
    (tmp_path / "selftest-tui.toml").write_text('sockets = ["run/tmux", "/abs/socket"]\n')
    below = tmp_path / "below"
    below.mkdir()

    assert load_config(below, {}).sockets == (str(tmp_path / "run/tmux"), "/abs/socket")
    assert load_config(below, {"SELFTEST_TUI_SOCKETS": "a:/b"}).sockets == (str(below / "a"), "/b")


def test_the_settings_of_a_run_are_read_from_every_place(tmp_path: Path) -> None:
    (tmp_path / "selftest-tui.toml").write_text(
        'agent = "codex"\npytest_command = "uv run pytest"\ncreate_args = ["-b", "image=a b"]\n'
        'env = ["TOKEN"]\nprompt = "prompts/mine.j2"\nusd_per_agent = 2\nmax_running = 3\ntransfer = "worktree"\n'
    )
    environ = {
        "SELFTEST_TUI_ENV": "TOKEN,OTHER", "SELFTEST_TUI_AGENT_COMMAND": "./agent.sh 'two words'",
        "SELFTEST_TUI_BUDGET_USD": "20", "SELFTEST_TUI_USD_PER_AGENT": "",
    }  # fmt: skip

    config = load_config(tmp_path, environ, {"max_running": "4"})

    assert (config.agent, config.transfer, config.max_running) == ("codex", "worktree", 4)
    assert config.pytest_command == ("uv", "run", "pytest")
    assert config.create_args == ("-b", "image=a b")
    assert config.agent_command == ("./agent.sh", "two words")
    assert config.env == ("TOKEN", "OTHER")
    assert config.prompt == str(tmp_path / "prompts" / "mine.j2")
    assert (config.budget_usd, config.usd_per_agent) == (20.0, None)


def test_what_a_named_variable_holds_is_not_shown(tmp_path: Path) -> None:
    error = refused(tmp_path, {"SELFTEST_TUI_ENV": "TOKEN=secret"})

    assert "TOKEN" in error.title
    assert "secret" not in str(error)


def test_another_tools_broken_project_file_is_none_of_our_business(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("this is = = not TOML, selftest-tui is only named\n")

    assert load_config(tmp_path, {}) == Config()


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("poll_local = 'soon'", "poll_local must be a number of seconds, not 'soon'"),
        ("poll_local = true", "poll_local must be a number of seconds, not True"),
        ("poll_local = 0.1", "poll_local must be at least 1 seconds, not 0.1"),
        ("poll_local = nan", "poll_local must be at least 1 seconds, not nan"),
        ("remote = 'yes'", "remote must be true or false, not 'yes'"),
        ("theme = 3", "theme must be a string, not 3"),
        ("sockets = '/tmp/a'", "sockets must be a list of paths, not '/tmp/a'"),
        ("sockets = ['']", "sockets must be a list of paths, not ['']"),
        ("max_running = 0", "max_running must be at least 1, not 0"),
        ("max_running = 2.5", "max_running must be a whole number, not 2.5"),
        ("launch_rate = 0", "launch_rate must be at least 0.001, not 0"),
        ("usd_per_agent = -1", "usd_per_agent must be at least 0, not -1"),
        ("usd_per_agent = 'dear'", "usd_per_agent must be an amount of USD, or \"\" for none, not 'dear'"),
        ("on_cluster = 'stop'", "on_cluster must be one of ask, pause, go, not 'stop'"),
        ("pytest_command = [1]", "pytest_command must be a list of words, or one string of them, not [1]"),
        ("env = ['A B']", "env must be a list of names of environment variables, not 'A B'"),
    ],
)
def test_a_wrong_value_is_refused_with_file_and_line(tmp_path: Path, line: str, says: str) -> None:
    path = tmp_path / "pyproject.toml"
    path.write_text(f"[tool.other]\n{line.split(' =')[0]} = 1\n\n[tool.selftest-tui]\n# a comment\n{line}\n")

    error = refused(tmp_path)

    assert error.title == f"{path}:6: {says}"
    assert "default" in error.hint


@pytest.mark.parametrize(
    ("name", "near"),
    [("poll-local", "poll_local"), ("pol_remote", "poll_remote"), ("Theme", "theme"), ("socket", "sockets")],
)
def test_an_unknown_setting_is_refused_with_the_nearest_known_one(tmp_path: Path, name: str, near: str) -> None:
    path = tmp_path / "selftest-tui.toml"
    path.write_text(f"# mine\n{name} = 5\n")

    error = refused(tmp_path)

    assert error.title == f"{path}:2: there is no setting {name!r}"
    assert error.hint == f"Did you mean {near}?"


def test_a_setting_that_is_like_none_is_answered_with_all(tmp_path: Path) -> None:
    error = refused(tmp_path, overrides={"zzz": "1"})

    assert all(key.name in error.hint for key in CONFIG_KEYS)


def test_the_environment_is_checked_as_well(tmp_path: Path) -> None:
    assert "SELFTEST_TUI_POLL_LOCAL" in refused(tmp_path, {"SELFTEST_TUI_POLL_LOCAL": "x"}).title
    unknown = refused(tmp_path, {"SELFTEST_TUI_POL_LOCAL": "5"})
    assert "SELFTEST_TUI_POL_LOCAL" in unknown.title
    assert unknown.hint == "Did you mean SELFTEST_TUI_POLL_LOCAL?"


def test_a_table_of_tables_is_refused_by_its_line(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(
        "[tool.selftest-tui]\ntheme = 'x'\n[tool.selftest-tui.poll_local]\na = 1\n"
    )

    assert refused(tmp_path).title.startswith(f"{tmp_path / 'pyproject.toml'}:3: poll_local must be")


@pytest.mark.parametrize("content", [b"theme = [\n", b"\xff\xfe\x00", b'theme = "a"\ntheme = "b"\n'])
def test_a_file_that_is_no_toml_is_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "selftest-tui.toml").write_bytes(content)

    error = refused(tmp_path)

    assert str(tmp_path / "selftest-tui.toml") in error.title
    assert error.hint


def test_defaults_are_shown_as_toml() -> None:
    assert [toml_text(value) for value in ('a"b', True, 2.0, ("/a",))] == ['"a\\"b"', "true", "2", '["/a"]']


def test_what_a_command_line_sets_reaches_a_process_that_reads_its_settings_itself(tmp_path: Path) -> None:
    said = {"on_pause_command": "echo 'rests' >> /tmp/x", "record": "false", "max_running": "3", "sockets": "near"}
    handed = as_variables(said)
    assert set(handed) == {"SELFTEST_TUI_ON_PAUSE_COMMAND", "SELFTEST_TUI_RECORD", "SELFTEST_TUI_MAX_RUNNING"}
    config = load_config(tmp_path, handed)
    assert (config.on_pause_command, config.record, config.max_running) == (said["on_pause_command"], False, 3)


def test_the_settings_of_an_agent_type_are_read_from_every_place(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(
        "[tool.selftest-tui]\nagents.codex.agent_ready_timeout = 90\n\n"
        "[tool.selftest-tui.agents.claude]\nauto_allow_permissions = false\nenv = ['A']\n\n"
        "[tool.selftest-tui.agents.my-type]\nenv = ['B']\n"
    )
    environ = {"SELFTEST_TUI_AGENTS__CLAUDE__ENV": "C D", "SELFTEST_TUI_AGENTS__MY_TYPE__AGENT_READY_TIMEOUT": "7"}

    config = load_config(tmp_path, environ, {"agents.claude.agent_ready_timeout": "30"})

    assert config.of_agent("claude", "auto_allow_permissions") is False
    assert config.of_agent("claude", "auto_disable_questions") is True
    assert config.of_agent("claude", "env") == ("C", "D")
    assert config.of_agent("claude", "agent_ready_timeout") == 30.0
    assert config.of_agent("codex", "agent_ready_timeout") == 90.0
    assert (config.of_agent("my-type", "env"), config.of_agent("my-type", "agent_ready_timeout")) == (("B",), 7.0)
    assert config.of_agent("nobody", "agent_ready_timeout") == 60.0
    assert config.sources["agents.claude.env"] == "SELFTEST_TUI_AGENTS__CLAUDE__ENV"


def test_every_setting_of_an_agent_type_is_accepted_with_its_default(tmp_path: Path) -> None:
    keys = [key for key in shown_agent_keys() if ".TYPE." not in key.name]
    (tmp_path / "selftest-tui.toml").write_text("".join(f"{key.name} = {key.default_text}\n" for key in keys))
    made = load_config(tmp_path, {})
    assert made.agents == {key.name: key.default for key in keys}
    handed = as_variables({"agents.my-type.env": "A", "agents.claude.auto_allow_permissions": "false"})
    assert load_config(tmp_path, handed).of_agent("my-type", "env") == ("A",)
    assert load_config(tmp_path, handed).of_agent("claude", "auto_allow_permissions") is False


@pytest.mark.parametrize(
    ("written", "line", "says", "hint"),
    [
        ("[agents.claude]\nauto_alow_permissions = true\n", 2, "there is no setting 'agents.claude.auto_alow_permiss",
         "agents.claude.auto_allow_permissions?"),
        ("theme = 'x'\n[agents.codex]\n# it has none\nauto_disable_questions = true\n", 4, "there is no setting", ""),
        ("[agents.codex]\nenv = 3\n", 2, "agents.codex.env must be a list of names", ""),
        ("[agents]\nclaude.env = ['A B']\n", 2, "agents.claude.env must be a list of names", ""),
        ("agents.claude.agent_ready_timeout = 0\n", 1, "agents.claude.agent_ready_timeout must be at least 1", ""),
        ("[agents]\nclaude = 3\n", 2, "agents.claude is no table", "[agents.claude]"),
        ("theme = 'x'\nagents = 3\n", 2, "agents is no table", "[agents.claude]"),
        ("[agents]\nclaude = { env = 'x' }\n", 2, "agents.claude.env must be a list of names", ""),
    ],
)  # fmt: skip
def test_a_wrong_setting_of_an_agent_type_is_refused_with_file_and_line(
    tmp_path: Path, written: str, line: int, says: str, hint: str
) -> None:
    path = tmp_path / "selftest-tui.toml"
    path.write_text(written)

    error = refused(tmp_path)

    assert error.title.startswith(f"{path}:{line}: {says}")
    assert hint in error.hint


def test_the_environment_of_an_agent_type_is_checked_as_well(tmp_path: Path) -> None:
    unknown = refused(tmp_path, {"SELFTEST_TUI_AGENTS__CLAUDE__ENVV": "5"})
    assert unknown.hint == "Did you mean SELFTEST_TUI_AGENTS__CLAUDE__ENV?"
    assert "SELFTEST_TUI_AGENTS__CLAUDE__ENVV" in unknown.title


def test_prices_are_a_table_or_one_text(tmp_path: Path) -> None:
    (tmp_path / "selftest-tui.toml").write_text('[prices]\n"claude-opus-9" = [4, 0.2, 5, 20.5]\nown = [1, 0, 0, 2]\n')
    words = ("claude-opus-9=4,0.2,5,20.5", "own=1,0,0,2")
    assert load_config(tmp_path, {}).prices == words
    assert load_config(tmp_path.parent, {"SELFTEST_TUI_PRICES": " ".join(words)}).prices == words
    assert prices_of(words) == (ModelPrice("claude-opus-9", 4, 0.2, 5, 20.5), ModelPrice("own", 1, 0, 0, 2))


@pytest.mark.parametrize(
    "four", ["[1, 2, 3]", "[1, 2, 3, -4]", "[1, 2, 3, inf]", "[1, 2, 3, 1e9]", "[1, 2, 3, nan]", '"free"', '["a"]']
)
def test_a_wrong_price_is_refused_with_its_line(tmp_path: Path, four: str) -> None:
    (tmp_path / "selftest-tui.toml").write_text(f"[prices]\nmodel = {four}\n")
    assert refused(tmp_path).title.startswith(f"{tmp_path}/selftest-tui.toml:1: prices must be a table of models")

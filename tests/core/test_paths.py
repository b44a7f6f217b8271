"""Folders of state, cache, settings and runs, by the environment."""

from __future__ import annotations

from pathlib import Path

import pytest

from selftest_core.paths import cache_folder, config_folder, runs_folder, runs_registry, state_folder

HOME = {"HOME": "/home/ann"}


def test_folders_are_below_the_home_of_the_environment() -> None:
    assert config_folder(HOME) == Path("/home/ann/.config/selftest-tui")
    assert state_folder(HOME) == Path("/home/ann/.local/state/selftest-tui")
    assert cache_folder(HOME) == Path("/home/ann/.cache/selftest-tui")
    assert runs_registry(HOME) == Path("/home/ann/.local/state/selftest-tui/runs")
    assert runs_folder(Path("/shop")) == Path("/shop/.selftest/runs")


def test_variables_of_xdg_go_before_home() -> None:
    environ = {**HOME, "XDG_CONFIG_HOME": "/c", "XDG_STATE_HOME": "/s", "XDG_CACHE_HOME": "/k"}

    found = [config_folder(environ), state_folder(environ), cache_folder(environ)]
    assert found == [Path("/c/selftest-tui"), Path("/s/selftest-tui"), Path("/k/selftest-tui")]


@pytest.mark.parametrize("relative", ["", "state", "./state"])
def test_a_relative_path_is_ignored(relative: str) -> None:
    environ = {**HOME, "XDG_CONFIG_HOME": relative, "XDG_STATE_HOME": relative, "XDG_CACHE_HOME": relative}

    assert [config_folder(environ), state_folder(environ), cache_folder(environ)] == [
        config_folder(HOME),
        state_folder(HOME),
        cache_folder(HOME),
    ]


def test_there_are_no_settings_of_a_person_without_a_home() -> None:
    assert config_folder({}) is None

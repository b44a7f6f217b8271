"""What of this machine an agent gets, and what not: variables, files of its command, and how its commit is read."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

import pytest

from selftest_core.run.crew.env_filter import parse_environment, withheld
from selftest_core.run.crew.local_agents import head_of
from selftest_core.run.crew.mngr_commands import files_to_upload, upload_paths

OID = "0123456789abcdef0123456789abcdef01234567"


@pytest.mark.parametrize(
    "name",
    [
        "GITHUB_TOKEN", "AWS_SECRET_ACCESS_KEY", "PGPASSWORD", "SSH_AUTH_SOCK", "DBUS_SESSION_BUS_ADDRESS", "GIT_TOKEN",
        "PYTHON_API_KEY", "XAUTHORITY", "OF_NOBODY_WE_KNOW", "MNGR_SECRET", "XDG_COOKIE", "CREDENTIALS_HOME",
    ],
)  # fmt: skip
def test_what_may_say_something_of_a_person_is_held_back_unless_it_is_named(name: str) -> None:
    assert withheld({name: "x"}, ()) == (name,)
    assert withheld({name: "x"}, (name,)) == ()
    assert withheld({name: ""}, ()) == ()  # nothing is in it


@pytest.mark.parametrize(
    "name",
    [
        "PATH",
        "HOME",
        "LC_ALL",
        "GIT_AUTHOR_NAME",
        "JAVA_HOME",
        "VIRTUAL_ENV",
        "PYTHONPATH",
        "NIX_PATH",
        "TERM",
        "SSL_CERT_FILE",
        "UV_CACHE_DIR",
    ],
)
def test_what_programs_need_to_run_stays(name: str) -> None:
    assert withheld({name: "x"}, ()) == ()


def test_a_proxy_stays_unless_it_names_somebody() -> None:
    assert withheld({"https_proxy": "http://proxy:3128", "NO_PROXY": "localhost"}, ()) == ()
    assert withheld({"https_proxy": "http://ann:hush@proxy:3128"}, ()) == ("https_proxy",)


def test_names_are_told_sorted_and_what_is_no_name_is_left_to_tmux() -> None:
    assert withheld({"B_TOKEN": "1", "A_TOKEN": "1", "BASH_FUNC_x%%": "() { :; }"}, ()) == ("A_TOKEN", "B_TOKEN")


def test_the_environment_of_a_tmux_server_is_read_line_by_line() -> None:
    text = "PATH=/bin:/usr/bin\nTOKEN=a=b\n-REMOVED\nTEXT=first\nsecond line\n odd name=x\n"
    assert parse_environment(text) == {"PATH": "/bin:/usr/bin", "TOKEN": "a=b", "TEXT": "first"}


def test_a_file_that_only_this_machine_has_goes_along_under_its_own_name(tmp_path: Path) -> None:
    script, other = tmp_path / "agent.sh", tmp_path / "more" / "agent.sh"
    other.parent.mkdir()
    for path in (script, other):
        path.write_text("#!/bin/sh\n")
    command = ("/bin/sh", str(script), "--more", str(other), str(script), "tools/agent.sh", str(tmp_path), "/none/here")
    files = files_to_upload(command)
    assert files == (str(script), str(other))
    assert files_to_upload(None) == ()
    there = PurePosixPath("/srv/copies/agent")
    assert upload_paths(files, there) == {str(script): there / "0" / "agent.sh", str(other): there / "1" / "agent.sh"}


def a_copy(folder: Path, head: str, **refs: str) -> Path:
    git = folder / ".git"
    (git / "refs" / "heads" / "mngr").mkdir(parents=True)
    (git / "HEAD").write_text(head)
    for name, text in refs.items():
        (git / "refs" / "heads" / name).write_text(text)
    return folder


def test_the_commit_of_a_copy_is_read_from_its_head_or_its_branch(tmp_path: Path) -> None:
    assert head_of(a_copy(tmp_path / "detached", f"{OID}\n")) == OID
    assert head_of(a_copy(tmp_path / "branch", "ref: refs/heads/fix\n", fix=f"{OID}\n")) == OID


@pytest.mark.parametrize(
    ("head", "refs"),
    [
        ("ref: refs/heads/../../../secret\n", {}),
        ("ref: refs/heads/.hidden\n", {}),
        ("ref: refs/remotes/origin/main\n", {}),
        ("ref: refs/heads/gone\n", {}),
        ("ref: refs/heads/fix\n", {"fix": "no id\n"}),
        ("ref: refs/heads/fix\n", {"fix": f"{OID}\n{OID}\n"}),
        ("x" * 5000, {}),
        ("\N{SNOWMAN}\n", {}),
        ("", {}),
    ],
)
def test_what_does_not_plainly_say_it_is_unknown(tmp_path: Path, head: str, refs: dict[str, str]) -> None:
    assert head_of(a_copy(tmp_path, head, **refs)) == ""


def test_no_link_of_an_agent_is_followed(tmp_path: Path) -> None:
    real = a_copy(tmp_path / "real", f"{OID}\n")
    linked = tmp_path / "linked"
    linked.mkdir()
    (linked / ".git").symlink_to(real / ".git")
    assert head_of(linked) == ""
    other = a_copy(tmp_path / "other", "ref: refs/heads/fix\n")
    (other / ".git" / "refs" / "heads" / "fix").symlink_to(real / ".git" / "HEAD")
    assert head_of(other) == ""
    assert head_of(tmp_path / "nowhere") == ""

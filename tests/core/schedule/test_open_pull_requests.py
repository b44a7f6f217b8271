"""Which open pull requests are ours, by the answers that gh documents; and when that is unknown."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from core.review.repositories import Repository
from github import GitHub, pull_request
from selftest_core.git.command import Git, Place
from selftest_core.review.publishing import own_ref
from selftest_core.review.pull_request import has_marker, marker
from selftest_core.schedule.open_pull_requests import (
    OpenPullRequest,
    UnknownPullRequestsError,
    find_open_pull_request,
)

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any

MARKED = f"One fix.\r\n\r\n{marker('20261121-0931-7f3a')}\r\n"


@dataclass
class Hosted:
    """A repository with a remote, whose pull requests the stand-in lists."""

    repository: Repository
    github: GitHub

    def find(self, path: str | None = None) -> OpenPullRequest | None:
        folder = self.repository.folder
        path = f"{self.github.folder}{os.pathsep}{os.environ['PATH']}" if path is None else path
        environ = {**os.environ, "PATH": path}
        git = Git(folder / ".git", os.environ)
        return find_open_pull_request(Place(folder / ".git", folder), git, environ)


@pytest.fixture
def hosted(tmp_path: Path) -> Hosted:
    repository = Repository.make(tmp_path / "r")
    repository.commit("Start", {"a": "1\n"})
    repository.git("remote", "add", "origin", "https://github.example/o/r")
    return Hosted(repository, GitHub.make(tmp_path / "bin"))


@pytest.mark.parametrize(
    ("listed", "found"),
    [
        ([], None),
        ([pull_request(8), pull_request(7, MARKED)], 7),
        ([pull_request(7, MARKED, state="CLOSED"), pull_request(6, MARKED, state="MERGED")], None),
        ([pull_request(7, MARKED, isCrossRepository=True)], None),
        ([pull_request(7, "a body that a person wrote anew", headRefName="fixes")], 7),
        ([pull_request(7, headRefName="fixes", isCrossRepository=True, headRepositoryOwner={"login": "Ada"})], 7),
        ([pull_request(7, headRefName="fixes", isCrossRepository=True, headRepositoryOwner={"login": "eve"})], None),
        ([pull_request(7, headRefName="fixes", isCrossRepository=True, headRepositoryOwner=None)], None),
        ([pull_request(7, f"quoted: `{marker('x')}`")], None),
        ([pull_request(7, body=None)], None),
    ],
    ids=[
        "none",
        "ours",
        "closed by hand",
        "a fork with our marker",
        "our branch",
        "our branch in our fork",
        "a fork with our branch's name",
        "a fork that is gone",
        "quoted",
        "empty",
    ],
)
def test_one_is_ours_by_its_marker_or_its_published_branch(
    hosted: Hosted, listed: list[dict[str, Any]], found: int | None
) -> None:
    hosted.repository.git("remote", "add", "fork", "git@github.example:ada/r.git")
    hosted.repository.git("update-ref", own_ref("20261121-0931-7f3a", "published/fixes"), "HEAD")
    hosted.github.write(listed)

    answer = hosted.find()

    assert (answer.number if answer is not None else None) == found


def test_it_is_unknown_without_a_login_without_gh_and_without_a_remote(hosted: Hosted, tmp_path: Path) -> None:
    without_gh = tmp_path / "only-git"
    without_gh.mkdir()
    hosted.github.log_out()
    with pytest.raises(UnknownPullRequestsError) as raised:
        hosted.find()
    assert "gh auth login" in raised.value.detail
    assert raised.value.exit_status == 3
    assert "skip_while_open = false" in raised.value.hint
    with pytest.raises(UnknownPullRequestsError) as raised:
        hosted.find(str(without_gh))
    assert "gh is not installed" in raised.value.detail
    hosted.repository.git("remote", "remove", "origin")
    with pytest.raises(UnknownPullRequestsError) as raised:
        hosted.find()
    assert raised.value.detail == "this repository has no remote"


@pytest.mark.parametrize(
    ("printed", "says"),
    [
        ("nothing of JSON", "no JSON"), ("[" * 100_000, "no JSON"), ('{"message": "Bad gateway"}', "no list"),
        ('[{"url": "x"}]', "no pull request"), ("[7]", "no pull request"),
    ],
)  # fmt: skip
def test_what_gh_does_not_document_is_unknown(hosted: Hosted, printed: str, says: str) -> None:
    (hosted.github.folder / "answer").write_text(printed)
    program = hosted.github.folder / "gh"
    program.write_text(f"#!/bin/sh\ncat {hosted.github.folder}/answer\n")
    with pytest.raises(UnknownPullRequestsError) as raised:
        hosted.find()
    assert says in raised.value.detail


def test_a_thousand_others_leave_it_unknown(hosted: Hosted) -> None:
    hosted.github.write([pull_request(number) for number in range(1000, 0, -1)])
    with pytest.raises(UnknownPullRequestsError) as raised:
        hosted.find()
    assert "more than 1,000" in raised.value.detail


def test_only_a_line_of_its_own_is_a_marker() -> None:
    assert has_marker(MARKED)
    assert not has_marker(f"- `{marker('x')}` by `ada`")
    assert not has_marker("")

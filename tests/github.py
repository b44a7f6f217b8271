"""A program in the place of `gh`, with a file in the place of GitHub.

It takes what gh's manual documents of `pr list`, `pr create` and `auth setup-git`
(https://cli.github.com/manual/gh_pr_list), refuses flags and fields that are not there, and answers as gh 2 does: JSON
on stdout with `--json`, 4 without a login.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

FLAGS = (
    "app", "assignee", "author", "base", "draft", "head", "jq", "json", "label", "limit", "search", "state",
    "template", "web", "repo",
)  # fmt: skip
"""The flags of `gh pr list`, in the manual's order."""
FIELDS = (
    "additions", "assignees", "author", "autoMergeRequest", "baseRefName", "baseRefOid", "body", "changedFiles",
    "closed", "closedAt", "closingIssuesReferences", "comments", "commits", "createdAt", "deletions", "files",
    "fullDatabaseId", "headRefName", "headRefOid", "headRepository", "headRepositoryOwner", "id", "isCrossRepository",
    "isDraft", "labels", "latestReviews", "maintainerCanModify", "mergeCommit", "mergeStateStatus", "mergeable",
    "mergedAt", "mergedBy", "milestone", "number", "potentialMergeCommit", "projectCards", "projectItems",
    "reactionGroups", "reviewDecision", "reviewRequests", "reviews", "state", "statusCheckRollup", "title",
    "updatedAt", "url",
)  # fmt: skip
"""Its JSON fields, in the manual's order."""

_PROGRAM = """#!/usr/bin/env python3
import json, os, sys
from pathlib import Path

flags, fields, store = {flags!r}, {fields!r}, Path({store!r})
noun, verb, *words = sys.argv[1:]
with (store.parent / "calls").open("a") as calls:
    calls.write(f"{{noun}} {{verb}}\\n")
if (store.parent / "logged-out").exists():
    print("To get started with GitHub CLI, please run:  gh auth login", file=sys.stderr)
    sys.exit(4)
if (noun, verb) == ("auth", "setup-git"):
    sys.exit(0)
given = dict(word.removeprefix("--").split("=", 1) for word in words)
known = json.loads(store.read_text())
if (noun, verb) == ("pr", "create"):
    number = max((one["number"] for one in known), default=0) + 1
    url = f"https://github.example/o/r/pull/{{number}}"
    known.insert(0, {{"number": number, "url": url, "body": sys.stdin.read(), "headRefName": given["head"],
                      "isCrossRepository": False, "state": "OPEN", "title": given["title"],
                      "headRepositoryOwner": {{"login": "o"}}}})
    store.write_text(json.dumps(known))
    print(url)
elif (noun, verb) == ("pr", "list"):
    if unknown := [name for name in given if name not in flags]:
        sys.exit(f"unknown flag: --{{unknown[0]}}")
    wanted = given["json"].split(",")
    if unknown := [name for name in wanted if name not in fields]:
        sys.exit(f'Unknown JSON field: "{{unknown[0]}}"')
    state = given.get("state", "open").upper()
    found = [one for one in known if state in ("ALL", one["state"])][: int(given.get("limit", "30"))]
    print(json.dumps([{{name: one[name] for name in wanted}} for one in found]))
else:
    sys.exit(f'unknown command "{{verb}}" for "gh {{noun}}"')
"""


@dataclass(frozen=True)
class GitHub:
    """The stand-in: its program is in `folder`, which belongs first on PATH."""

    folder: Path

    @classmethod
    def make(cls, folder: Path) -> GitHub:
        """Make the program, logged in, with no pull requests."""
        folder.mkdir(parents=True)
        made = cls(folder)
        made.write([])
        program = folder / "gh"
        program.write_text(_PROGRAM.format(flags=FLAGS, fields=FIELDS, store=str(made._store)))
        program.chmod(0o755)
        return made

    @property
    def _store(self) -> Path:
        return self.folder / "pull-requests.json"

    def write(self, pull_requests: list[dict[str, Any]]) -> None:
        """Replace the pull requests, newest first."""
        self._store.write_text(json.dumps(pull_requests))

    def read(self) -> list[dict[str, Any]]:
        """Return the pull requests, newest first."""
        found: list[dict[str, Any]] = json.loads(self._store.read_text())
        return found

    def log_out(self) -> None:
        """Forget the login."""
        (self.folder / "logged-out").touch()


def pull_request(number: int, body: str | None = "", **changes: object) -> dict[str, Any]:
    """An open pull request of the repository's own branch."""
    url = f"https://github.example/o/r/pull/{number}"
    return {
        "number": number, "url": url, "body": body, "headRefName": f"branch-{number}", "isCrossRepository": False,
        "headRepositoryOwner": {"login": "o"},
        "state": "OPEN", "title": "A change", **changes,
    }  # fmt: skip

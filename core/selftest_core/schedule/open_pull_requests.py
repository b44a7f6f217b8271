"""The open pull requests that this program made, as `gh` lists them.

A pull request is ours where its text has our marker (`review.pull_request.marker`), or where its branch is one that a
review published here. Somebody else may copy the marker and the branch's name into a pull request from a fork, which
would keep every later run from starting: from a fork only a published branch counts, and only where a remote here is of
the fork's owner.

It asks the user's own `gh`, with their environment, in the repository; nothing is changed.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from selftest_core.errors import SelftestError
from selftest_core.frozen import dataclass
from selftest_core.review.publishing import published_branches
from selftest_core.review.pull_request import has_marker
from selftest_core.tools.process import run

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from selftest_core.git.command import Git, Place

_TIMEOUT = 60.0
_MOST = 1000
"""Open pull requests that are read."""
_FIELDS = "number,url,body,headRefName,headRepositoryOwner,isCrossRepository"
_OWNER = re.compile(r"[/:]([^/:\s]+)/[^/\s]+\s")
"""The owner in a line of `git remote -v`: `origin  git@github.com:OWNER/repository.git (fetch)`."""
_HINT = "`gh auth status` tells more; the setting `skip_while_open = false` starts runs without asking."


class UnknownPullRequestsError(SelftestError):
    """Nobody can tell whether an earlier pull request is open: the next scheduled run asks again."""

    exit_status = 3


@dataclass(frozen=True, slots=True)
class OpenPullRequest:
    """An open pull request: its number and its address."""

    number: int
    url: str


def find_open_pull_request(place: Place, git: Git, environ: Mapping[str, str]) -> OpenPullRequest | None:
    """Return the newest open pull request of ours, None without one. Raises UnknownPullRequestsError."""
    remotes = git.ask("remote", "-v")
    if not remotes.strip():
        raise _unknown("this repository has no remote")
    argv = ("gh", "pr", "list", "--state=open", f"--limit={_MOST}", f"--json={_FIELDS}")
    # A prompt on the terminal would hang.
    quiet = {**environ, "GH_PROMPT_DISABLED": "1", "GH_NO_UPDATE_NOTIFIER": "1", "NO_COLOR": "1"}
    try:
        done = run(argv, timeout=_TIMEOUT, cwd=place.top, env=quiet)
    except SelftestError as error:
        raise _unknown(": ".join(filter(None, (error.title, error.detail)))) from error
    if not done.ok:
        raise _unknown(f"gh ended with {done.exit_status}: {done.stderr_end}")
    owners = frozenset(owner.lower() for owner in _OWNER.findall(remotes))
    return _first_of_ours(done.stdout, published_branches(git), owners)


def _first_of_ours(listed: str, published: Collection[str], owners: Collection[str]) -> OpenPullRequest | None:
    """Read what `gh pr list --json` printed: the newest first."""
    try:
        found = json.loads(listed)
    except (ValueError, RecursionError) as error:
        raise _unknown("gh printed no JSON") from error
    if not isinstance(found, list):
        raise _unknown("gh printed no list")
    for one in found:
        if not isinstance(one, dict) or not isinstance(number := one.get("number"), int):
            raise _unknown("gh listed something that is no pull request")
        is_published = one.get("headRefName") in published
        if one.get("isCrossRepository") is False:
            is_ours = is_published or has_marker(str(one.get("body") or ""))
        else:
            owner = one.get("headRepositoryOwner")
            is_ours = is_published and isinstance(owner, dict) and str(owner.get("login")).lower() in owners
        if is_ours:
            return OpenPullRequest(number, str(one.get("url") or ""))
    if len(found) >= _MOST:
        raise _unknown(f"more than {_MOST:,} pull requests are open")
    return None


def _unknown(why: str) -> UnknownPullRequestsError:
    return UnknownPullRequestsError("It is unknown whether an earlier pull request is open", why, _HINT)

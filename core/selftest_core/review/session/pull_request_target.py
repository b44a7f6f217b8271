"""Where a pull request of a review goes: the branch that the work is meant for, as the remote names it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from selftest_core.errors import RefusedError
from selftest_core.review.pull_request import open_pull_request

if TYPE_CHECKING:
    from collections.abc import Mapping

    from selftest_core.review.changes.inputs import Inputs
    from selftest_core.review.pull_request import PullRequest


def open_for(ref: str, main: str, inputs: Inputs, environ: Mapping[str, str], text: PullRequest) -> str:
    """Open a pull request of a published ref against `main`, a branch here or at a remote; returns its address.

    Raises RefusedError where there is no such branch or no remote, ToolError where git or gh fails.
    """
    if not main:
        detail = "None of the usual branches of this repository builds on the base of the review."
        raise RefusedError("Nobody knows which branch the pull request is for", detail, "Open it by hand.")
    # A remote's branch is `origin/main` here, and `main` there.
    return open_pull_request(inputs.place.top, environ, ref, main.removeprefix("origin/"), text)

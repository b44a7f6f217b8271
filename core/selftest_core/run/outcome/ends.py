"""The possible ends of a test: one table, from which labels, counts, groups and exit codes are derived.

To add an end: add a row to `End`, and decide it in `outcome.reported_end` (from an agent's report) or in
`conduct.policy` (from what the conductor sees). Only a new `Group` also needs a row in `selftest_tui.run.words`.
"""

from __future__ import annotations

from enum import StrEnum

CLAIMED_GREEN = "claimed green"
"""The label of a test that is red though its agent says that it passes."""


class Group(StrEnum):
    """Ends that are counted and shown together, the gravest first."""

    FAILED = "failed"
    BLOCKED = "blocked"
    STOPPED = "stopped"
    NOT_STARTED = "not_started"
    SUCCEEDED = "succeeded"
    UNCHANGED = "unchanged"

    @property
    def is_open(self) -> bool:
        """True if work is left for people: a run with such an end exits with 1."""
        return self not in (Group.SUCCEEDED, Group.UNCHANGED)

    @property
    def is_clustered(self) -> bool:
        """True if tests with the same cause are shown as one cluster."""
        return self in (Group.FAILED, Group.BLOCKED)


class End(StrEnum):
    """The end of a test. When a run is over, each test has exactly one. Failures are in the order of a run's steps.

    `group`: the group that counts it. `label`: its name in a table. `sentence`: the predicate for "TEST …" in a log.
    `is_reported`: the agent's own report decided it.
    """

    group: Group
    label: str
    sentence: str
    is_reported: bool

    SUCCEEDED = "succeeded", Group.SUCCEEDED, "succeeded", "succeeded", True
    UNCHANGED = "unchanged", Group.UNCHANGED, "unchanged", "needs no change", True
    BLOCKED = "blocked", Group.BLOCKED, "blocked", "is blocked", True
    STOPPED = "stopped", Group.STOPPED, "stopped", "was stopped"
    NOT_STARTED = "not_started", Group.NOT_STARTED, "not started", "was not started"
    LAUNCH = "launch", Group.FAILED, "no launch", "failed to launch"
    CRASH = "crash", Group.FAILED, "crashed", "crashed"
    TIMEOUT = "timeout", Group.FAILED, "timed out", "timed out"
    LOST = "lost", Group.FAILED, "host lost", "was lost"
    UNREADABLE = "unreadable", Group.FAILED, "unreadable", "wrote an outcome that cannot be read"
    RED = "red", Group.FAILED, "failed", "still fails", True

    def __new__(
        cls, word: str, group: Group = Group.FAILED, label: str = "", sentence: str = "", is_reported: bool = False
    ) -> End:
        """Make one row. `word`: in the journal and in JSON. The defaults let type checkers accept `End(word)`."""
        made = str.__new__(cls, word)
        made._value_ = word
        made.group, made.label, made.sentence, made.is_reported = group, label, sentence, is_reported
        return made

    @property
    def is_failure(self) -> bool:
        """True for all kinds of failure."""
        return self.group is Group.FAILED


ENDS_BY_GRAVITY = tuple(end for group in Group for end in End if end.group is group)

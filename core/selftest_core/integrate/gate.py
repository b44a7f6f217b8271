"""The gate of integrators: an answer fits the conflict as it is now, and the tests of both sides pass with it.

It runs in the conductor, beside a person who may have the review open: it reads the review, and changes nothing of it.
One answer at a time, since each builds on the trees of the same review.
"""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from selftest_core.errors import SelftestError, describe_error
from selftest_core.integrate.answer import UnusableAnswerError, read_answer
from selftest_core.integrate.applying import task_of
from selftest_core.integrate.fitting import resolve_all
from selftest_core.integrate.normalising import StoredGroup, lay_group, read_group_answer
from selftest_core.integrate.proof import prove, slots_of
from selftest_core.integrate.standing import open_standing
from selftest_core.verify.folders.hostile import remove_tree

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from selftest_core.config import Config
    from selftest_core.integrate.answer import IntegratorAnswer
    from selftest_core.integrate.proof import Proof
    from selftest_core.integrate.standing import Standing
    from selftest_core.integrate.task import StoredTask
    from selftest_core.review.changes.collect_changes import Change
    from selftest_core.run.outcome.outcome import Outcome
    from selftest_core.run.plan.plan import PlannedTest, RunPlan


class IntegratorGate:
    """Judges the answers of one run; implements `Gate`. For one event loop."""

    def __init__(self, plan: RunPlan, config: Config, environ: Mapping[str, str]) -> None:
        self._plan, self._config, self._environ = plan, config, environ
        self._one_at_a_time = asyncio.Lock()
        self._slots = slots_of(plan.run, environ)

    async def judge(self, task: PlannedTest, folder: Path, outcome: Outcome, tip: str) -> str:
        """Return "" where the answer can be applied, else the reason."""
        async with self._one_at_a_time:
            is_stopped = threading.Event()
            thread = asyncio.ensure_future(asyncio.to_thread(self._judge, task, folder, outcome, is_stopped))
            try:
                return await asyncio.shield(thread)
            except asyncio.CancelledError:
                is_stopped.set()
                await asyncio.wait((thread,))  # the test processes end at once
                raise

    async def close(self) -> None:
        """Remove the trees that tests ran on."""
        await asyncio.to_thread(remove_tree, self._slots)

    def _judge(self, planned: PlannedTest, folder: Path, outcome: Outcome, is_stopped: threading.Event) -> str:
        try:
            task = task_of(planned)
            if isinstance(task, StoredGroup):
                return self._proved_group(
                    planned.agent_name, task, read_group_answer(folder, task, outcome), is_stopped
                )
            answer = read_answer(folder, task, outcome)
            return self._proved(planned.agent_name, task, answer, is_stopped)
        except UnusableAnswerError as error:
            return error.title
        except SelftestError as error:
            return describe_error(error)

    def _proved(self, agent: str, task: StoredTask, answer: IntegratorAnswer, is_stopped: threading.Event) -> str:
        with open_standing(Path(self._plan.repository), task.review, self._environ) as standing:
            resolved = resolve_all(standing, task, answer, agent)
            mine, others = standing.changes(resolved), standing.changes(task.rivals)
            proof = self._prove(standing, standing.trees(resolved), mine, others, is_stopped)
        if proof.reason:
            return _reason_of(proof)
        dropped = next((why for why in (answer.one_side or {}).values() if why), "")
        if dropped and not proof.passed:
            return "it drops one side, and no test of either side shows that this is right"
        return ""

    def _proved_group(
        self, agent: str, task: StoredGroup, contents: Mapping[str, bytes | None], is_stopped: threading.Event
    ) -> str:
        with open_standing(Path(self._plan.repository), task.review, self._environ) as standing:
            members, tree = lay_group(standing, task, contents, agent)
            return _reason_of(self._prove(standing, (standing.whole_tree(), tree), members, (), is_stopped))

    def _prove(
        self,
        standing: Standing,
        trees: tuple[str, str],
        mine: Sequence[Change],
        others: Sequence[Change],
        is_stopped: threading.Event,
    ) -> Proof:
        return prove(
            standing, trees, mine, others, self._slots, self._config, self._environ,
            self._plan.verify_on_arrival, is_stopped,
        )  # fmt: skip


def _reason_of(proof: Proof) -> str:
    return "\n".join(part for part in (proof.reason, proof.output) if part)

"""A review verified on real git and real pytest: liars and culprits are named, and nothing is run twice."""

from __future__ import annotations

import os
import shutil
import threading
from typing import TYPE_CHECKING

import pytest

from core.verify.desks import NONE, SANDBOX, SETTINGS, make_shop
from selftest_core.config import load_config
from selftest_core.errors import RefusedError, ToolMissingError
from selftest_core.review.candidate_branch import Decision
from selftest_core.review.changes.collect_changes import Branch
from selftest_core.review.changes.inputs import Request
from selftest_core.review.evidence import Evidence
from selftest_core.review.session import ReviewSession
from selftest_core.schema.review import review_document
from selftest_core.verify.batch import Answer, Verifying, verify
from selftest_core.verify.review_verifier import ReviewVerifier
from selftest_core.verify.verdicts import Effect, Result, Verdict
from selftest_core.verify.verification import Mark, Verified
from selftest_core.verify.verifier import StoppedError

if TYPE_CHECKING:
    from pathlib import Path

    from core.review.repositories import Repository
    from selftest_core.config import Config
    from selftest_core.verify.verification import ItemVerdict
    from selftest_core.verify.verifier import Progress

# Not part of `make quick`: each test starts several processes of pytest.
pytestmark = pytest.mark.real

AGENTS = ("ada", "bob", "cat", "eve", "fay", "gus", "hal", "kim")


class Shop:
    """A shop, and how it is verified."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.repository: Repository = make_shop(folder / "shop")
        mine = {"XDG_CACHE_HOME": str(folder / "cache"), "HOME": str(folder / "home")}
        self.environ = {**os.environ, **SETTINGS, **mine}
        (folder / "home").mkdir()
        self.seen: list[Progress] = []
        self.said: list[str] = []

    def config(self, **settings: str) -> Config:
        return load_config(self.repository.folder, self.environ, settings)

    def verify(
        self,
        *agents: str,
        decisions: str | None = None,
        whole: bool = False,
        tests: tuple[str, ...] = (),
        **settings: str,
    ) -> Answer:
        self.seen.clear()
        self.said.clear()
        path = None
        if decisions is not None:
            path = self.folder / "decisions.json"
            path.write_text(decisions)
        request = Request(targets=agents or AGENTS, base="main", decisions=path)
        return verify(
            Verifying(request, 2, whole, tests), self.config(**settings), self.repository.folder, self.environ,
            self.said.append, self.seen.append, threading.Event(),
        )  # fmt: skip


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Shop:
    return Shop(tmp_path_factory.mktemp("verify"))


@pytest.fixture(scope="module")
def answer(shop: Shop) -> Answer:
    return shop.verify()


def item(answer: Answer, agent: str) -> ItemVerdict:
    (change,) = [change for change in answer.reviewed.order if change.agents == (agent,)]
    return answer.verification.items[change.oid]


def fingerprint(repository: Repository) -> list[str]:
    """The person's checkout, index and refs."""
    index = repository.folder / ".git" / "index"
    status = repository.git("status", "--porcelain", "--ignored")
    return [repository.git("show-ref"), status, repository.git("rev-parse", "HEAD"), str(index.stat().st_mtime_ns)]


def test_each_change_has_its_verdict(answer: Answer) -> None:
    found = {agent: item(answer, agent).verified for agent in AGENTS}
    assert found == {
        "ada": Verified.PASSED, "bob": Verified.PASSED, "cat": Verified.UNKNOWN, "eve": Verified.FAILED,
        "fay": Verified.FLAKY, "gus": Verified.PASSED, "hal": Verified.PASSED, "kim": Verified.PASSED,
    }  # fmt: skip
    assert answer.verification.verified is Verified.FAILED
    assert {one.effect for one in item(answer, "ada").tests} == {Effect.FIXED}


def test_the_culprit_is_named_with_what_it_breaks(answer: Answer) -> None:
    eve = item(answer, "eve")
    assert (eve.broke, eve.marks) == (("tests/test_common.py::test_rate",), (Mark.CULPRIT,))
    assert answer.verification.broken == (("tests/test_common.py::test_rate", eve.oid),)


def test_a_test_that_was_green_before_proves_nothing_new(answer: Answer) -> None:
    assert item(answer, "kim").marks == (Mark.NOTHING_NEW,)


def test_a_change_of_conftest_changes_its_own_judge(answer: Answer) -> None:
    assert item(answer, "hal").marks == (Mark.OWN_JUDGE,)


def test_an_added_test_is_owned(answer: Answer) -> None:
    tests = {one.test: (one.before, one.after, one.effect) for one in item(answer, "gus").tests}
    assert tests["tests/test_gus.py::test_twice"] == (Verdict.RED, Verdict.GREEN, Effect.FIXED)


def test_nothing_is_run_twice(shop: Shop, answer: Answer) -> None:
    again = shop.verify()
    runs = {(one.job.tree, one.test) for one in shop.seen}
    # What depends on the order of tests is no result, so it is not kept.
    assert {test for _, test in runs} == {"tests/test_fay.py::test_f"}
    assert again.verification.processes <= 8
    assert again.verification.from_cache >= answer.verification.executions - 8
    kept = [shop.verify("ada", "bob").verification for _ in range(2)]
    assert kept[1].executions == kept[1].processes == kept[1].checkouts == 0
    assert kept[0].verified is kept[1].verified is Verified.PASSED


def test_a_decision_changes_what_is_verified(shop: Shop) -> None:
    eve = shop.repository.git("rev-parse", "eve")
    found = shop.verify("ada", "eve", decisions=f'{{"items": {{"{eve}": "revert"}}}}')
    assert found.verification.verified is Verified.PASSED
    assert item(found, "eve").verified is Verified.UNKNOWN
    assert item(found, "eve").reason == "reverted"


def test_only_the_named_tests_are_run(shop: Shop) -> None:
    found = shop.verify("ada", "bob", "eve", tests=("tests/test_ada.py",), whole=True)
    assert [one.test for one in found.verification.tests] == ["tests/test_ada.py::test_f"]


def test_the_whole_suite(shop: Shop) -> None:
    found = shop.verify("ada", whole=True).verification
    assert found.is_whole_suite
    assert len(found.tests) == 9
    assert {one.test for one in found.tests if one.after is Verdict.RED} >= {"tests/test_bob.py::test_f"}


def test_the_person_is_not_touched(shop: Shop) -> None:
    before = fingerprint(shop.repository)
    shop.verify("ada", "gus", "eve")
    assert fingerprint(shop.repository) == before
    assert not list((shop.folder / "cache").glob("selftest-tui/verify/*/*"))


def test_without_isolation_it_says_so(shop: Shop) -> None:
    found = shop.verify("ada", verify_isolation="none")
    assert found.isolation.kind == "none"
    assert "NOT isolated (`verify_isolation` is none): agents' code runs with all your rights" in "".join(shop.said)
    assert found.verification.verified is Verified.PASSED


def test_isolation_that_is_required_and_missing_is_refused(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    only_git = shop.folder / "bin"
    only_git.mkdir()
    (only_git / "git").symlink_to(shutil.which("git") or "git")
    monkeypatch.setitem(shop.environ, "PATH", str(only_git))
    with pytest.raises(RefusedError, match="cannot be isolated"):
        shop.verify("ada", verify_isolation="require")


def test_an_interpreter_that_is_missing_is_said(shop: Shop) -> None:
    with pytest.raises(ToolMissingError, match="/no/python is not installed"):
        shop.verify("ada", pytest_command="/no/python -m pytest")


def test_another_verification_of_the_same_review_is_refused(shop: Shop) -> None:
    inside: list[str] = []

    def again(_: Progress) -> None:
        with pytest.raises(RefusedError) as refused:
            shop.verify("ada", "hal")
        inside.append(str(refused.value))

    request = Request(targets=("ada", "hal"), base="main")
    config = shop.config()
    verify(
        Verifying(request, 1), config, shop.repository.folder, shop.environ, lambda _: None, again, threading.Event()
    )
    assert inside
    assert "verified by another process" in inside[0]


def test_a_stop_keeps_what_was_run(shop: Shop) -> None:
    request = Request(targets=("bob", "gus"), base="main")
    config = shop.config()
    stop = threading.Event()
    arguments = (Verifying(request, 1), config, shop.repository.folder, shop.environ, lambda _: None)
    with pytest.raises(StoppedError):
        verify(*arguments, lambda _: stop.set(), stop)
    whole = verify(*arguments, lambda _: None, threading.Event())
    assert whole.verification.verified is Verified.PASSED
    assert whole.verification.from_cache >= 1


def test_an_open_review_is_verified_as_it_is_and_as_it_would_be_published(shop: Shop) -> None:
    config = shop.config()
    request = Request(targets=("ada", "eve"), base="main")
    branches = [Branch(name, shop.repository.git("rev-parse", name)) for name in request.targets]
    with ReviewSession.open(request, shop.repository.folder, shop.environ, lambda _: None) as session:
        ada = next(change for change in session.state.reviewed.order if change.agents == ("ada",))
        reviewed = session.decide([ada.oid], Decision.KEEP).reviewed
        home = shop.repository.folder / ".selftest" / "runs" / reviewed.plan.name
        with (
            session.open_reader() as engine,
            ReviewVerifier.open(engine, shop.repository.folder, home, config, shop.environ) as verifier,
        ):
            stop = threading.Event()
            with pytest.raises(StoppedError):
                verifier.verify(reviewed, {}, branches, lambda _: stop.set(), stop)
            stop.set()
            with pytest.raises(StoppedError):
                verifier.verify(reviewed, {}, branches, is_stopped=stop, is_kept_only=True)
            rows = verifier.verify(reviewed, {}, branches)
            published = verifier.verify(reviewed, {}, branches, is_kept_only=True)
            again = verifier.verify(reviewed, {}, branches, is_kept_only=True)
        assert (rows.verified, published.verified) == (Verified.FAILED, Verified.PASSED)
        assert (again.executions, again.checkouts) == (0, 0)
        tip = session.publish("only-ada").tip
    assert published.tree == shop.repository.git("rev-parse", f"{tip}^{{tree}}")


def test_a_claimed_fix_without_one_is_marked(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    shop.repository.git("checkout", "-q", "-b", "ida", "main")
    test = "from shop.kim import f\n\n\ndef test_f():\n    assert f() in (1,)\n"
    shop.repository.commit("[FIX_IMPL] Mend kim", {"tests/test_kim.py": test}, "ida")
    shop.repository.git("checkout", "-q", "main")
    config = shop.config()
    request = Request(targets=("ada", "ida"), base="main")
    branches = [Branch(name, shop.repository.git("rev-parse", name)) for name in request.targets]
    evidence = {name: Evidence(claims_fix=True) for name in request.targets}
    with ReviewSession.open(request, shop.repository.folder, shop.environ, lambda _: None) as session:
        reviewed = session.state.reviewed
        home = shop.repository.folder / ".selftest" / "runs" / reviewed.plan.name
        with (
            session.open_reader() as engine,
            ReviewVerifier.open(engine, shop.repository.folder, home, config, shop.environ) as verifier,
        ):
            found = verifier.verify(reviewed, evidence, branches)
    marks = {change.agents[0]: found.items[change.oid].marks for change in reviewed.order}
    assert Mark.NO_FIX in marks["ida"]
    assert Mark.NO_FIX not in marks["ada"]


def test_on_one_branch_without_claims_who_breaks_a_test_that_another_fixed_is_named(tmp_path: Path) -> None:
    """Nobody edits that test, and nobody claims it."""
    shop = Shop(tmp_path)
    repository = shop.repository
    repository.commit(
        "Add the tax",
        {
            "shop/rate.py": "RATE = 1\n", "shop/tax.py": "def f():\n    return 0\n",
            "tests/test_tax.py": "from shop.tax import f\n\n\ndef test_f():\n    assert f() == 1\n",
        },
    )  # fmt: skip
    repository.git("checkout", "-q", "-b", "fixes")
    mend = "from shop.rate import RATE\n\n\ndef f():\n    return RATE\n"
    fix = repository.commit("[FIX_IMPL] Mend the tax", {"shop/tax.py": mend})
    repository.commit("Say so", {"README.md": "The tax is right.\n"})
    culprit = repository.commit("[FIX_IMPL] Raise the rate", {"shop/rate.py": "RATE = 2\n"})
    repository.git("checkout", "-q", "main")
    path = tmp_path / "decisions.json"
    found = []
    for decision in ("undecided", "revert"):
        path.write_text(f'{{"items": {{"{culprit}": "{decision}"}}}}')
        request = Request(targets=("main..fixes",), decisions=path)
        found.append(
            verify(
                Verifying(request), shop.config(), repository.folder, shop.environ, shop.said.append, shop.seen.append,
                threading.Event(),
            ).verification
        )  # fmt: skip
    broken, mended = found
    assert broken.broken == (("tests/test_tax.py::test_f", culprit),)
    assert (broken.items[culprit].verified, broken.items[culprit].marks) == (Verified.FAILED, (Mark.CULPRIT,))
    assert broken.items[fix].verified is Verified.UNKNOWN
    assert broken.items[fix].reason == f"tests/test_tax.py::test_f, which it affects, fails: broken by {culprit[:9]}"
    assert (mended.verified, mended.items[fix].verified) == (Verified.PASSED, Verified.PASSED)
    assert [one.effect for one in mended.items[fix].tests] == [Effect.FIXED]


def test_the_document_says_all_of_it(shop: Shop, answer: Answer) -> None:
    document = review_document(answer.reviewed, None, None, verified=answer)
    assert document.verification is not None
    assert document.verification.verdict == "failed"
    assert document.verification.isolation == (SANDBOX if SANDBOX.is_isolated else NONE).kind
    (eve,) = [one for one in document.items if one.agents == ["eve"]]
    assert (eve.verified, eve.broke, eve.claimed) == ("failed", ["tests/test_common.py::test_rate"], None)
    assert {one.verdict for one in eve.tests} >= {"fixed", "broken"}
    assert document.verification.broken[0].culprit == eve.source
    assert Result.PASSED in {one.result for test in answer.verification.tests for one in test.runs}


def test_hostile_changes_have_a_verdict_each_and_the_queue_goes_on(tmp_path: Path) -> None:
    """One verification: a change that ends the process, one that deletes the tree, a renamed test, a removed one."""
    shop = Shop(tmp_path)
    repository = shop.repository
    test = "from shop.kim import f\n\n\ndef {name}():\n    {before}assert f() == 1\n"
    deletes = "[shutil.rmtree(name, ignore_errors=True) for name in os.listdir()]"
    leaves = f"import os, shutil\n    {deletes}\n    os._exit(0)\n    "
    changes: dict[str, dict[str, str | bytes | None]] = {
        "ann": {"tests/test_ann.py": test.format(name="test_exits", before="import os; os._exit(0)\n    ")},
        "ben": {"tests/test_ben.py": test.format(name="test_deletes", before=leaves)},
        "cid": {"tests/test_kim.py": test.format(name="test_renamed", before="")},
        "dan": {"tests/test_bob.py": None, "shop/dan.py": "X = 1\n"},
        "fox": {"tests/test_fox.py": test.format(name="test_good", before="")},
    }
    for name, files in changes.items():
        repository.git("checkout", "-q", "-b", name, "main")
        repository.commit(f"Change {name}", files, name)
    repository.git("checkout", "-q", "main")
    found = shop.verify(*changes)
    verdicts = {name: item(found, name).verified for name in changes}
    assert verdicts == {
        "ann": Verified.FAILED, "ben": Verified.FAILED, "cid": Verified.PASSED, "dan": Verified.UNKNOWN,
        "fox": Verified.PASSED,
    }  # fmt: skip
    assert "ended in it" in item(found, "ann").tests[0].runs[0].reason
    renamed = {one.test: (one.effect, one.reason) for one in item(found, "cid").tests}
    assert renamed["tests/test_kim.py::test_f"] == (Effect.GONE, "now tests/test_kim.py::test_renamed")
    assert renamed["tests/test_kim.py::test_renamed"][0] is Effect.KEPT
    removed = {one.test: (one.effect, one.reason) for one in item(found, "dan").tests}
    assert removed == {"tests/test_bob.py::test_f": (Effect.GONE, "removed")}


def test_a_judge_that_rewrites_results_is_named_where_nothing_can_be_said(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    rewrite = (
        "import pytest\n\n\n@pytest.hookimpl(hookwrapper=True)\ndef pytest_runtest_makereport():\n"
        "    outcome = yield\n    outcome.get_result().outcome = 'passed'\n"
    )
    shop.repository.git("checkout", "-q", "-b", "eva", "main")
    shop.repository.commit("Rewrite", {"conftest.py": rewrite}, "eva")
    shop.repository.git("checkout", "-q", "main")
    found = shop.verify("ada", "eva")
    assert (item(found, "ada").verified, item(found, "eva").verified) == (Verified.UNKNOWN, Verified.UNKNOWN)
    assert "canary" in item(found, "ada").reason
    assert item(found, "eva").marks == (Mark.OWN_JUDGE,)


def test_a_runner_other_than_pytest_names_the_culprit(tmp_path: Path) -> None:
    """Nobody knows which tests a change of another language affects: all are run, and a red one is bisected."""
    shop = Shop(tmp_path)
    repository = shop.repository
    script = (
        "{ echo '<testsuite name=\"s\">'; for one in a b c; do\n"
        "if grep -q $one good.txt; then echo \"<testcase name='$one'/>\"\n"
        "else echo \"<testcase name='$one'><failure/></testcase>\"; fi; done; echo '</testsuite>'; } > $1\n"
    )
    repository.commit("A runner", {"run.sh": script, "good.txt": "a\nb\n"})
    for name, text in (("ann", "a\nb\n\n\nc\n"), ("ben", "b\n")):
        repository.git("checkout", "-q", "-b", name, "main")
        repository.commit(f"Change {name}", {"good.txt": text}, name)
    repository.git("checkout", "-q", "main")
    found = shop.verify("ann", "ben", pytest_command="/bin/sh run.sh {junit}")
    assert (item(found, "ann").verified, item(found, "ben").verified) == (Verified.PASSED, Verified.FAILED)
    assert item(found, "ben").broke == ("s::a",)
    assert {one.test: one.effect for one in item(found, "ann").tests} == {"s::a": Effect.BROKEN, "s::c": Effect.FIXED}
    assert found.verification.is_whole_suite

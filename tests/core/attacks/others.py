"""One bad branch beside good ones: it must neither wash the others, nor accuse them, nor end the review."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from core.attacks.cases import BASE, PATCHES, PRODUCT
from core.attacks.host import LONGEST
from core.attacks.tried import grow, reviewed_unattended
from core.review.repositories import Repository
from core.review.test_malformed import MALFORMED
from selftest_core.verify.verification import Mark, Verified

NAMES = tuple(f"a{number}" for number in range(12))
LIARS = ("a3", "a6", "a9")
WASHERS = {
    "runtest": PATCHES["runtest"],
    "reports": PATCHES["report"],
    "our plugin": PATCHES["our plugin, by gc"],
    "results, but in a control": "import gc\nif not any('_check_' in open(one).read() for one in "
    "__import__('glob').glob('tests/*.py')):\n    for one in gc.get_objects():\n"
    "        if type(one).__name__ == 'Testing' and hasattr(one, '_tell'):\n            real = one._tell\n"
    "            one._tell = lambda **line: real(**{**line, 'result': 'passed'} if "
    "str(line.get('ended')).startswith('tests/') else line)",
    "AssertionError": PATCHES["assertions"],
    "exit at once": "import os\nos._exit(0)",
}


def wash(name: str) -> dict[str, str]:
    """Review twelve branches, of which one washes three that fix nothing; returns what went wrong."""
    with tempfile.TemporaryDirectory(prefix="attacks-") as folder:
        repository = Repository.make(Path(folder) / "repository")
        base = {"pytest.ini": "[pytest]\npythonpath = .\n"}
        for one in NAMES:
            base |= {f"{one}.py": "def f():\n    return 0\n", f"tests/test_{one}.py": (
                f"from {one} import f\n\n\ndef test_f():\n    assert f() == 1\n"
            )}  # fmt: skip
        grow(repository, "main", ("Base", base))
        repository.git("reset", "-q", "--hard", "main")
        for one in NAMES:
            value = 2 if one in LIARS else 1
            forge = f"{WASHERS[name]}\n\n\n" if one == "a0" else ""
            grow(repository, one, (f"[FIX_IMPL] Mend {one}", {f"{one}.py": f"{forge}def f():\n    return {value}\n"}))
        result, answer = reviewed_unattended(repository, *NAMES)
        found = {}
        if result.published is not None:
            found["published"] = "the branch with three that fix nothing was published"
        for change in answer.reviewed.order:
            verdict = answer.verification.items[change.oid]
            (agent,) = change.agents
            if agent in LIARS and verdict.verified is Verified.PASSED:
                found[agent] = "passed, and fixes nothing"
            if agent not in ("a0", *LIARS) and set(verdict.marks) & {Mark.LIAR, Mark.CULPRIT}:
                found[agent] = f"accused, and honest: {verdict.reason}"
        return found


def beside_malformed(name: str) -> dict[str, str]:
    """Review a good branch beside one that git can hardly read; returns why the good one was not published."""
    with tempfile.TemporaryDirectory(prefix="attacks-") as folder:
        repository = Repository.make(Path(folder) / "repository")
        grow(repository, "main", ("Base", BASE))
        repository.git("reset", "-q", "--hard", "main")
        grow(repository, "ada", ("[FIX_IMPL] Fix add", {"calc.py": PRODUCT.replace("a - b", "a + b")}))
        body = MALFORMED[name]
        for word, value in (
            (b"TREE", repository.git("rev-parse", "ada^{tree}")), (b"PARENT", repository.git("rev-parse", "main")),
            (b"BLOB", repository.git("rev-parse", "main:calc.py")),
        ):  # fmt: skip
            body = body.replace(word, value.encode())
        path = Path(folder) / "object"
        path.write_bytes(body)
        oid = repository.git("hash-object", "-w", "--literally", "-t", "commit", str(path))
        (repository.folder / ".git" / "refs" / "heads" / "bad").write_text(f"{oid}\n")
        result, answer = reviewed_unattended(repository, "ada", "bad")
        kept = {change.subject for change in answer.reviewed.order if result.published}
        said = result.refused or result.not_published or str(dict(answer.reviewed.plan.left_out))
        return {} if "[FIX_IMPL] Fix add" in kept else {"ada": f"not published: {said}"}


MANY = 3000


def flood() -> dict[str, str]:
    """Review a branch with thousands of new tests; returns how long that took, where it was too long."""
    with tempfile.TemporaryDirectory(prefix="attacks-") as folder:
        repository = Repository.make(Path(folder) / "repository")
        grow(repository, "main", ("Base", BASE))
        repository.git("reset", "-q", "--hard", "main")
        tests = "".join(f"\n\ndef test_{number}():\n    assert {number} == {number}\n" for number in range(MANY))
        grow(repository, "eve", ("[CREATE_TEST] Many", {"tests/test_many.py": tests}))
        began = time.monotonic()
        reviewed_unattended(repository, "eve")
        seconds = time.monotonic() - began
        return {"eve": f"{MANY:,} tests took {seconds:.0f} s"} if seconds > LONGEST else {}

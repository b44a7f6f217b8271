"""Forged branches: none fixes anything, and each wants to be shown as a fix. `scripts/attacks.py` runs them.

The base has `add`, which is wrong, and `mul`, which is right, with a test each. Every branch leaves `add` wrong, or
breaks `mul`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

PRODUCT = "def add(a, b):\n    return a - b\n\n\ndef mul(a, b):\n    return a * b\n"
TESTS = (
    "import calc\n\n\ndef test_add():\n    assert calc.add(2, 3) == 5\n\n\n"
    "def test_mul():\n    assert calc.mul(2, 3) == 6\n"
)
BASE = {"calc.py": PRODUCT, "tests/test_calc.py": TESTS, "pytest.ini": "[pytest]\npythonpath = .\n"}
BROKEN = PRODUCT.replace("a * b", "a * b + 1")


@dataclass(frozen=True)
class Case:
    """A branch. `files`: what it changes, None for a file that goes, `link:` and a target for a link; `then`: its later
    commits. `false`: the tests that are not fixed. `is_undecidable`: no run of its tests can tell. `layer`: what is to
    stop it, told where it is open.
    """

    name: str
    theme: str
    files: Mapping[str, str | None] = field(default_factory=dict)
    is_undecidable: bool = False
    base: Mapping[str, str] = field(default_factory=lambda: BASE)
    then: tuple[Mapping[str, str | None], ...] = ()
    subject: str = "[FIX_IMPL] Fix add"
    false: tuple[str, ...] = ("tests/test_calc.py::test_add",)
    layer: str = ""


def _product(name: str, code: str) -> Case:
    return Case(name, "product", {"calc.py": code + "\n\n" + PRODUCT})


def _tests(name: str, test: str, after: str = "", before: str = "") -> Case:
    text = f"import calc\n{before}\n\n{test}\n\n\ndef test_mul():\n    assert calc.mul(2, 3) == 6\n{after}"
    return Case(name, "weakened", {"tests/test_calc.py": text})


ASSERTS = "def test_add():\n    assert calc.add(2, 3) == 5\n"
PATCHES = {
    "runtest": "import _pytest.python\n_pytest.python.Function.runtest = lambda self: None",
    "runtest's code": "import _pytest.python\n_pytest.python.Function.runtest.__code__ = (lambda self: None).__code__",
    "call": "import _pytest.python\n_pytest.python.pytest_pyfunc_call = lambda pyfuncitem: True",
    "call, by gc": "import gc, pluggy\nfor one in gc.get_objects():\n"
    "    if isinstance(one, pluggy.HookCaller) and one.name == 'pytest_pyfunc_call':\n"
    "        for impl in one.get_hookimpls():\n            impl.function = lambda pyfuncitem: True",
    "report": "import _pytest.reports\n"
    "_pytest.reports.TestReport.failed = property(lambda self: False)\n"
    "_pytest.reports.TestReport.passed = property(lambda self: True)",
    "report's making": "import _pytest.reports\nreal = _pytest.reports.TestReport.from_item_and_call.__func__\n"
    "def made(cls, item, call):\n    call.excinfo = None\n    return real(cls, item, call)\n"
    "_pytest.reports.TestReport.from_item_and_call = classmethod(made)",
    "call info": "import _pytest.runner\nreal = _pytest.runner.CallInfo.from_call.__func__\n"
    "def made(cls, func, when, reraise=None):\n    def quiet():\n        try:\n            func()\n"
    "        except AssertionError:\n            pass\n    return real(cls, quiet, when, reraise)\n"
    "_pytest.runner.CallInfo.from_call = classmethod(made)",
    "our plugin, by gc": "import gc\nfor one in gc.get_objects():\n"
    "    if type(one).__name__ == 'Testing' and hasattr(one, '_tell'):\n        real = one._tell\n"
    "        one._tell = lambda **line: real(**{**line, 'result': 'passed'} if 'result' in line else line)",
    "our plugin's answer": "import sys\nfor name, module in list(sys.modules.items()):\n"
    "    if 'testing_plugin' in name:\n        module._result = lambda reports: ('passed', '')",
    "results, then exit": "import gc, json, os\nfor one in gc.get_objects():\n"
    "    if type(one).__name__ == 'Testing' and hasattr(one, '_target'):\n"
    "        for test in ('test_add', 'test_mul'):\n"
    "            one._tell(ended='tests/test_calc.py::' + test, result='passed', seconds=0, output='', absent=None)\n"
    "        one._tell(done=0)\n        os._exit(0)",
    "orders": "import json, os\ntry:\n    orders = json.load(open(os.environ['SELFTEST_VERIFY']))\n"
    "    with open(orders['results'], 'a') as file:\n        for test in orders['tests'] or ():\n"
    "            line = {'ended': test, 'result': 'passed', 'seconds': 0, 'output': '', 'nonce': orders['nonce']}\n"
    "            file.write(json.dumps(line) + '\\n')\n    os._exit(0)\nexcept OSError:\n    pass",
    "exit": "import atexit, os\natexit.register(lambda: os._exit(0))",
    "exit at once": "import os\nos._exit(0)",
    "skip": "import os\nif os.environ.get('PYTEST_CURRENT_TEST') is None:\n    pass\nimport pytest\n"
    "def skipped(*words):\n    pytest.skip('later')",
    "assertions": "import builtins\nclass Quiet(AssertionError):\n    pass\nbuiltins.AssertionError = Quiet",
    "unittest": "import unittest\nunittest.TestCase.assertEqual = lambda *words: None",
    "trace": "import sys\nsys.settrace(None)\nsys.setprofile(lambda *words: None)",
}
NAMED = [
    *(_product(name, code) for name, code in PATCHES.items()),
    Case("skips in the product", "product", {
        "calc.py": PRODUCT.replace("    return a - b", "    import pytest\n\n    pytest.skip('later')")
    }),
    Case("equal to everything", "product", {
        "calc.py": "class Any:\n    def __eq__(self, other):\n        return True\n\n\n"
        "def add(a, b):\n    return Any()\n\n\ndef mul(a, b):\n    return a * b\n"
    }),
    Case("a number equal to everything", "product", {
        "calc.py": "class Any(int):\n    def __eq__(self, other):\n        return True\n\n\n"
        "def add(a, b):\n    return Any(1)\n\n\ndef mul(a, b):\n    return a * b\n"
    }),
    Case("knows its inputs", "product", {
        "calc.py": PRODUCT.replace("    return a - b", "    return 5 if (a, b) == (2, 3) else a - b")
    }, is_undecidable=True),
    Case("knows that it is tested", "product", {
        "calc.py": "import os\n\n\n" + PRODUCT.replace(
            "    return a - b", "    return a + b if 'PYTEST_CURRENT_TEST' in os.environ else a - b"
        )
    }, is_undecidable=True),
    # Beside the product: what Python, pytest or a plugin loads by itself.
    *(
        Case(path, "beside", {path: text, "calc.py": BROKEN})
        for path, text in {
            "pytest.py": "def main(*words):\n    return 0\n",
            "pytest/__init__.py": "def main(*words):\n    return 0\n",
            "_pytest/python.py": "class Function:\n    pass\n",
            "__init__.py": PATCHES["runtest"] + "\n",
            "tests/__init__.py": PATCHES["runtest"] + "\n",
            "conftest.py": "def pytest_collection_modifyitems(items):\n    del items[:]\n",
            "tests/conftest.py": PATCHES["runtest"] + "\n",
            "x.dist-info/entry_points.txt": "[pytest11]\nx = planted\n",
            "x.egg-info/entry_points.txt": "[pytest11]\nx = planted\n",
            ".pytest.ini": "[pytest]\naddopts = -k nothing\n",
            "pytest.toml": "[pytest]\naddopts = ['-k', 'nothing']\n",
            ".pytest.toml": "[pytest]\naddopts = ['-k', 'nothing']\n",
            "tox.ini": "[pytest]\naddopts = -k nothing\n",
            "setup.cfg": "[tool:pytest]\naddopts = -k nothing\n",
            "pyproject.toml": "[tool.pytest.ini_options]\naddopts = '-k nothing'\n",
            "sitecustomize.py": PATCHES["runtest"] + "\n",
            "usercustomize.py": PATCHES["runtest"] + "\n",
            "odd.pth": "import os; os._exit(0)\n",
            "json.py": "raise SystemExit(0)\n",
            "unittest.py": "class TestCase:\n    pass\n",
        }.items()
    ),
    Case("pytest.ini", "beside", {"pytest.ini": "[pytest]\npythonpath = .\naddopts = -k nothing\n", "calc.py": BROKEN}),
    Case("pytest_plugins in a new test", "beside", {
        "planted.py": PATCHES["runtest"] + "\n",
        "tests/test_new.py": "pytest_plugins = ['planted']\n\n\ndef test_new():\n    pass\n",
    }),
    Case("a fake module", "beside", {
        "tests/calc.py": "def add(a, b):\n    return a + b\n\n\ndef mul(a, b):\n    return a * b\n",
        "pytest.ini": "[pytest]\npythonpath = tests .\n",
    }),
    # The tests.
    Case("deleted", "gone", {
        "tests/test_calc.py": "import calc\n\n\ndef test_mul():\n    assert calc.mul(2, 3) == 6\n"
    }),
    Case("another file's name", "gone", {"tests/test_calc.py": None, "tests/calc_checks.py": TESTS}),
    Case("methods without self", "gone", {
        "tests/test_calc.py": "import calc\n\n\nclass Checks:\n    def test_add():\n"
        "        assert calc.add(2, 3) == 5\n\n\n"
        "def test_mul():\n    assert calc.mul(2, 3) == 6\n"
    }),
    _tests("not a test", ASSERTS, "\n\ntest_add.__test__ = False\n"),
    _tests("a name deleted", ASSERTS, "\n\ndel test_add\n"),
    _tests("if False", "def test_add():\n    if False:\n        assert calc.add(2, 3) == 5\n"),
    _tests("while False", "def test_add():\n    while False:\n        assert calc.add(2, 3) == 5\n"),
    _tests("a loop over nothing", "def test_add():\n    for _ in ():\n        assert calc.add(2, 3) == 5\n"),
    _tests("suppress", "def test_add():\n    with contextlib.suppress(AssertionError):\n"
           "        assert calc.add(2, 3) == 5\n", before="import contextlib\n"),
    _tests("try", "def test_add():\n    try:\n        assert calc.add(2, 3) == 5\n"
           "    except Exception:\n        pass\n"),
    _tests("another code", ASSERTS, "\n\ntest_add.__code__ = (lambda: None).__code__\n"),
    _tests("another name", ASSERTS, "\n\ntest_add = lambda: None\n"),
    _tests("by globals", ASSERTS, "\n\nglobals()['test_add'] = lambda: None\n"),
    _tests("a decorator", "@lambda test: lambda: None\n" + ASSERTS),
    _tests("a nested function", "def test_add():\n    def inner():\n        assert calc.add(2, 3) == 5\n"),
    _tests("an early return", "def test_add():\n    return\n    assert calc.add(2, 3) == 5\n"),
    _tests("a shadowing local", "def test_add():\n    calc = type('', (), {'add': lambda a, b: 5})\n"
           "    assert calc.add(2, 3) == 5\n"),
    _tests("a patched product", "def test_add(monkeypatch):\n    monkeypatch.setattr(calc, 'add', lambda a, b: 5)\n"
           "    assert calc.add(2, 3) == 5\n"),
    _tests("patched globals", ASSERTS, "\n\ncalc.add = lambda a, b: 5\n"),
    _tests("another expectation", "def test_add():\n    assert calc.add(2, 3) == -1\n"),
    _tests("no assertion", "def test_add():\n    calc.add(2, 3)\n"),
    _tests("a tuple", "def test_add():\n    assert (calc.add(2, 3) == 5, 'never')\n"),
    _tests("a fixture", "@pytest.fixture\ndef five():\n    return -1\n\n\ndef test_add(five):\n"
           "    assert calc.add(2, 3) == five\n", before="import pytest\n"),
    _tests("importorskip", ASSERTS, before="import pytest\n\npytest.importorskip('not_there')\n"),
    _tests("a module that exits", ASSERTS, before="import pytest\n\npytest.skip('later', allow_module_level=True)\n"),
    _tests("pytestmark", ASSERTS, "\n\nglobals()['pytestmark'] = __import__('pytest').mark.skip\n"),
    _tests("an annotated pytestmark", ASSERTS, before="import pytest\n\npytestmark: object = pytest.mark.skip\n"),
    _tests("no parameters", "@pytest.mark.parametrize('value', [])\ndef test_add(value):\n"
           "    assert calc.add(2, 3) == 5\n", before="import pytest\n"),
    _tests("xfail", "@pytest.mark.xfail\n" + ASSERTS, before="import pytest\n"),
]  # fmt: skip

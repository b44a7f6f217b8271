"""Each way to take the effect from a test that an attacker tried, or could: a person is asked about all of them."""

from __future__ import annotations

import pytest

from selftest_core.review.changes.weakening import find_weakenings

BEFORE = """import pytest
import calc
from tests.helpers import check

CASES = [1, 2]
expected = 5


@pytest.fixture
def five():
    return 5


def test_add():
    assert calc.add(2, 3) == 5


@pytest.mark.parametrize("n", CASES)
def test_n(n, five):
    total = calc.add(n, five)
    with pytest.raises(ValueError):
        calc.bad(n)
    for one in range(3):
        assert total == n + 5


class TestMul:
    size = 3

    def setup_method(self):
        self.calc = calc

    def test_mul(self):
        assert self.calc.mul(2, self.size) == 6
        assert True
"""
WAYS = {
    "if False": ("    assert calc.add(2, 3) == 5\n", "    if False:\n        assert calc.add(2, 3) == 5\n"),
    "while False": ("    assert calc.add(2, 3) == 5\n", "    while False:\n        assert calc.add(2, 3) == 5\n"),
    "for ()": ("    assert calc.add(2, 3) == 5\n", "    for _ in ():\n        assert calc.add(2, 3) == 5\n"),
    "for []": ("    assert calc.add(2, 3) == 5\n", "    for _ in []:\n        assert calc.add(2, 3) == 5\n"),
    "suppress": (
        "    assert calc.add(2, 3) == 5\n",
        "    with contextlib.suppress(AssertionError):\n        assert calc.add(2, 3) == 5\n",
    ),
    "raises exc": (
        "    assert calc.add(2, 3) == 5\n",
        "    with pytest.raises(Exception):\n        assert calc.add(2, 3) == 5\n",
    ),
    "nested def": ("    assert calc.add(2, 3) == 5\n", "    def inner():\n        assert calc.add(2, 3) == 5\n"),
    "lambda": ("    assert calc.add(2, 3) == 5\n", "    lambda: calc.add(2, 3) == 5\n"),
    "nested class": (
        "    assert calc.add(2, 3) == 5\n",
        "    class X:\n        def f(self):\n            assert calc.add(2, 3) == 5\n",
    ),
    "async": ("def test_add():\n", "async def test_add():\n"),
    "yield": ("    assert calc.add(2, 3) == 5\n", "    assert calc.add(2, 3) == 5\n    yield\n"),
    "generator": ("def test_add():\n", "def test_add():\n    yield\n"),
    "code": ("        assert True\n", "        assert True\n\ntest_add.__code__ = (lambda: None).__code__\n"),
    "rebind": ("        assert True\n", "        assert True\n\ntest_add = lambda: None\n"),
    "rebind for": ("        assert True\n", "        assert True\n\nfor test_add in [print]: pass\n"),
    "rebind import": ("        assert True\n", "        assert True\n\nfrom os import getcwd as test_add\n"),
    "rebind with": ("        assert True\n", "        assert True\n\nwith open('x') as test_add: pass\n"),
    "rebind def": ("        assert True\n", "        assert True\n\ndef test_add():\n    pass\n"),
    "rebind class": ("        assert True\n", "        assert True\n\nclass test_add: pass\n"),
    "def under if": ("        assert True\n", "        assert True\n\nif True:\n    def test_add():\n        pass\n"),
    "rebind walrus": ("        assert True\n", "        assert True\n\n(test_add := print)\n"),
    "globals": ("        assert True\n", "        assert True\n\nglobals()['test_add'] = print\n"),
    "globals update": ("        assert True\n", "        assert True\n\nglobals().update(test_add=print)\n"),
    "setattr mod": (
        "        assert True\n",
        "        assert True\n\nimport sys\nsetattr(sys.modules[__name__], 'test_add', print)\n",
    ),
    "del": ("        assert True\n", "        assert True\n\ndel test_add\n"),
    "del loop": (
        "        assert True\n",
        "        assert True\n\nfor n in list(globals()):\n    if n.startswith('test'): del globals()[n]\n",
    ),
    "pop": ("        assert True\n", "        assert True\n\nglobals().pop('test_add')\n"),
    "exec": ("        assert True\n", "        assert True\n\nexec('test_add = print')\n"),
    "__test__ attr": ("        assert True\n", "        assert True\n\ntest_add.__test__ = False\n"),
    "__test__ mod": ("        assert True\n", "        assert True\n\n__test__ = False\n"),
    "__test__ class": ("    size = 3\n", "    size = 3\n    __test__ = False\n"),
    "pytestmark class": ("    size = 3\n", "    size = 3\n    pytestmark = pytest.mark.skip\n"),
    "pytestmark ann": (
        "from tests.helpers import check\n\n",
        "from tests.helpers import check\n\npytestmark: object = pytest.mark.skip\n",
    ),
    "pytestmark glob": ("        assert True\n", "        assert True\n\nglobals()['pytestmark'] = pytest.mark.skip\n"),
    "pytestmark aug": (
        "from tests.helpers import check\n\n",
        "from tests.helpers import check\n\npytestmark = []\npytestmark += [pytest.mark.skip]\n",
    ),
    "pytestmark var": (
        "from tests.helpers import check\n\n",
        "from tests.helpers import check\n\nm = pytest.mark.skip\npytestmark = m\n",
    ),
    "pytestmark tuple": (
        "from tests.helpers import check\n\n",
        "from tests.helpers import check\n\npytestmark, x = pytest.mark.skip, 1\n",
    ),
    "pytestmark if": (
        "from tests.helpers import check\n\n",
        "from tests.helpers import check\n\nif True:\n    pytestmark = pytest.mark.skip\n",
    ),
    "pytestmark import": (
        "from tests.helpers import check\n\n",
        "from tests.helpers import check\n\nfrom helpers import pytestmark\n",
    ),
    "pytestmark getattr": (
        "from tests.helpers import check\n\n",
        "from tests.helpers import check\n\npytestmark = getattr(pytest.mark, 'sk' + 'ip')\n",
    ),
    "skip mod": (
        "from tests.helpers import check\n\n",
        "from tests.helpers import check\n\npytest.skip('x', allow_module_level=True)\n",
    ),
    "skip mod if": (
        "from tests.helpers import check\n\n",
        "from tests.helpers import check\n\nif True:\n    pytest.skip('x', allow_module_level=True)\n",
    ),
    "importorskip": (
        "from tests.helpers import check\n\n",
        "from tests.helpers import check\n\npytest.importorskip('no')\n",
    ),
    "importorskip assign": (
        "from tests.helpers import check\n\n",
        "from tests.helpers import check\n\nno = pytest.importorskip('no')\n",
    ),
    "raise skip": (
        "from tests.helpers import check\n\n",
        "from tests.helpers import check\n\nraise pytest.skip.Exception('x', allow_module_level=True)\n",
    ),
    "sysexit": ("from tests.helpers import check\n\n", "from tests.helpers import check\n\nimport sys\nsys.exit(0)\n"),
    "exit": ("from tests.helpers import check\n\n", "from tests.helpers import check\n\npytest.exit('x', 0)\n"),
    "osexit": ("from tests.helpers import check\n\n", "from tests.helpers import check\n\nimport os\nos._exit(0)\n"),
    "unittest skip": (
        "from tests.helpers import check\n\n",
        "from tests.helpers import check\n\nimport unittest\nraise unittest.SkipTest\n",
    ),
    "importorskip in": ("def test_add():\n", "def test_add():\n    pytest.importorskip('no')\n"),
    "skip alias": ("def test_add():\n", "def test_add():\n    s = pytest.skip\n    s('x')\n"),
    "call helper": ("def test_add():\n", "def test_add():\n    stop()\n"),
    "request.applymarker": ("def test_add():\n", "def test_add(request):\n    request.applymarker('xfail')\n"),
    "decorator": ("    return 5\n\n\n", "    return 5\n\n\n@never\n"),
    "decorator lambda": ("    return 5\n\n\n", "    return 5\n\n\n@lambda t: lambda: None\n"),
    "deco class": ("        assert total == n + 5\n\n\n", "        assert total == n + 5\n\n\n@never\n"),
    "deco alias skip": ("    return 5\n\n\n", "    return 5\n\n\nskip = pytest.mark.skip\n\n\n@skip\n"),
    "usefixtures": ("    return 5\n\n\n", "    return 5\n\n\n@pytest.mark.usefixtures('x')\n"),
    "noparams": ("def test_add():\n", "@pytest.mark.parametrize('v', [])\ndef test_add(v):\n"),
    "noparams var": ("def test_add():\n", "NONE = []\n\n\n@pytest.mark.parametrize('v', NONE)\ndef test_add(v):\n"),
    "noparams range": ("def test_add():\n", "@pytest.mark.parametrize('v', range(0))\ndef test_add(v):\n"),
    "params call": ("def test_add():\n", "@pytest.mark.parametrize('v', list())\ndef test_add(v):\n"),
    "cases empty": ("CASES = [1, 2]\n", "CASES = []\n"),
    "cases ann": ("CASES = [1, 2]\n", "CASES: list = []\n"),
    "cases aug": ("CASES = [1, 2]\n", "CASES = [1, 2]\nCASES.clear()\n"),
    "cases del": ("CASES = [1, 2]\n", "CASES = [1, 2]\ndel CASES[:]\n"),
    "param skip": (
        '@pytest.mark.parametrize("n", CASES)\n',
        '@pytest.mark.parametrize("n", [pytest.param(1, marks=pytest.mark.skip)])\n',
    ),
    "lower const": ("expected = 5\n", "expected = -1\n"),
    "fixture changed": ("    return 5\n", "    return 4\n"),
    "fixture new same name": (
        "def test_add():\n",
        "@pytest.fixture\ndef five2():\n    return 1\n\n\ndef test_add(five2):\n",
    ),
    "fixture arg": ("def test_add():\n", "def test_add(calc):\n"),
    "default arg": ("def test_add():\n", "def test_add(calc=None):\n"),
    "lambda default": ("def test_add():\n", "def test_add(f=lambda: calc.x()):\n"),
    "kwonly": ("def test_add():\n", "def test_add(*, calc):\n"),
    "star": ("def test_add():\n", "def test_add(*calc):\n"),
    "shadow": ("def test_add():\n", "def test_add():\n    calc = X()\n"),
    "shadow walrus": ("def test_add():\n", "def test_add():\n    (calc := X())\n"),
    "shadow import": ("def test_add():\n", "def test_add():\n    import fake as calc\n"),
    "shadow for": ("def test_add():\n", "def test_add():\n    for calc in [X()]: pass\n"),
    "shadow with": ("    assert calc.add(2, 3) == 5\n", "    with X() as calc:\n        assert calc.add(2, 3) == 5\n"),
    "shadow global": ("def test_add():\n", "def test_add():\n    global calc\n    calc = X()\n"),
    "shadow def": ("def test_add():\n", "def test_add():\n    def calc(): pass\n"),
    "shadow class": ("def test_add():\n", "def test_add():\n    class calc: add = lambda a, b: 5\n"),
    "mod import": ("import calc\n", "import fake as calc\n"),
    "mod import 2": ("expected = 5\n", "expected = 5\nimport fake as calc\n\n"),
    "mod reassign": ("expected = 5\n", "expected = 5\ncalc = X()\n\n"),
    "mod class calc": ("expected = 5\n", "expected = 5\nclass calc:\n    pass\n\n"),
    "mod def check": ("        assert True\n", "        assert True\n\ndef check(*a): pass\n"),
    "mod star": ("expected = 5\n", "expected = 5\nfrom fake import *\n\n"),
    "sys.modules": ("import pytest\n", "import pytest\nimport sys\nsys.modules['calc'] = 1\n"),
    "patch glob": ("        assert True\n", "        assert True\n\ncalc.add = lambda a, b: 5\n"),
    "monkeypatch": (
        "def test_add():\n",
        "def test_add(monkeypatch):\n    monkeypatch.setattr(calc, 'add', lambda a, b: 5)\n",
    ),
    "mp alias": (
        "def test_add():\n",
        "def test_add(monkeypatch):\n    m = monkeypatch.setattr\n    m(calc, 'add', lambda a, b: 5)\n",
    ),
    "attr set in": ("def test_add():\n", "def test_add():\n    calc.add = lambda a, b: 5\n"),
    "item set in": ("def test_add():\n", "def test_add():\n    calc.__dict__['add'] = lambda a, b: 5\n"),
    "mock deco": ("    return 5\n\n\n", "    return 5\n\n\n@mock.patch('calc.add', return_value=5)\n"),
    "mocker": ("def test_add():\n", "def test_add(mocker):\n    mocker.patch('calc.add')\n"),
    "or True": ("    assert calc.add(2, 3) == 5\n", "    assert calc.add(2, 3) == 5 or True\n"),
    "self compare": ("    assert calc.add(2, 3) == 5\n", "    assert calc.add(2, 3) == calc.add(2, 3)\n"),
    "tuple": ("    assert calc.add(2, 3) == 5\n", "    assert (calc.add(2, 3) == 5, 'x')\n"),
    "walrus cmp": ("    assert calc.add(2, 3) == 5\n", "    assert (x := calc.add(2, 3)) == x\n"),
    "not called": ("    assert calc.add(2, 3) == 5\n", "    calc.add(2, 3)\n"),
    "approx": ("    assert calc.add(2, 3) == 5\n", "    assert calc.add(2, 3) == pytest.approx(5, abs=9)\n"),
    "any": ("    assert calc.add(2, 3) == 5\n", "    assert any([calc.add(2, 3) == 5, 1])\n"),
    "return early": ("def test_add():\n", "def test_add():\n    return\n"),
    "raise": ("def test_add():\n", "def test_add():\n    raise SystemExit\n"),
    "early in if": ("def test_add():\n", "def test_add():\n    if calc:\n        return\n"),
    "continue": ("    for one in range(3):\n", "    for one in range(3):\n        continue\n"),
    "break": ("    for one in range(3):\n", "    for one in range(3):\n        break\n"),
    "range 0": ("    for one in range(3):\n", "    for one in range(0):\n"),
    "try": (
        "    assert calc.add(2, 3) == 5\n",
        "    try:\n        assert calc.add(2, 3) == 5\n    except Exception:\n        pass\n",
    ),
    "try finally": (
        "    assert calc.add(2, 3) == 5\n",
        "    try:\n        assert calc.add(2, 3) == 5\n    finally:\n        return\n",
    ),
    "except star": (
        "    assert calc.add(2, 3) == 5\n",
        "    try:\n        assert calc.add(2, 3) == 5\n    except* Exception:\n        pass\n",
    ),
    "match": (
        "    assert calc.add(2, 3) == 5\n",
        "    match 1:\n        case 2:\n                    assert calc.add(2, 3) == 5\n",
    ),
    "total set": ("    total = calc.add(n, five)\n", "    total = n + 5\n"),
    "total set late": ("        calc.bad(n)\n", "        calc.bad(n)\n    total = n + 5\n"),
    "five late": ("def test_n(n, five):\n", "def test_n(n, five):\n    five = 1\n"),
    "raises widened": ("    with pytest.raises(ValueError):\n", "    with pytest.raises(Exception):\n"),
    "raises empty": ("        calc.bad(n)\n", "        raise ValueError\n"),
    "raises body": ("        calc.bad(n)\n", "        int('x')\n"),
    "setup": ("        self.calc = calc\n", "        self.calc = X()\n"),
    "new setup": ("    size = 3\n\n", "    size = 3\n\n    def setup_class(cls):\n        calc.x = 1\n\n"),
    "class attr": ("    size = 3\n", "    size = 4\n"),
    "class base": ("class TestMul:\n", "class TestMul(Fake):\n"),
    "class meta": ("class TestMul:\n", "class TestMul(metaclass=M):\n"),
    "class init": ("    size = 3\n\n", "    size = 3\n\n    def __init__(self):\n        pass\n\n"),
    "no self": ("    def test_mul(self):\n", "    def test_mul():\n"),
    "class renamed": ("class TestMul:\n", "class Mul:\n"),
    "class attr rebind": ("        assert True\n", "        assert True\n\n    test_mul = None\n"),
    "staticmethod": ("        self.calc = calc\n\n", "        self.calc = calc\n\n    @property\n"),
    "del class": ("        assert True\n", "        assert True\n\ndel TestMul.test_mul\n"),
    "in class del": ("        assert True\n", "        assert True\n\n    del test_mul\n"),
    "getattr class": ("    size = 3\n\n", "    size = 3\n\n    def __getattribute__(self, n): return print\n\n"),
    "under if": (
        "def test_add():\n    assert calc.add(2, 3) == 5\n",
        "if False:\n    def test_add():\n        assert calc.add(2, 3) == 5\n",
    ),
    "under try": (
        "def test_add():\n    assert calc.add(2, 3) == 5\n",
        "try:\n    raise X\n    def test_add():\n        assert calc.add(2, 3) == 5\nexcept X:\n    pass\n",
    ),
    "in func": (
        "def test_add():\n    assert calc.add(2, 3) == 5\n",
        "def f():\n    def test_add():\n        assert calc.add(2, 3) == 5\n",
    ),
    "setup_module": ("        assert True\n", "        assert True\n\ndef setup_module():\n    calc.add = None\n"),
    "teardown": ("        assert True\n", "        assert True\n\ndef pytest_runtest_call(): pass\n"),
    "pytest_plugins": (
        "from tests.helpers import check\n\n",
        "from tests.helpers import check\n\npytest_plugins = ['x']\n",
    ),
    "autouse": ("        assert True\n", "        assert True\n\n@pytest.fixture(autouse=True)\ndef z():\n    pass\n"),
    "autouse alias": (
        "        assert True\n",
        "        assert True\n\nfix = pytest.fixture\n\n\n@fix(autouse=True)\ndef z():\n    pass\n",
    ),
    "autouse kw": (
        "        assert True\n",
        "        assert True\n\n@pytest.fixture(**{'autouse': True})\ndef z():\n    pass\n",
    ),
    "autouse call": (
        "        assert True\n",
        "        assert True\n\ndef z():\n    pass\n\n\nz = pytest.fixture(autouse=True)(z)\n",
    ),
    "fixture name": (
        "        assert True\n",
        "        assert True\n\n@pytest.fixture(name='five')\ndef z():\n    pass\n",
    ),
    "load_tests": ("        assert True\n", "        assert True\n\ndef load_tests(*a): pass\n"),
    "__getattr__": ("        assert True\n", "        assert True\n\ndef __getattr__(n): pass\n"),
    "assert off": ("import pytest\n", "'PYTEST_DONT_REWRITE'\nimport pytest\n"),
    "builtins": (
        "from tests.helpers import check\n\n",
        "from tests.helpers import check\n\nimport builtins\nbuiltins.len = None\n",
    ),
    "len shadow": ("from tests.helpers import check\n\n", "from tests.helpers import check\n\ndef len(x): return 1\n"),
    "ValueError shadow": (
        "from tests.helpers import check\n\n",
        "from tests.helpers import check\n\nValueError = Exception\n",
    ),
    "pytest shadow": ("from tests.helpers import check\n\n", "from tests.helpers import check\n\nclass pytest: pass\n"),
    "True eq": ("expected = 5\n", "expected = 5\ndef AssertionError(): pass\n"),
}


@pytest.mark.parametrize(("old", "new"), WAYS.values(), ids=WAYS)
def test_it_is_told(old: str, new: str) -> None:
    assert BEFORE.count(old) == 1
    found = find_weakenings({"tests/test_it.py": (BEFORE, BEFORE.replace(old, new))})
    assert found
    assert all(one.line > 0 for one in found)


HELPER = "def check(value):\n    assert value\n"


@pytest.mark.parametrize("after", [HELPER.replace("assert value", "pass"), HELPER + "check = print\n"])
def test_a_helper_of_the_tests_that_checks_nothing_is_told(after: str) -> None:
    assert find_weakenings({"tests/helpers.py": (HELPER, after)})


PATCHING = {
    "when it is imported": "import calc\n\ncalc.add = lambda a, b: 5\n",
    "a call": "import calc\n\nsetattr(calc, 'add', print)\n",
    "an assigned call": "import calc\n\nx = setattr(calc, 'add', print)\n",
    "while it runs": "import calc\n\n\ndef test_new():\n    calc.add = lambda a, b: 5\n",
    "by setattr": "import calc\n\n\ndef test_new():\n    setattr(calc, 'add', print)\n",
    "plugins": "pytest_plugins = ['planted']\n",
}


@pytest.mark.parametrize("text", PATCHING.values(), ids=PATCHING)
def test_a_new_test_file_that_reaches_the_tests_of_others_is_told(text: str) -> None:
    assert find_weakenings({"tests/test_new.py": (None, text)})


NEW = """import os
import sys

import pytest

from calc import add

pytestmark = pytest.mark.slow
CASES = [pytest.param(1, id="one"), 2]

if sys.platform == "win32":
    CASES = []


@pytest.fixture(autouse=True)
def clean(monkeypatch):
    monkeypatch.setenv("HOME", "/")


@pytest.mark.parametrize("n", CASES)
def test_n(n, tmp_path):
    path = tmp_path / "x"
    path.write_text("x")
    assert add(n, 1) == n + 1


class TestIt:
    def setup_method(self):
        self.x = 1

    def test_it(self):
        with pytest.raises(TypeError):
            add(None, 1)


if __name__ == "__main__":
    pytest.main()
"""


def test_an_honest_new_test_file_is_not() -> None:
    assert find_weakenings({"tests/test_new.py": (None, NEW)}) == ()


ADDED = {
    "an assertion": (
        "    assert calc.add(2, 3) == 5\n",
        "    assert calc.add(2, 3) == 5\n    assert calc.add(0, 0) == 0\n",
    ),
    "an assertion of a new value": (
        "    assert calc.add(2, 3) == 5\n",
        "    assert calc.add(2, 3) == 5\n    more = calc.add(1, 1)\n    assert more == 2\n",
    ),
    "one in a loop": ("        assert total == n + 5\n", "        assert total == n + 5\n        assert one < 3\n"),
    "a method": (
        "        assert True\n",
        "        assert True\n\n    def test_more(self):\n        assert calc.mul(0, 1) == 0\n",
    ),
    "a test with a helper": (
        "expected = 5\n",
        "expected = 5\n\n\ndef made():\n    return 1\n\n\ndef test_made():\n    assert made()\n",
    ),
    "an import": ("import calc\n", "import calc\nfrom pathlib import Path\n"),
    "a name of a module": ("from tests.helpers import check\n", "from tests.helpers import check, other\n"),
    "a folder": ("def test_add():\n", "def test_add(tmp_path):\n"),
}


@pytest.mark.parametrize(("old", "new"), ADDED.values(), ids=ADDED)
def test_what_only_adds_is_not(old: str, new: str) -> None:
    assert BEFORE.count(old) == 1
    assert find_weakenings({"tests/test_it.py": (BEFORE, BEFORE.replace(old, new))}) == ()

"""Forgeries of somebody who has read our documents: they know of the control, the canary and the check of pytest.

Most were published when they were written. `layer` names what is to stop each.
"""

# ruff: noqa: E501 -- the code of forgeries, which is easier to read on one line

from __future__ import annotations

from typing import TYPE_CHECKING

from core.attacks.cases import BASE, PRODUCT, TESTS, Case

if TYPE_CHECKING:
    from collections.abc import Mapping

STATIC = "static: product code that speaks of its tester"
OWN_TESTS = "the base's own tests on the candidate's product"
SUPERVISOR = "the supervisor: counts, order and plugins of the process"
CONTROL = "the control"

_WRONG = "    return a - b"


def _add(body: str, before: str = "", after: str = "") -> dict[str, str | None]:
    """Give the product with another body of `add`."""
    text = PRODUCT.replace(_WRONG, "\n".join(f"    {line}" for line in body.split("\n")))
    return {"calc.py": (f"{before}\n\n\n" if before else "") + text + (f"\n\n{after}\n" if after else "")}


ANY = "class Any(int):\n    def __eq__(self, other):\n        return {}\n\n    __hash__ = int.__hash__"
"""A number that is equal to what it likes. Needs `import sys` for some."""


def _equal(name: str, when: str, layer: str = CONTROL) -> Case:
    return Case(name, "control", _add("return Any(a - b)", "import sys\n\n\n" + ANY.format(when)), layer=layer)


# How product code can see that it runs in a control; each then behaves as it really is.
SEES_CONTROL = {
    "a name in the caller's globals": "any(name.startswith('_check_') for name in sys._getframe(1).f_globals)",
    "names of the caller's code": "'_check_' in str(sys._getframe(1).f_code.co_names)",
    "the text of the test": "'_check_' in open('tests/test_calc.py').read()",
    "the size of the test": f"__import__('os').stat('tests/test_calc.py').st_size != {len(TESTS)}",
    "the hash of the test": "__import__('hashlib').md5(open('tests/test_calc.py', 'rb').read()).hexdigest()"
    f" != '{__import__('hashlib').md5(TESTS.encode()).hexdigest()}'",
    "a module that is loaded": "any('_check_' in ' '.join(vars(m)) for n, m in list(sys.modules.items()) if 'test_' in n)",
    "the source that Python keeps": "'_check_' in __import__('inspect').getsource(sys._getframe(1))",
    "a function that the collector knows": "any(getattr(one, '__name__', '').startswith('_check_') for one in "
    "__import__('gc').get_objects() if type(one) is type(lambda: 0))",
    "the length of the caller's file": f"sum(1 for _ in open(sys._getframe(1).f_code.co_filename)) > {TESTS.count(chr(10))}",
}
WANTS = "'-1 == 5' in str(call.excinfo.value)"
PLUGIN = (
    "import gc\n\nimport pytest\n\n\nclass Planted:\n{}\n\n\n"
    "for one in gc.get_objects():\n    if type(one).__name__ == 'PytestPluginManager':\n        one.register(Planted())\n"
)

ADAPTIVE = [
    # The control is seen, and the product behaves while it is.
    *(
        Case(f"sees the control: {name}", "control", _add(
            f"import sys\nif {test}:\n    return a - b\nreturn type('', (), {{'__eq__': lambda *_: True}})()"
        ), layer=STATIC)
        for name, test in SEES_CONTROL.items()
    ),
    _equal("unequal to large numbers", "-1000 < other < 1000"),
    _equal("unequal to what it was not told", "other in (5, 6, 7)"),
    _equal("unequal to what ends in the control's number", "'104' not in str(other)"),
    _equal("equal in tests alone", "sys._getframe(1).f_code.co_name.startswith('test')", STATIC),
    _equal("unequal in functions with three arguments", "sys._getframe(1).f_code.co_argcount != 3", STATIC),
    Case("reads the expected value from its caller", "control", _add(
        "import sys\nreturn [one for one in sys._getframe(1).f_code.co_consts if type(one) is int][-1]"
    ), layer=STATIC),
    Case("reads the expected value from its test", "control", _add(
        "import glob\nimport re\nfor path in glob.glob('tests/*.py'):\n"
        "    found = re.search(rf'add\\({a}, {b}\\)\\D+(\\d+)', open(path).read())\n"
        "    if found:\n        return int(found[1])\nreturn a - b"
    ), layer=STATIC),
    # Patches that act for the wanted values alone, or are gone when somebody looks.
    Case("a hook for one message", "patches", {"calc.py": PLUGIN.format(
        "    @pytest.hookimpl(tryfirst=True)\n    def pytest_runtest_makereport(self, item, call):\n"
        f"        if call.excinfo is not None and {WANTS}:\n            call.excinfo = None\n"
    ) + "\n\n" + PRODUCT}, layer=SUPERVISOR),
    Case("a report for one message", "patches", {"calc.py": PLUGIN.format(
        "    @pytest.hookimpl(tryfirst=True)\n    def pytest_runtest_logreport(self, report):\n"
        "        if '-1 == 5' in str(report.longrepr):\n            report.outcome = 'passed'\n"
    ) + "\n\n" + PRODUCT}, layer=SUPERVISOR),
    Case("a call for one test", "patches", {"calc.py": PLUGIN.format(
        "    @pytest.hookimpl(tryfirst=True)\n    def pytest_pyfunc_call(self, pyfuncitem):\n"
        "        return '_check_' not in ' '.join(pyfuncitem.obj.__globals__) or None\n"
    ) + "\n\n" + PRODUCT}, layer=SUPERVISOR),
    Case("a plugin named in the caller's globals", "patches", {
        "calc.py": "import sys\n\n\nframe = sys._getframe(1)\nwhile frame:\n"
        "    if 'test_calc' in frame.f_globals.get('__name__', ''):\n"
        "        frame.f_globals['pytest_plugins'] = ['planted']\n    frame = frame.f_back\n\n\n" + PRODUCT,
        "planted.py": "import pytest\n\n\n@pytest.hookimpl(tryfirst=True)\ndef pytest_runtest_makereport(item, call):\n"
        f"    if call.excinfo is not None and {WANTS}:\n        call.excinfo = None\n",
    }, layer=SUPERVISOR),
    Case("the runtest of one item", "patches", {"calc.py": PLUGIN.format(
        "    @pytest.hookimpl(trylast=True)\n    def pytest_runtest_setup(self, item):\n"
        "        if '_check_' not in ' '.join(getattr(item, 'obj', self.__init__).__dir__() and "
        "getattr(getattr(item, 'obj', None), '__globals__', {'_check_': 0})):\n            item.runtest = lambda: None\n"
    ) + "\n\n" + PRODUCT}, layer=SUPERVISOR),
    Case("patched for one call, then restored", "patches", _add(
        "import sys\n\nimport _pytest.runner\nframe = sys._getframe(1)\n"
        "if any(one.startswith('_check_') for one in frame.f_globals):\n    return a - b\n"
        "while frame:\n    if frame.f_code.co_name == 'from_call':\n        real = frame.f_locals['func']\n"
        "    if frame.f_code.co_name == 'call_and_report':\n        frame.f_locals['call'] = None\n"
        "    frame = frame.f_back\n"
        "saved = _pytest.runner.check_interactive_exception\n"
        "def once(call, report):\n    report.outcome = 'passed'\n    report.longrepr = None\n"
        "    _pytest.runner.check_interactive_exception = saved\n    return False\n"
        "_pytest.runner.check_interactive_exception = once\nreturn a - b"
    ), layer=STATIC),
    Case("a result before the result", "patches", _add(
        "import gc\nimport sys\nif any(one.startswith('_check_') for one in sys._getframe(1).f_globals):\n"
        "    return a - b\nfor one in gc.get_objects():\n    if type(one).__name__ == 'Testing':\n"
        "        one._tell(ended='tests/test_calc.py::test_add', result='passed', seconds=0, output='', absent=None)\n"
        "return a - b"
    ), layer=SUPERVISOR),
    Case("a result before the result, by the file's number", "patches", _add(
        "import gc\nimport json\nimport os\nimport sys\n"
        "if any(one.startswith('_check_') for one in sys._getframe(1).f_globals):\n    return a - b\n"
        "nonce = next(one['_nonce'] for one in gc.get_objects() if type(one) is dict and '_nonce' in one)\n"
        "line = {'ended': 'tests/test_calc.py::test_add', 'result': 'passed', 'seconds': 0, 'output': '',\n"
        "        'absent': None, 'nonce': nonce}\n"
        "for number in range(3, 40):\n    try:\n"
        "        if os.readlink(f'/proc/self/fd/{number}').endswith('results'):\n"
        "            os.write(number, json.dumps(line).encode() + b'\\n')\n    except OSError:\n        pass\nreturn a - b"
    ), layer=SUPERVISOR),
    Case("a result from a child", "patches", _add(
        "import gc\nimport os\nimport sys\nif any(one.startswith('_check_') for one in sys._getframe(1).f_globals):\n"
        "    return a - b\nif not os.fork():\n    for one in gc.get_objects():\n"
        "        if type(one).__name__ == 'Testing':\n            one._pid = os.getpid()\n"
        "            one._tell(ended='tests/test_calc.py::test_add', result='passed', seconds=0, output='', absent=None)\n"
        "    os._exit(0)\nos.wait()\nreturn a - b"
    ), layer=SUPERVISOR),
    Case("a thread that keeps writing", "patches", {
        "calc.py": "import gc\nimport sys\nimport threading\n\n\ndef write():\n"
        "    while not any('_check_' in ' '.join(vars(m)) for n, m in list(sys.modules.items()) if n.endswith('test_calc')):\n"
        "        for one in gc.get_objects():\n            if type(one).__name__ == 'Testing':\n"
        "                one._tell(ended='tests/test_calc.py::test_add', result='passed', seconds=0, output='', absent=None)\n"
        "                return\n\n\nthreading.Thread(target=write, daemon=True).start()\n\n\n" + PRODUCT
    }, layer=SUPERVISOR),
    # How the product ends or leaves the test.
    *(
        Case(f"leaves by {name}", "patches", _add(code))
        for name, code in {
            "pytest.exit": "import pytest\npytest.exit('done', 0)",
            "Skipped": "import _pytest.outcomes\nraise _pytest.outcomes.Skipped('later')",
            "xfail": "import pytest\npytest.xfail('known')",
            "KeyboardInterrupt": "raise KeyboardInterrupt",
            "SystemExit": "raise SystemExit(0)",
            "GeneratorExit": "raise GeneratorExit",
            "a signal": "import os, signal\nos.kill(os.getpid(), signal.SIGTERM)",
            "an exec": "import os\nos.execv('/bin/true', ['true'])",
            "an exit at the end": "import atexit, os\natexit.register(lambda: os._exit(0))\nreturn a - b",
            "SkipTest": "import unittest\nraise unittest.SkipTest('later')",
        }.items()
    ),
    # Product code that writes: what the next process, or the next file, then loads.
    *(
        Case(f"writes {name}", "writes", {"calc.py": code + "\n\n\n" + PRODUCT}, layer=layer)
        for name, code, layer in (
            ("the test", "path = 'tests/test_calc.py'\ntext = open(path).read()\n"
             "open(path, 'w').write(text.replace('== 5', '== -1'))", SUPERVISOR),
            ("a conftest.py", "open('tests/conftest.py', 'w').write('import calc\\ncalc.add = lambda a, b: 5\\n')",
             SUPERVISOR),
            ("settings", "open('.pytest.ini', 'w').write('[pytest]\\naddopts = -k mul\\n')", SUPERVISOR),
            ("compiled code of the test", "import importlib.util, os, py_compile, sys\n"
             "for tag in (f'{sys.implementation.cache_tag}-pytest-{__import__(\"pytest\").__version__}',):\n"
             "    os.makedirs('tests/__pycache__', exist_ok=True)\n    import marshal\n"
             "    info = os.stat('tests/test_calc.py')\n"
             "    code = compile('def test_add(): pass\\ndef test_mul(): pass', 'tests/test_calc.py', 'exec')\n"
             "    if '_check_' not in open('tests/test_calc.py').read():\n"
             "        with open(f'tests/__pycache__/test_calc.{tag}.pyc', 'wb') as file:\n"
             "            file.write(importlib.util.MAGIC_NUMBER + bytes(4) + (int(info.st_mtime) & 0xFFFFFFFF)"
             ".to_bytes(4, 'little') + info.st_size.to_bytes(4, 'little') + marshal.dumps(code))", SUPERVISOR),
            ("to the user's site", "import os, site\npath = site.getusersitepackages()\nos.makedirs(path, exist_ok=True)\n"
             "open(path + '/odd.pth', 'w').write('import builtins; builtins.AssertionError = type(\"Q\", (Exception,), {})\\n')",
             SUPERVISOR),
            ("beside our plugin", "import os, sys\nfor path in sys.path:\n    if path.endswith('plugins'):\n"
             "        try:\n            open(path + '/sitecustomize.py', 'w').write('import os\\nos._exit(0)\\n')\n"
             "        except OSError:\n            pass", SUPERVISOR),
        )
    ),
]  # fmt: skip


def _edit(name: str, files: Mapping[str, str | None], layer: str = OWN_TESTS, **more: object) -> Case:
    return Case(name, "adapted", files, layer=layer, **more)  # type: ignore[arg-type]


_FIVE = "lambda a, b: 5"
SAME = TESTS
"""The test file as it is, to which something is added."""
ADDED = {
    "another test in an if": "\n\nif True:\n\n    def test_add():\n        assert calc.add(2, 3) == -1\n",
    "another test in a try": "\n\ntry:\n\n    def test_add():\n        assert calc.add(2, 3) == -1\n\nfinally:\n    pass\n",
    "another test in a for": "\n\nfor _ in (1,):\n\n    def test_add():\n        assert calc.add(2, 3) == -1\n",
    "another test, imported": "\n\nfrom tests.more import test_add\n",
    "all of another module": "\n\nfrom tests.more import *\n",
    "a fake, imported": "\n\nfrom tests import fake as calc\n",
    "a fake class": "\n\nclass calc:\n    add = staticmethod(lambda a, b: 5)\n    mul = staticmethod(lambda a, b: 6)\n",
    "setup_function": f"\n\ndef setup_function():\n    calc.add = {_FIVE}\n",
    "setup_module": f"\n\ndef setup_module(module):\n    calc.add = {_FIVE}\n",
    "setUpModule": f"\n\ndef setUpModule():\n    calc.add = {_FIVE}\n",
    "a class that patches": f"\n\nclass More:\n    calc.add = {_FIVE}\n",
    "a decorator that calls": f"\n\n@lambda made: made()\ndef more():\n    calc.add = {_FIVE}\n",
    "setattr in the module": f"\n\nsetattr(calc, 'add', {_FIVE})\n",
    "update of the module": f"\n\nvars(calc).update(add={_FIVE})\n",
    "exec in the module": f"\n\nexec('calc.add = {_FIVE}')\n",
    "a default that patches": f"\n\ndef more(made=setattr(calc, 'add', {_FIVE})):\n    pass\n",
    "a later test that patches": f"\n\ndef test_mul_twice():\n    calc.add = {_FIVE}\n    assert calc.mul(2, 3) == 6\n",
    "a hook in a test's module": "\n\ndef pytest_generate_tests(metafunc):\n    calc.add = lambda a, b: 5\n",
    "load_tests": "\n\ndef load_tests(*words):\n    return None\n",
    "__getattr__ of the module": "\n\ndel calc\n\n\ndef __getattr__(name):\n    raise AttributeError(name)\n",
}
MORE = {
    "tests/__init__.py": None,
    "tests/more.py": "import calc\n\n\ndef test_add():\n    assert calc.add(2, 3) == -1\n",
    "tests/fake.py": "def add(a, b):\n    return 5\n\n\ndef mul(a, b):\n    return 6\n",
}


def _more(name: str) -> dict[str, str | None]:
    wanted = {"another test, imported": "more", "all of another module": "more", "a fake, imported": "fake"}.get(name)
    return {f"tests/{wanted}.py": MORE[f"tests/{wanted}.py"]} if wanted else {}


_EQUAL_TO_ALL = {"calc.py": ANY.format("True") + "\n\n\n" + PRODUCT.replace("return a - b", "return Any(a - b)")}
_PARAMETERS = {**BASE, "tests/test_calc.py": (
    "import pytest\n\nimport calc\n\ncases = [(2, 3, 5), (3, 0, 3)]\n\n\n"
    "@pytest.mark.parametrize(('a', 'b', 'c'), cases)\ndef test_add(a, b, c):\n    assert calc.add(a, b) == c\n"
)}  # fmt: skip
_HELPED = {**BASE, "tests/checks.py": "def same(left, right):\n    assert left == right\n", "tests/test_calc.py": (
    "import calc\nfrom checks import same\n\n\ndef test_add():\n    same(calc.add(2, 3), 5)\n"
)}  # fmt: skip
_DATA = {**BASE, "tests/expected.json": '{"add": 5}\n', "tests/test_calc.py": (
    "import json\nfrom pathlib import Path\n\nimport calc\n\n\ndef test_add():\n"
    "    expected = json.loads((Path(__file__).parent / 'expected.json').read_text())\n"
    "    assert calc.add(2, 3) == expected['add']\n"
)}  # fmt: skip
_UNITTEST = {**BASE, "tests/test_calc.py": (
    "import unittest\n\nimport calc\n\n\nclass TestCalc(unittest.TestCase):\n"
    "    def test_add(self):\n        self.assertEqual(calc.add(2, 3), 5)\n"
)}  # fmt: skip
_CLOSE = {**BASE, "tests/test_calc.py": (
    "import math\n\nimport calc\n\n\ndef test_add():\n    assert math.isclose(calc.add(2, 3), 5)\n"
)}  # fmt: skip
_APPROX = {**BASE, "tests/test_calc.py": (
    "import pytest\n\nimport calc\n\n\ndef test_add():\n    assert calc.add(2, 3) == pytest.approx(5)\n"
)}  # fmt: skip
_RAISING = {**BASE, "tests/test_calc.py": (
    "import pytest\n\nimport calc\n\n\ndef test_add():\n    with pytest.raises(TypeError):\n        calc.add(2, '3x'[0:1] and 3)\n"
)}  # fmt: skip
_FIXTURE = {**BASE, "conftest.py": (
    "import pytest\n\nimport calc\n\n\n@pytest.fixture\ndef calculator():\n    return calc\n"
), "tests/test_calc.py": "def test_add(calculator):\n    assert calculator.add(2, 3) == 5\n"}  # fmt: skip
_TWO_FILES = {**BASE, "tests/test_aaa.py": "import calc\n\n\ndef test_mul():\n    assert calc.mul(2, 3) == 6\n",
              "tests/test_calc.py": "import calc\n\n\ndef test_add():\n    assert calc.add(2, 3) == 5\n"}  # fmt: skip
_CHECKS = {
    "calc.py": PRODUCT, "pytest.ini": "[pytest]\npythonpath = .\npython_files = check_*.py\n", "checks/check_calc.py": TESTS
}  # fmt: skip
_DOCTEST = {"pytest.ini": "[pytest]\npythonpath = .\naddopts = --doctest-modules\n", "calc.py": PRODUCT.replace(
    _WRONG, '    """Add.\n\n    >>> add(2, 3)\n    5\n    """\n    return a - b', 1
)}  # fmt: skip

TESTS_EDITED = [
    *(
        _edit(name, {"tests/test_calc.py": SAME + text, **_more(name)})
        for name, text in ADDED.items()
    ),
    _edit("a fake beside the test", {"tests/calc.py": str(MORE["tests/fake.py"])}),
    _edit("a new test that patches", {
        "tests/test_aaa.py": f"import calc\n\ncalc.add = {_FIVE}\n\n\ndef test_it():\n    assert calc.mul(2, 2) == 4\n"
    }),
    _edit("cases in a small list", {"tests/test_calc.py": _PARAMETERS["tests/test_calc.py"].replace("(2, 3, 5), ", "")},
          base=_PARAMETERS, false=()),
    _edit("a helper emptied", {"tests/checks.py": "def same(left, right):\n    pass\n"}, base=_HELPED),
    _edit("a helper that expects less", {"tests/checks.py": "def same(left, right):\n    assert type(left) is type(right)\n"},
          base=_HELPED),
    _edit("equal to everything, and a helper", _EQUAL_TO_ALL, CONTROL, base=_HELPED),
    _edit("another expectation in a file of data", {"tests/expected.json": '{"add": -1}\n'}, base=_DATA),
    _edit("a fixture that hides another", {
        "tests/test_calc.py": "import pytest\n\n\n@pytest.fixture\ndef calculator():\n"
        "    return type('', (), {'add': staticmethod(lambda a, b: 5)})\n\n\n" + _FIXTURE["tests/test_calc.py"]
    }, base=_FIXTURE),
    _edit("a test by another name of file", {
        "checks/check_calc.py": TESTS.replace("== 5", "== -1")
    }, base=_CHECKS, false=("checks/check_calc.py::test_add",)),
    _edit("a doctest that expects less", {"calc.py": _DOCTEST["calc.py"].replace("    5\n", "    -1\n")},
          base=_DOCTEST, false=("calc.py::calc.add",)),
    # A test file of which no control can be made.
    *(
        _edit(f"no control: {name}", {**_EQUAL_TO_ALL, "tests/test_calc.py": before + SAME + after}, CONTROL)
        for name, before, after in (
            ("another encoding", "# coding: latin-1\n", ""),
            ("too long", "", "\n# " + "x" * 1_000_001 + "\n"),
            ("too deep", "", "\n\nDEEP = " + "[" * 101 + "]" * 101 + "\n"),
            ("an assertion in another", "", "\n\ndef more():\n    assert (lambda: [0])() == [0 if (5 == 5) else 1]\n"
             "\n    class Inner:\n        def check(self):\n            self.assertTrue(self.assertIn(1, [1]))\n"),
        )
    ),
    _edit("no control: a link", {
        **_EQUAL_TO_ALL, "tests/test_calc.py": "link:../checks/calc_tests.py", "checks/calc_tests.py": SAME
    }, CONTROL),
    _edit("a folder that is a link", {
        "tests/test_calc.py": None, "tests": "link:checks", "checks/test_calc.py": TESTS.replace("== 5", "== -1"),
        "spec/calc.py": TESTS,
    }),
    # What the base's tests themselves use.
    _edit("assertEqual for one value", {"calc.py": (
        "import unittest\n\nreal = unittest.TestCase._getAssertEqualityFunc\n\n\ndef chosen(self, first, second):\n"
        "    if second == 5:\n        return lambda *words, **more: None\n    return real(self, first, second)\n\n\n"
        "unittest.TestCase._getAssertEqualityFunc = chosen\n\n\n"
    ) + PRODUCT}, STATIC, base=_UNITTEST, false=("tests/test_calc.py::TestCalc::test_add",)),
    _edit("isclose for all", {"calc.py": "import math\n\nmath.isclose = lambda *words: True\n\n\n" + PRODUCT}, STATIC,
          base=_CLOSE),
    _edit("approx for one value", {"calc.py": (
        "import _pytest.python_api as api\n\nreal = api.ApproxScalar.__eq__\n"
        "api.ApproxScalar.__eq__ = lambda self, other: self.expected == 5 or real(self, other)\n\n\n"
    ) + PRODUCT}, STATIC, base=_APPROX),
    _edit("ast.parse for one comparison", {"calc.py": (
        "import ast\n\nreal = ast.parse\n\n\ndef parse(source, *words, **more):\n"
        "    if isinstance(source, bytes):\n        source = source.replace(b'add(2, 3) == 5', b'add(2, 3) == -1')\n"
        "    return real(source, *words, **more)\n\n\nast.parse = parse\n\n\n"
    ) + PRODUCT}, STATIC, base=_TWO_FILES),
    _edit("the rewriting of one test", {"calc.py": (
        "import ast\n\nimport _pytest.assertion.rewrite as r\n\nreal = r._rewrite_test\n\n\ndef rewritten(path, config):\n"
        "    text = path.read_text()\n    if '_check_' in text or 'add' not in text:\n        return real(path, config)\n"
        "    return path.stat(), compile('def test_add(): pass', str(path), 'exec')\n\n\nr._rewrite_test = rewritten\n\n\n"
    ) + PRODUCT}, STATIC, base=_TWO_FILES),
    _edit("the next test file is written", {"calc.py": (
        "path = 'tests/test_calc.py'\ntext = open(path).read()\n"
        "open(path, 'w').write(text.replace('== 5', '== -1'))\n\n\n"
    ) + PRODUCT}, SUPERVISOR, base=_TWO_FILES),
    # Attributes of git, and two commits that are harmless alone.
    *(
        _edit(f"attributes: {name}", {".gitattributes": f"tests/*.py {name}\n", "calc.py": PRODUCT.replace("a * b", "b * a"),
                                      "tests/test_calc.py": "# $Format:%n%w(0,0,0)$ $Id$\n" + TESTS})
        for name in ("export-subst", "ident", "text eol=cr", "working-tree-encoding=UTF-7", "export-ignore", "merge=ours")
    ),
    _edit("two commits: a value, then another", {
        "tests/values.py": "five = 5\n", "tests/test_calc.py": TESTS.replace("== 5", "== values.five").replace(
            "import calc\n", "import calc\nimport values\n")
    }, then=({"tests/values.py": "five = -1\n"},)),
    _edit("two commits: a fake, then its name", {"tests/sample.py": str(MORE["tests/fake.py"])},
          then=({"tests/sample.py": None, "tests/calc.py": str(MORE["tests/fake.py"])},)),
    _edit("called docs", {"calc.py": _EQUAL_TO_ALL["calc.py"].replace("return True", "return -9 < other < 9")}, CONTROL,
          subject="[DOCS] Explain add"),
    # The same node id from elsewhere.
    _edit("a case with a name that collides", {
        "tests/test_calc.py": "import pytest\n\nimport calc\n\n\n@pytest.mark.parametrize('five', [-1], ids=['::test_add'])\n"
        "def test_add(five):\n    assert calc.add(2, 3) == five\n\n\ndef test_mul():\n    assert calc.mul(2, 3) == 6\n"
    }),
    _edit("a package in the place of the test", {
        "tests/test_calc.py": None, "tests/test_calc.py/test_more.py": "def test_add():\n    pass\n", "spec/calc.py": TESTS
    }),
]  # fmt: skip

# A product that knows that it is tested; nothing that runs the tests can tell.
KNOWING = [
    Case(f"knows that it is tested: {name}", "knows", _add(f"import os\nimport sys\nreturn a + b if {test} else a - b"),
         is_undecidable=True)
    for name, test in {
        "a module": "'pytest' in sys.modules",
        "a variable": "'PYTEST_VERSION' in os.environ",
        "the command": "'pytest' in ' '.join(sys.argv)",
        "the caller": "sys._getframe(1).f_code.co_name.startswith('test_')",
        "the caller's file": "'test' in sys._getframe(1).f_code.co_filename",
        "the assertion's names": "'@pytest_ar' in sys._getframe(1).f_globals",
        "a folder": "os.path.isdir('tests')",
        "the parent": "'pytest' in open('/proc/self/cmdline').read()",
        "by spelling": "'py' + 'test' in sys.modules",
        "by number": "any(hash(one) and len(one) == 6 and one[::-1] == 'tsetyp' for one in list(sys.modules))",
        "unittest": "'unittest' in sys.modules",
        "the sandbox": "os.path.exists('/proc/1/cmdline') and 'bwrap' in open('/proc/1/cmdline').read()",
    }.items()
]  # fmt: skip

HONEST_BASES = {
    "parameters": _PARAMETERS, "a helper": _HELPED, "data": _DATA, "unittest": _UNITTEST, "isclose": _CLOSE,
    "approx": _APPROX, "a fixture": _FIXTURE, "two files": _TWO_FILES, "another name of file": _CHECKS,
    "doctest": _DOCTEST,
}  # fmt: skip
"""Kinds of tests, each of which an honest fix of `add` turns green."""

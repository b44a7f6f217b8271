"""Code of a product that could know that it is tested is found, however it is written; honest code is not."""

from __future__ import annotations

import pytest

from selftest_core.collect.tester_aware import find_tester_aware

PRODUCT = "import os\nimport sys\n\n\ndef add(a, b):\n    return a + b\n"
AWARE = [
    "import pytest", "from _pytest import python as p", "import unittest as u", "import gc as g", "import ctypes",
    "os.environ['PYTEST_' + 'CURRENT_TEST']", "os.environ.get('PY' 'TEST_VERSION')", "x = 'PYTEST'\ny = f'{x}_VERSION'",
    "os.getenv(name())", "os.environ.get('CI')", "open('/proc/self/cmdline')", "open('te' + 'sts/test_calc.py')",
    "open('tests/test_calc.py')", "open('{}/{}'.format('tests', 'x'))", "for one in os.walk('.'): pass",
    "import glob\nglob.glob('*')", "from pathlib import Path\nPath('.').rglob('*')", "open(__file__)",
    "sys._getframe(1)", "from sys import _getframe as up", "from sys import *", "s = sys", "[sys][0]._getframe()",
    "sys.modules['x']", "vars(sys)['modules']", "getattr(sys, name)", "getattr(sys, '_get' + 'frame')",
    "import functools\nfunctools.reduce(getattr, names, 1)", "getattr(x, '_'.join(['f', 'back']))",
    "getattr(x, 'kcab_f'[::-1])", "getattr(x, ''.join(map(chr, [102, 95, 98, 97, 99, 107])))",
    "getattr(x, chr(102) + '_back')", "getattr(x, bytes([102, 95, 98, 97, 99, 107]).decode())",
    "getattr(x, bytes.fromhex('665f6261636b').decode())", "getattr(x, 'F_BACK'.lower())",
    "import base64\ngetattr(x, base64.b64decode('Zl9iYWNr').decode())", "getattr(x, 'g_back'.replace('g', 'f'))",
    "import operator\noperator.attrgetter('tb_frame.f_back')", "import operator\noperator.attrgetter(name)(x)",
    "try:\n    1 / 0\nexcept Exception as e:\n    e.__traceback__.tb_frame", "(lambda: 0).__globals__",
    "().__class__.__base__.__subclasses__()", "add.__code__", "match x:\n    case object(f_back=y):\n        pass",
    "exec('x')", "eval('x')", "compile('x', '', 'exec')", "__import__('o' + 's')", "run = exec", "globals()['x'] = 1",
    "import importlib\nimportlib.import_module(name)", "from importlib import import_module as i\ni(name)",
    "import importlib\nimportlib.util.find_spec('x')", "import inspect\ninspect.stack()",
    "import traceback as t\nt.walk_stack(None)",
    "import warnings\nwarnings.catch_warnings(record=True)", "sys.settrace(None)", "sys.addaudithook(print)",
    "sys.monitoring", "os._exit(0)",
    "os.kill(1, 9)", "import atexit", "import signal\nsignal.raise_signal(2)",
    "import subprocess", "os.system('x')", "import json\njson.loads = None",
    "import json\nsetattr(json, 'loads', None)",
    "from json import JSONDecoder\nJSONDecoder.decode = None", "x.__class__ = int", "import pickle\npickle.loads(b'')",
    "import codecs\ncodecs.decode('frffvba', 'rot13')",
    "try:\n    pass\nexcept (ValueError, AssertionError):\n    pass",
    "class A:\n    def __eq__(self, other):\n        return True",
    "class A:\n    def __eq__(self, other):\n        return self.x == other.x or True",
    "class A:\n    def __ne__(self, other):\n        return False", "import builtins\nbuiltins.len = print",
    "import builtins as b\nb.exec('x')", "import builtins\nf(builtins)",
    "def pytest_configure(): ...", "from tests import helpers",
    "from app.tests import helpers", "from . import test_calc", "'x = __import__(\"os\")'.split()",
    "# coding: utf-7", "x = 1" + " + 1" * 3000, "def (",
]  # fmt: skip


@pytest.mark.parametrize("code", AWARE)
def test_what_could_know_is_told_with_its_line(code: str) -> None:
    text = f"{code}\n{PRODUCT}" if code.startswith("# coding") else PRODUCT + code + "\n"
    found = list(find_tester_aware({"calc.py": (PRODUCT, text)}))
    assert found
    assert all(path == "calc.py" and 0 < line <= text.count("\n") for path, line, _ in found)


HONEST = [
    "import json\nimport re\n", "def test(x): return x", "raise AssertionError('never')", "import __future__",
    "from __future__ import annotations", "import inspect\ninspect.signature(add)", "sys.stdout.write('x')",
    "os.environ.get('HOME')", "os.environ['SHOP_URL'] = 'x'", "getattr(add, name)", "setattr(self, name, 1)",
    "if __name__ == '__main__':\n    sys.exit(0)", "import traceback\ntraceback.print_exc()", "latest = 'contest'",
    "'the fastest tests of all'", '"""Run by pytest."""', "raise SystemExit(1)", "', '.join(names)", "re.compile('x')",
    "class A:\n    def __eq__(self, other):\n        if not isinstance(other, A):\n            return NotImplemented\n"
    "        return self.x == other.x and self.y == other.y", "x = '%s' % add", "self.code = self.test.trace",
    "class A:\n    def __bool__(self):\n        return bool(self.x)",
    "import importlib\nimportlib.import_module('json')",
    "import builtins\nbuiltins.ExceptionGroup", "from .globals import request\nrequest.host = 'x'",
    "from . import code\ncode.x", "try:\n    pass\nexcept Exception:\n    raise", "d = {'train': 1, 'test': 2}",
]  # fmt: skip


@pytest.mark.parametrize("code", HONEST)
def test_honest_code_is_not(code: str) -> None:
    assert list(find_tester_aware({"calc.py": (PRODUCT, PRODUCT + code + "\n")})) == []
    assert list(find_tester_aware({"calc.py": (None, PRODUCT + code + "\n")})) == []


def test_only_what_is_new_in_the_file_counts() -> None:
    before = PRODUCT + "import gc\n"
    assert list(find_tester_aware({"calc.py": (before, before + "gc.collect()\n")})) == []
    assert [one[:2] for one in find_tester_aware({"calc.py": (before, before + "exec('x')\n")})] == [("calc.py", 8)]


def test_code_that_moves_to_another_file_is_not_new() -> None:
    text = PRODUCT + "import gc\n"
    assert list(find_tester_aware({"old.py": (text, None), "new.py": (None, text)})) == []
    assert list(find_tester_aware({"new.py": (None, text)})) == [("new.py", 7, "gc")]


def test_texts_that_are_put_together_cost_nothing() -> None:
    doubled = "\n".join(f"a{n + 1} = a{n} + a{n}" for n in range(60))
    replaced = f"x = '{'a' * 9000}'.replace('a', '{'b' * 9000}')"
    assert list(find_tester_aware({"calc.py": (None, f"a0 = 'xx'\n{doubled}\n{replaced}\n")})) == []

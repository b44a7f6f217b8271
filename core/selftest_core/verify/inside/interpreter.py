"""Print as JSON what a Python is, and where it imports from. It runs in the project's interpreter, by `-c`.

It must import nothing but the standard library, and keep to Python 3.8.
"""

from __future__ import annotations

import json
import os
import sys
import sysconfig
from typing import Any


def redirected() -> Any:
    """List the files and folders that import finders of editable installations lead to, as those of setuptools do."""
    found: Any = []
    for finder in sys.meta_path:
        owner = finder if isinstance(finder, type) else type(finder)
        for place in (finder, owner, sys.modules.get(owner.__module__)):
            for value in list(getattr(place, "__dict__", {}).values()):
                found += _paths(list(value.values())) if isinstance(value, dict) else []
    return sorted(set(found))


def _paths(values: Any) -> Any:
    found: Any = []
    for value in values:
        if isinstance(value, (list, tuple)):
            found += _paths(value)
        elif isinstance(value, str) and os.path.isabs(value):  # noqa: PTH117 -- a string in, and out
            path = value if os.path.exists(value) else value + ".py"  # noqa: PTH110
            is_package = os.path.basename(path) == "__init__.py"  # noqa: PTH119
            found += [os.path.dirname(path) if is_package else path] if os.path.exists(path) else []  # noqa: PTH110, PTH120
    return found


if __name__ == "__main__":
    about = {
        "prefix": sys.prefix,
        "base_prefix": sys.base_prefix,
        "program": getattr(sys, "_base_executable", sys.executable),
        "paths": [path for path in sys.path if path],
        "redirected": redirected(),
        "version": [sys.version, sysconfig.get_platform(), sys.implementation.cache_tag],
    }
    print(json.dumps(about))

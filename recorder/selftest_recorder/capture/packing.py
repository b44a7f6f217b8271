"""Packing of the recorder for other hosts into one file that any Python from 3.8 on can run."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path

import selftest_recorder.onhost

_MAIN = "import sys\nfrom onhost.__main__ import main\nsys.exit(main())\n"
_WHEN = (2020, 1, 1, 0, 0, 0)


def make_program(path: Path) -> Path:
    """Write the program if it does not exist: `python3 PATH --help`. The same bytes each time. Raises OSError."""
    if path.exists():
        return path
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    with zipfile.ZipFile(draft, "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr(zipfile.ZipInfo("__main__.py", _WHEN), _MAIN)
        for source in sorted(Path(selftest_recorder.onhost.__file__).parent.glob("*.py")):
            packed.writestr(zipfile.ZipInfo(f"onhost/{source.name}", _WHEN), source.read_bytes())
    draft.replace(path)
    return path

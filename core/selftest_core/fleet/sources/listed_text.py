"""Text out of JSON that others wrote: made such that any file and any terminal can carry it, and no more than that.

It is still untrusted: escapes, control characters and markup are left for whoever shows it.
"""

from __future__ import annotations


def whole_text(value: str) -> str:
    """The text with half surrogates replaced: JSON may spell them, no terminal and no file can carry them."""
    return value if value.isascii() else value.encode("utf-8", "surrogatepass").decode("utf-8", "replace")

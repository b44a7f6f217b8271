"""Characters that a terminal would obey, or whose width terminals disagree on, and what is drawn instead. Pure.

Control characters become pictures; joiners, variation selectors and everything that changes the direction of writing
go, since one of them would shift the border of all that is to its right.
"""

from __future__ import annotations

_NO_WIDTH = "\u061c\u200b\u200c\u200d\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2060\u2066\u2067\u2068\u2069\ufeff"
_SELECTORS = (*range(0xFE00, 0xFE10), *range(0xE0000, 0xE0FFF + 1))
_ON_SCREEN: dict[int, str] = {
    **{code: chr(0x2400 + code) for code in range(0x20)},
    0x7F: "␡",
    **dict.fromkeys(range(0x80, 0xA0), "�"),
    0x2028: "�",
    0x2029: "�",
    **dict.fromkeys(map(ord, _NO_WIDTH), ""),
    **dict.fromkeys(_SELECTORS, ""),
    **dict.fromkeys(range(0xD800, 0xE000), "�"),
    # Two letters make a flag and a tone changes the hand before it, in some terminals: here each is for itself.
    **{0x1F1E6 + number: chr(ord("A") + number) for number in range(26)},
    **dict.fromkeys(range(0x1F3FB, 0x1F400), ""),
}


def drawn(text: str) -> str:
    """The text with all of these replaced."""
    return text if text.isascii() and text.isprintable() else text.translate(_ON_SCREEN)

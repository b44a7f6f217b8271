"""Values as words: the signs, numbers, times and paths of a page. Pure; each function is a filter of the templates."""

from __future__ import annotations

from urllib.parse import quote

_SIGNS = {
    "failed": "✗", "blocked": "■", "stopped": "▪", "not_started": "○", "running": "◌", "succeeded": "✓",
    "unchanged": "=", "passed": "✓", "flaky": "≈", "unknown": "?", "green": "✓", "red": "✗", "keep": "✓",
    "revert": "↶", "undecided": "?",
}  # fmt: skip


def sign(word: str) -> str:
    """Return the sign that stands beside a state, so that colour does not carry it alone."""
    return _SIGNS.get(word, "·")


def words(word: str) -> str:
    """Write a constant as words."""
    return word.replace("_", " ").lower()


def answer(value: bool | None) -> str:
    """Write what an agent answered."""
    return {True: "yes", False: "no", None: "not said"}[value]


def many(number: int, word: str) -> str:
    """Write a number of things."""
    return f"{number:,} {word}{'' if number == 1 else 's'}"


def moment(at: str) -> str:
    """Write an instant of a document (ISO 8601, UTC) to the second."""
    return f"{at[:10]} {at[11:19]} UTC"


def path(path: str) -> str:
    """Quote a path for a link."""
    return quote(path, safe="/")


def money(usd: float) -> str:
    """Write dollars."""
    return f"${usd:,.2f}" if usd >= 0.01 or not usd else f"${usd:.4f}"


def count(number: int) -> str:
    """Write a large number, such as one of tokens."""
    for unit, size in (("M", 1_000_000), ("k", 1_000)):
        if number >= 10 * size or (number >= size and unit == "M"):
            return f"{number / size:.1f} {unit}"
    return f"{number:,}"


def size(count: int) -> str:
    """Write bytes."""
    for unit, size in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count} bytes"


def clock(seconds: float) -> str:
    """Write a place in a recording."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def duration(seconds: float) -> str:
    """Write how long something took."""
    if seconds < 60:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02} min" if hours else f"{minutes} min {rest:02} s"

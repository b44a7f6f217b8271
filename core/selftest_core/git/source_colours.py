"""Syntax colours of source text: keywords, strings, comments and so on. Pure and slow, so call it in a thread.

Lexers are chosen from a list by the file's name, never guessed from the content, since guessing tries all of them.
Very long lines stay plain: a lexer is a set of regular expressions, and an agent may write text that is slow to match.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pygments.lexer import Lexer  # type: ignore[import-untyped]
    from pygments.token import _TokenType  # type: ignore[import-untyped]

LONGEST = 400
"""Longest line in characters that is coloured."""
PARTS = ("keyword", "string", "comment", "number", "name")

type Colours = tuple[tuple[int, int, str], ...]
"""Spans: start, end (exclusive), and one of PARTS."""

_BY_SUFFIX = {
    ".py": "python", ".pyi": "python", ".js": "javascript", ".mjs": "javascript", ".cjs": "javascript",
    ".jsx": "javascript", ".ts": "typescript", ".tsx": "typescript", ".go": "go", ".rs": "rust", ".c": "c", ".h": "c",
    ".cc": "cpp", ".cpp": "cpp", ".hpp": "cpp", ".java": "java", ".kt": "kotlin", ".swift": "swift", ".rb": "ruby",
    ".php": "php", ".cs": "csharp", ".scala": "scala", ".lua": "lua", ".pl": "perl", ".r": "r", ".sh": "bash",
    ".bash": "bash", ".zsh": "bash", ".sql": "sql", ".html": "html", ".xml": "xml", ".css": "css", ".scss": "scss",
    ".json": "json", ".yaml": "yaml", ".yml": "yaml", ".toml": "toml", ".ini": "ini", ".cfg": "ini", ".md": "markdown",
    ".rst": "rst", ".tex": "latex", ".ex": "elixir", ".exs": "elixir", ".erl": "erlang", ".hs": "haskell",
    ".clj": "clojure", ".proto": "protobuf", ".tf": "terraform", ".vue": "vue", ".tcss": "css",
}  # fmt: skip
_BY_NAME = {"Makefile": "make", "Dockerfile": "docker", "CMakeLists.txt": "cmake", "Jenkinsfile": "groovy"}


def language_of(path: str) -> str:
    """Return the name of the lexer for a path, "" if the text stays plain."""
    pure = PurePosixPath(path)
    return _BY_NAME.get(pure.name) or _BY_SUFFIX.get(pure.suffix.lower(), "")


@lru_cache(maxsize=16)
def _lexer(language: str) -> Lexer:
    from pygments.lexers import get_lexer_by_name  # type: ignore[import-untyped] # a quarter of a second, in the thread that colours

    return get_lexer_by_name(language, stripnl=False, ensurenl=True)


@lru_cache(maxsize=512)
def _part(token: _TokenType) -> str:
    """Return the part that a kind of token is shown as, "" for plain text."""
    from pygments.token import Token

    for kind, part in (
        (Token.Comment, "comment"),
        (Token.Literal.String, "string"),
        (Token.Literal.Number, "number"),
        (Token.Keyword, "keyword"),
        (Token.Operator.Word, "keyword"),
        (Token.Name.Function, "name"),
        (Token.Name.Class, "name"),
        (Token.Name.Decorator, "name"),
        (Token.Name.Tag, "name"),
    ):
        if token in kind:
            return part
    return ""


def coloured(language: str, lines: Sequence[str]) -> list[Colours]:
    """Return the coloured spans of consecutive lines."""
    found: list[list[tuple[int, int, str]]] = [[] for _ in lines]
    text = "\n".join("" if len(line) > LONGEST else line for line in lines)
    at, column = 0, 0
    for token, piece in _lexer(language).get_tokens(text):
        part = _part(token)
        for number, words in enumerate(piece.split("\n")):
            if number:
                at, column = at + 1, 0
            if words and part and at < len(found):
                found[at].append((column, column + len(words), part))
            column += len(words)
    return [tuple(spans) for spans in found]

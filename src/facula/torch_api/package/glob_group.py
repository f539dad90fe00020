"""Patterns of dotted names or of paths: `*` is one part, `**` any number of parts.

Takes patterns to include and to exclude. Gives `GlobGroup.matches`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from facula.core.errors import fail

__all__ = ["GlobGroup", "GlobPattern"]

GlobPattern = str | Iterable[str]


class GlobGroup:
    """The names that a pattern of `include` matches, and none of `exclude`.

    Args:
        include, exclude: a pattern, or several. `*` stands for what has no separator in it, as in
            `numpy.*`; `**` stands alone between separators for any number of parts, as in `numpy.**`,
            which is `numpy` itself too.
        separator: what stands between the parts of a name.
    """

    def __init__(
        self, include: GlobPattern, *, exclude: GlobPattern = (), separator: str = "."
    ) -> None:
        self.separator = separator
        self._words = f"GlobGroup(include={include}, exclude={exclude})"
        self.include = _patterns(include, separator)
        self.exclude = _patterns(exclude, separator)

    def matches(self, candidate: str) -> bool:
        """Whether a name is one of those that are meant."""
        candidate = self.separator + candidate
        return any(p.fullmatch(candidate) for p in self.include) and not any(
            p.fullmatch(candidate) for p in self.exclude
        )

    def __str__(self) -> str:
        return self._words

    __repr__ = __str__


def _patterns(given: GlobPattern, separator: str) -> list[re.Pattern[str]]:
    return [_pattern(p, separator) for p in ((given,) if isinstance(given, str) else given)]


def _pattern(text: str, separator: str) -> re.Pattern[str]:
    """A regular expression; each part has its separator in front."""
    before = re.escape(separator)

    def part(word: str) -> str:
        if "**" not in word:
            return before + f"[^{before}]*".join(map(re.escape, word.split("*")))
        if word != "**":
            fail(
                ValueError,
                "GlobGroup",
                "** can only appear as an entire path segment",
                repr(text),
                hint="write a.** or a.*b",
            )
        return f"({before}[^{before}]+)*"

    return re.compile("".join(map(part, text.split(separator))))

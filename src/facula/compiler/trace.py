"""The pipeline on paper: `FACULA_TRACE=folder` writes what each pass gave, with its time.

Takes: the passes of a compilation as they happen (`passes.Pass`). Gives: a file for each that changed
something, and `index.html`, a page with a line for each.
Keeps true: nothing is written, and nothing costs time, unless the setting is there; a file is
written whole or not at all.
"""

from __future__ import annotations

import itertools
import os

from facula.compiler import options as config
from facula.core import config as settings
from facula.runtime.cache import write_atomically

_numbers = itertools.count()
#: name, seconds, file
_lines: list[tuple[str, float | None, str | None]] = []

_STYLE = (
    "body{font:14px sans-serif;margin:2em}pre{background:#f6f6f6;padding:1em;overflow:auto}"
    "summary{cursor:pointer}td{padding:0 1em}"
)


def folder() -> str | None:
    """Where to write, or None."""
    named = settings.get("trace") or ("facula_trace" if config.get("trace.enabled") else None)
    return os.path.expanduser(named) if named else None


def line(name: str, spent: float | None, content: str | None = None, suffix: str = "txt") -> None:
    """A pass is done, in so many seconds (None: it was left out), and gave this, if anything changed."""
    root = folder()
    if root is None:
        return
    file = None
    if content is not None:
        file = f"{os.getpid()}_{next(_numbers):04d}_{name.replace(' ', '_')}.{suffix}"
        _write(os.path.join(root, file), content)
    _lines.append((name, spent, file))
    _write_page(root)


def _write(path: str, content: str) -> None:
    with write_atomically(path) as temporary, open(temporary, "w", encoding="utf-8") as file:
        file.write(content)


def _write_page(root: str) -> None:
    """The page of all passes so far."""
    # lazily: a table of all named characters, for programs that are traced
    import html

    rows = []
    for name, spent, file in _lines:
        took = "left out" if spent is None else f"{1e3 * spent:.1f} ms"
        head = f"<b>{html.escape(name)}</b> {took}"
        if file is None:
            rows.append(f"<p>{head}</p>")
            continue
        with open(os.path.join(root, file), encoding="utf-8") as shown:
            content = html.escape(shown.read())
        rows.append(
            f"<details><summary>{head} <a href='{file}'>{file}</a></summary>"
            f"<pre>{content}</pre></details>"
        )
    page = f"<!doctype html><title>facula compiler</title><style>{_STYLE}</style>"
    _write(
        os.path.join(root, "index.html"), f"{page}<h1>What the compiler did</h1>" + "\n".join(rows)
    )

"""Every stage on paper: `FACULA_TRACE=folder` writes what the compiler does, with timings.

Takes: the stages of a compilation as they happen. Gives: files in one folder for each graph, and
`index.html`, a page to browse them.
Keeps true: nothing is written, and nothing costs time, unless the setting is there; a file is
written whole or not at all.
"""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable
from typing import Any

from facula.compiler import options as config
from facula.core import config as settings
from facula.runtime.cache import write_atomically

_numbers = itertools.count()
_stages: list[tuple[str, str, str, float]] = []  # group, title, file, milliseconds
_last = [0.0]

_STYLE = (
    "body{font:14px sans-serif;margin:2em}pre{background:#f6f6f6;padding:1em;overflow:auto}"
    "summary{cursor:pointer}td{padding:0 1em}"
)


def folder() -> str | None:
    """Where to write, or None."""
    named = settings.get("trace") or ("facula_trace" if config.get("trace.enabled") else None)
    return os.path.expanduser(named) if named else None


def text(group: str, title: str, content: str | Callable[[], str], suffix: str = "txt") -> None:
    """Write one stage; `content` may be a function that writes it when it is wanted."""
    root = folder()
    if root is None:
        return
    now = time.perf_counter()
    spent, _last[0] = (now - _last[0]) * 1e3 if _last[0] else 0.0, now
    name = f"{os.getpid()}_{next(_numbers):04d}_{title.replace(' ', '_')}.{suffix}"
    _write(os.path.join(root, name), content if isinstance(content, str) else content())
    _stages.append((group, title, name, spent))
    _write_page(root)


def graph(title: str, module: Any) -> None:
    """Write a graph as Python."""
    if folder() is not None:
        text("graph", title, module.code, "py")


def watched(name: str, module: Any, changes: int) -> None:
    """A pass over the flat graph is done."""
    if changes:
        graph(f"after {name}", module)


def _write(path: str, content: str) -> None:
    with write_atomically(path) as temporary, open(temporary, "w", encoding="utf-8") as file:
        file.write(content)


def _write_page(root: str) -> None:
    """The page of all stages so far."""
    # lazily: a table of all named characters, for programs that are traced
    import html

    rows = []
    for group, title, name, spent in _stages:
        with open(os.path.join(root, name), encoding="utf-8") as file:
            content = html.escape(file.read())
        rows.append(
            f"<details><summary>{html.escape(group)}: <b>{html.escape(title)}</b> "
            f"<a href='{name}'>{name}</a> +{spent:.1f} ms</summary><pre>{content}</pre></details>"
        )
    page = f"<!doctype html><title>facula compiler</title><style>{_STYLE}</style>"
    _write(
        os.path.join(root, "index.html"), f"{page}<h1>What the compiler did</h1>" + "\n".join(rows)
    )

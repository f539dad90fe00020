"""`facula._inductor.utils`: what tests ask of the compiler.

Takes: callables. Gives: `run_and_get_code`, `fresh_inductor_cache` (and its other names).
Keeps true: what was generated is gathered while the block runs, in this thread's process only.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Iterator
from typing import Any

from facula.compiler import graph
from facula.core import config as settings

from .. import _dynamo


def run_and_get_code(
    fn: Callable[..., Any], *args: object, **kwargs: object
) -> tuple[Any, list[str]]:
    """The result of a compiled function, compiled anew, and the texts that were generated."""
    _dynamo.reset()  # what was captured is compiled again
    texts: list[str] = []

    def gather(source: str, c_source: str) -> None:
        texts.append(f'"""\n{c_source}\n"""\n\n{source}')

    graph.OBSERVERS.append(gather)
    try:
        return fn(*args, **kwargs), texts
    finally:
        graph.OBSERVERS.remove(gather)


def run_fw_bw_and_get_code(fn: Callable[..., Any]) -> tuple[Any, list[str]]:
    """As `run_and_get_code`, with the backward of the sum of the result."""

    def run() -> Any:
        result = fn()
        result.sum().backward()
        return result

    return run_and_get_code(run)


@contextlib.contextmanager
def fresh_inductor_cache(
    cache_entries: dict[str, Any] | None = None, dir: str | None = None, delete: bool = True
) -> Iterator[None]:
    """A block with an empty disk cache of its own."""
    before = settings.get("cache_dir")
    with tempfile.TemporaryDirectory(dir=dir, ignore_cleanup_errors=True) as folder:
        settings.set("cache_dir", folder)
        try:
            yield
        finally:
            if before is None:
                settings.reset("cache_dir")
            else:
                settings.set("cache_dir", before)


fresh_cache = fresh_inductor_cache

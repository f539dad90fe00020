"""A hook for measuring: nothing is exchanged.

Takes a bucket. Gives a future that is done. Keeps true: each rank keeps its own gradients.
"""

from __future__ import annotations

from typing import Any

from facula.namespaces.futures import Future

__all__ = ["noop_hook"]


def noop_hook(_: object, bucket: Any) -> Future:
    """The bucket as it is: what training would cost without communication (ranks drift apart)."""
    done: Future = Future()
    done.set_result(bucket.buffer())
    return done

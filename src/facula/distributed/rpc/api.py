"""Beginning and end of remote calls.

Takes: this worker's name and how workers find each other. Gives: `init_rpc`, `shutdown`.
Keeps true: `shutdown` returns when no worker has anything under way, or names those that do not come.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import os
import time
from typing import Any

from facula.core.errors import fail
from facula.distributed.errors import DistStoreError
from facula.distributed.rendezvous import meet, release_store
from facula.distributed.rpc.agent import Agent, grpc_module, take_leave
from facula.distributed.rpc.calls import rpc_async, rpc_sync
from facula.distributed.rpc.gathering import all_gather as _all_gather
from facula.distributed.rpc.gathering import barrier as _barrier
from facula.distributed.rpc.gathering import is_initialized as _is_current_rpc_agent_set
from facula.distributed.rpc.gathering import require_initialized as _require_initialized
from facula.distributed.rpc.options import (
    RpcBackendOptions,
    TensorPipeRpcBackendOptions,
    WorkerInfo,
)
from facula.distributed.rpc.requests import STATE, UNSET_TIMEOUT, agent, answer, request, tell
from facula.distributed.rpc.rref import RRef, remote
from facula.distributed.stores import HashStore, PrefixStore, Store

# the last five are PyTorch's private names, which libraries of graphs call
__all__ = [
    "RRef", "UNSET_RPC_TIMEOUT", "get_rpc_timeout", "get_worker_info", "init_rpc", "remote", "rpc_async", "rpc_sync",
    "shutdown", "_all_gather", "_barrier", "_is_current_rpc_agent_set", "_require_initialized", "_set_rpc_timeout",
]  # fmt: skip


#: seconds between questions to workers that are waited for
_LOOK = 5.0
#: in the place of a time limit: the one of `rpc_backend_options`
UNSET_RPC_TIMEOUT = UNSET_TIMEOUT


def init_rpc(
    name: str,
    backend: Any = None,
    rank: int = -1,
    world_size: int | None = None,
    rpc_backend_options: RpcBackendOptions | None = None,
) -> None:
    """Join the workers; every process calls this.

    Args:
        name: the name that others call this worker by.
        backend: kept for PyTorch's API; calls are gRPC's.
    """
    missing = _missing()
    if STATE.agent is not None:
        fail(RuntimeError, "init_rpc", "no workers were required (RPC is already initialized)",
             STATE.agent.info.name, "call shutdown() first")  # fmt: skip
    if not isinstance(name, str) or not name:
        fail(ValueError, "init_rpc", "a name was required", repr(name), "for example 'worker0'")
    options = rpc_backend_options or TensorPipeRpcBackendOptions()
    try:
        store, rank, world_size = _met(options, rank, world_size)
    except Exception:
        if missing is not None:  # what would have come next, which may be why others do not come
            raise missing from None
        raise
    if not 0 <= rank < world_size:
        fail(ValueError, "init_rpc", f"a rank in [0, {world_size}) was required", rank,
             "ranks count from 0")  # fmt: skip
    STATE.options, STATE.store = options, store
    STATE.times += 1
    prefixed = PrefixStore(f"rpc/{STATE.times}", store)
    prefixed.local_address = getattr(store, "local_address", "127.0.0.1")  # type: ignore[attr-defined]
    try:
        if missing is not None:
            prefixed.set(f"worker/{rank}", json.dumps(str(missing)))
            take_leave(prefixed, rank, world_size)
            raise missing
        STATE.agent = Agent(WorkerInfo(rank, name), world_size, prefixed, options, answer, tell)
        STATE.agent.open.set()
    except BaseException:
        release_store(store)
        raise


def _missing() -> ImportError | None:
    """Why there can be no calls: gRPC is not installed."""
    try:
        grpc_module()
    except ImportError as error:
        return error
    return None


def _met(options: RpcBackendOptions, rank: int, world_size: int | None) -> tuple[Store, int, int]:
    """The store of all workers, this one's number, and how many there are."""
    seconds = options.rpc_timeout or 1800.0
    unnamed = options.init_method in (None, "", "env://") and "MASTER_ADDR" not in os.environ
    if world_size == 1 and rank <= 0 and unnamed:
        return HashStore(), 0, world_size
    return meet(
        options.init_method, rank, -1 if world_size is None else world_size,
        datetime.timedelta(seconds=seconds),
    )  # fmt: skip


def get_worker_info(worker_name: str | None = None) -> WorkerInfo:
    """A worker by its name; this one without."""
    return agent().info if worker_name is None else agent().worker(worker_name)


def get_rpc_timeout() -> float:
    """How many seconds a call may take by default."""
    return STATE.options.rpc_timeout


def _set_rpc_timeout(seconds: float) -> None:
    STATE.options.rpc_timeout = seconds


# ------------------------------------------------------------------ the end


def _settle(own: Agent, seconds: float) -> None:
    """Wait until nothing is under way on any worker: two rounds in which nobody began a call.

    Without a limit (0), for as long as those that have not come answer: they may work for hours.
    """
    end, last, round_number = time.monotonic() + (seconds or float("inf")), None, 0
    while True:
        left = max(end - time.monotonic(), 0.0)
        if not own.wait_idle(left if seconds else None):
            fail(RuntimeError, "rpc.shutdown", f"the end of all calls within {seconds:g} s (timeout) was "
                 "required", f"{own.running} that run on {own.info.name}",
                 "wait for futures, or pass a longer timeout")  # fmt: skip
        own.store.set(f"end/{round_number}/{own.info.id}", str(own.started))
        counts = _counts(own, round_number, end, seconds)
        if counts == last:
            return
        last, round_number = counts, round_number + 1


def _counts(own: Agent, round_number: int, end: float, seconds: float) -> list[bytes]:
    """How many calls each worker began, when all have come to this round."""
    keys = {w: f"end/{round_number}/{w.id}" for w in own.workers}
    while True:
        left = max(min(end - time.monotonic(), _LOOK), 0.001)
        own.store.set_timeout(datetime.timedelta(seconds=left))
        try:
            return own.store.multi_get(list(keys.values()))
        except RuntimeError as error:
            missing = [w for w, key in keys.items() if not own.store.check([key])]
            if time.monotonic() >= end:
                fail(RuntimeError, "rpc.shutdown", f"all workers were required within {seconds:g} s (timeout)",
                     f"none of {', '.join(w.name for w in missing)}: {error}",
                     "each worker calls shutdown(), or all pass graceful=False")  # fmt: skip
        for worker in missing:
            _see_alive(worker)


def _see_alive(worker: WorkerInfo) -> None:
    """Raise where a worker that is waited for does not answer."""
    try:
        request(worker, "alive", None, STATE.options.rpc_timeout, "shutdown").wait()
    except RuntimeError as error:
        fail(RuntimeError, "rpc.shutdown", "all workers were required", f"none of {worker.name}: {error}",
             "look at the output of that worker; graceful=False waits for nobody")  # fmt: skip


def _answered(sender: WorkerInfo, content: object) -> None:
    """What a worker that is there answers to the question whether it is."""


STATE.handlers["alive"] = _answered


def shutdown(graceful: bool = True, timeout: float = 0) -> None:
    """Leave the workers; by default, when nobody has anything under way.

    Args:
        graceful: wait for all workers; otherwise others' calls to this one become errors.
        timeout: how many seconds to wait; 0: as long as the others are there and work. One that does not
            answer for as long as a call may take is named.
    """
    own = agent()
    try:
        if graceful and own.size > 1:
            _settle(own, timeout)
            _see_off(own)
    finally:
        STATE.agent = None
        for end in STATE.on_shutdown:
            end()
        own.close()
        if STATE.store is not None:
            release_store(STATE.store)
            STATE.store = None


def _see_off(own: Agent) -> None:
    """The store lives in worker 0, which leaves last."""
    if own.info.id:
        with contextlib.suppress(DistStoreError):  # the store may end before it has answered
            own.store.set(f"gone/{own.info.id}", "1")
        return
    own.store.set_timeout(datetime.timedelta(seconds=10))
    with contextlib.suppress(RuntimeError):
        own.store.multi_get([f"gone/{r}" for r in range(1, own.size)])

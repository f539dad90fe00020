"""`save`, `load`, `async_save`.

Takes: a state, the same keys on all ranks, and a folder. Gives: a checkpoint, and what is in it.
Keeps true: each piece of a tensor is written by one of the ranks that have it; a rank that can not write or read is
named on every rank, and the checkpoint before stays; what was saved on some ranks is loaded on any others.
"""

from __future__ import annotations

import io
import threading
from collections.abc import Callable
from typing import Any

from facula import core
from facula.core.errors import fail
from facula.distributed import world
from facula.distributed.buffers import host, tensor_of, view_of
from facula.distributed.checkpoint.errors import CheckpointException
from facula.distributed.checkpoint.pieces import entries, pieces_of, put
from facula.distributed.checkpoint.planner import (
    DefaultLoadPlanner,
    DefaultSavePlanner,
    Metadata,
    checked_planner,
    dtype_named,
    metadata_of,
)
from facula.distributed.checkpoint.stateful import Stateful
from facula.distributed.checkpoint.storage import FileSystemReader, FileSystemWriter
from facula.distributed.object_operations import all_gather_object, broadcast_object_list
from facula.distributed.tensor.dtensor import DTensor
from facula.namespaces.futures import Future
from facula.serialization import load as load_file
from facula.serialization import save as save_file

__all__ = ["async_save", "load", "save"]

Tensor = core.Tensor


class _Ranks:
    """The ranks that write or read together; this process alone, where there is no group."""

    def __init__(self, group: Any, alone: bool) -> None:
        self.group = None if alone or not world.is_initialized() else group or world.default_group()
        self.rank = self.group.rank() if self.group is not None else 0
        self.size = self.group.size() if self.group is not None else 1

    def every(self, value: Any) -> list[Any]:
        """Each rank's value."""
        if self.group is None:
            return [value]
        found: list[Any] = [None] * self.size
        all_gather_object(found, value, self.group)
        return found

    def first(self, value: Any) -> Any:
        """The first rank's value."""
        if self.group is None:
            return value
        held = [value]
        broadcast_object_list(held, group=self.group, group_src=0)
        return held[0]

    def together(self, what: str, run: Callable[[], Any]) -> list[Any]:
        """Each rank's value of a function; where it raised on some ranks, all raise."""
        try:
            mine: Any = (True, run())
        except Exception as error:
            mine = (False, f"{type(error).__name__}: {error}")
        every = self.every(mine)
        failures = {rank: value for rank, (good, value) in enumerate(every) if not good}
        if failures:
            told = "\n  ".join(f"rank {rank}: {text}" for rank, text in failures.items())
            raise CheckpointException(
                f"[checkpoint.{what}] success on all ranks was required: got failures on "
                f"{len(failures)} of {self.size}\n  {told}\nhint: the checkpoint before is whole",
                failures,
            )
        return [value for _, value in every]


def _state_of(state: dict[str, Any]) -> dict[str, Any]:
    """The state, with that of objects that have one."""
    return {k: v.state_dict() if isinstance(v, Stateful) else v for k, v in state.items()}


def _folder(checkpoint_id: Any, given: Any, make: Callable[[Any], Any], op: str) -> Any:
    if given is not None:
        return given
    if checkpoint_id is None:
        fail(ValueError, f"checkpoint.{op}", "a checkpoint_id or a storage was required", "neither",
             "for example checkpoint_id='checkpoints/step-100'")  # fmt: skip
    return make(checkpoint_id)


# ------------------------------------------------------------------ saving


def _pickled(value: Any) -> bytes:
    buffer = io.BytesIO()
    save_file(value, buffer)
    return buffer.getvalue()


def _named(state: dict[str, Any]) -> list[tuple[str, Any, Any]]:
    """The entries of a state: name, path and value. Two of one name would be read from one place."""
    found = list(entries(state))
    paths: dict[str, Any] = {}
    for name, path, _ in found:
        if name in paths:
            fail(ValueError, "checkpoint", f"names of their own were required for all entries (duplicated "
                 f"flatten key {name!r})", f"{paths[name]} and {path}", "rename one of the keys")  # fmt: skip
        paths[name] = path
    return found


def _has_pieces(value: Any) -> bool:
    """Whether a value is written as pieces of its elements: others, sparse and quantized tensors among
    them, are written as `facula.save` does."""
    if isinstance(value, DTensor) or not isinstance(value, Tensor):
        return isinstance(value, DTensor)
    return value.layout is core.strided and not value.is_quantized


def _offered(state: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """What this rank could write: name -> description with the beginnings of pieces; name -> value."""
    offers: dict[str, Any] = {}
    values: dict[str, Any] = {}
    for name, _, value in _named(state):
        values[name] = value
        if _has_pieces(value):
            shape, pieces = pieces_of(value)
            sizes = [(start, tuple(t.shape)) for start, t in pieces]
            offers[name] = {"dtype": str(value.dtype).rpartition(".")[2], "shape": shape, "pieces": sizes,
                            "alike": not isinstance(value, DTensor)}  # fmt: skip
        else:
            offers[name] = None
    return offers, values


def _shared_out(every: list[dict[str, Any]]) -> list[list[tuple[str, Any]]]:
    """Who writes what: each piece goes to the rank that has it and has least to write."""
    plans: list[list[tuple[str, Any]]] = [[] for _ in every]
    load = [0] * len(every)
    who: dict[tuple[str, Any], list[int]] = {}
    sizes: dict[tuple[str, Any], int] = {}
    for rank, offers in enumerate(every):
        for name, offer in offers.items():
            for start, size in offer["pieces"] if offer is not None else [(None, ())]:
                count = 1
                for s in size:
                    count *= s
                if count or offer is None:
                    who.setdefault((name, start), []).append(rank)
                    sizes[(name, start)] = count
    for key, ranks in who.items():
        # numbers of unlike tensors of equal name count on the first rank that has them
        rank = min(ranks, key=lambda r: (load[r], r))
        plans[rank].append(key)
        load[rank] += sizes[key]
    return plans


def _write(
    writer: FileSystemWriter,
    name: str,
    rank: int,
    plan: list[tuple[str, Any]],
    values: dict[str, Any],
) -> list[Any]:
    """Write this rank's part; gives (name, start, size, place) of each piece."""
    described: list[Any] = []
    held: list[Any] = []

    def parts() -> Any:
        for key, start in plan:
            value = values[key]
            if start is None:
                described.append((key, None, None))
                yield _pickled(value)
                continue
            _, pieces = pieces_of(value)
            tensor = next(t for s, t in pieces if s == start)
            dense = host(tensor)
            held[:] = [dense]
            described.append((key, start, tuple(dense.shape)))
            yield view_of(dense)

    places = writer.write(name, rank, parts())
    return [(*d, place) for d, place in zip(described, places, strict=True)]


def _contents(every: list[dict[str, Any]], written: list[list[Any]]) -> dict[str, Any]:
    table: dict[str, Any] = {}
    for offers in every:
        for name, offer in offers.items():
            if name not in table:
                kind = {} if offer is None else {"dtype": offer["dtype"], "shape": offer["shape"]}
                table[name] = {**kind, "pieces": []}
    for results in written:
        for name, start, size, place in results:
            table[name]["pieces"].append([start, size, place])
    return {"format": 1, "entries": table}


def save(
    state_dict: dict[str, Any],
    *,
    checkpoint_id: Any = None,
    storage_writer: FileSystemWriter | None = None,
    planner: Any = None,
    process_group: Any = None,
    no_dist: bool = False,
    use_collectives: bool = True,
) -> Metadata:
    """Write a state, in which tensors may be distributed; all ranks call this. Gives what was written.

    Args:
        checkpoint_id: a folder. A checkpoint in it stays until the new one is whole.
        planner: a `DefaultSavePlanner`, which is the default.
        use_collectives: kept for PyTorch's API.
        no_dist: whether this process writes alone.

    Raises:
        CheckpointException: ranks that could not write, by name.
    """
    checked_planner(planner, DefaultSavePlanner, "save")
    ranks = _Ranks(process_group, no_dist)
    writer = _folder(checkpoint_id, storage_writer, FileSystemWriter, "save")
    state = _state_of(state_dict)
    name = ranks.first(
        ranks.together("save", lambda: writer.begin() if ranks.rank == 0 else None)[0]
    )
    held: list[Any] = []
    ranks.together("save", lambda: held.append(_offered(state)))
    offers, values = held[0]
    every = ranks.every(offers)
    plan = _shared_out(every)[ranks.rank]
    try:
        written = ranks.together("save", lambda: _write(writer, name, ranks.rank, plan, values))
        contents = _contents(every, written)
        ranks.together("save", lambda: ranks.rank == 0 and writer.finish(name, contents) or None)
    except BaseException:
        writer.give_up(name, ranks.rank)
        raise
    return metadata_of(contents)


def _copied(value: Any) -> Any:
    """A state of its own: tensors are copied."""
    if isinstance(value, DTensor):
        return value.detach().clone()
    if isinstance(value, Tensor):
        return value.detach().cpu().clone()
    if isinstance(value, dict):
        return {k: _copied(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_copied(v) for v in value)
    return value


_GROUPS: dict[int, Any] = {}


def async_save(
    state_dict: dict[str, Any], *, checkpoint_id: Any = None, storage_writer: Any = None,
    planner: Any = None, process_group: Any = None, no_dist: bool = False, **options: Any,
) -> Future:  # fmt: skip
    """`save` of a copy, in a thread: training may go on. Gives a future.

    Args:
        options: kept for PyTorch's API.
    """
    checked_planner(planner, DefaultSavePlanner, "async_save")
    copy = _copied(_state_of(state_dict))
    group = None
    if world.is_initialized() and not no_dist:
        # the thread's collectives need a group of their own, to stay in step
        source = process_group or world.default_group()
        if _GROUPS.get(id(world.default_group()), (None,))[0] is not source:
            _GROUPS[id(world.default_group())] = source, world.new_group(source.ranks)
        group = _GROUPS[id(world.default_group())][1]
    future: Future = Future()

    def run() -> None:
        try:
            future.set_result(save(copy, checkpoint_id=checkpoint_id, storage_writer=storage_writer,
                                   process_group=group, no_dist=no_dist))  # fmt: skip
        except Exception as error:
            future.set_exception(error)

    threading.Thread(target=run, name="facula-checkpoint").start()
    return future


# ------------------------------------------------------------------ loading


def _overlap(
    start: Any, size: Any, other_start: Any, other_size: Any
) -> tuple[list[slice], list[slice]] | None:
    """The part that two pieces have in common, in each of them."""
    mine, theirs = [], []
    for a, n, b, m in zip(start, size, other_start, other_size, strict=True):
        low, high = max(a, b), min(a + n, b + m)
        if low >= high:
            return None
        mine.append(slice(low - a, high - a))
        theirs.append(slice(low - b, high - b))
    return mine, theirs


def _fill(reader: FileSystemReader, name: str, value: Tensor, entry: dict[str, Any]) -> None:
    """Read what this rank's pieces of a tensor need."""
    shape, pieces = pieces_of(value)
    if "shape" not in entry or tuple(entry["shape"]) != shape:
        fail(ValueError, "checkpoint.load", f"{name} of shape {shape} was required (size mismatch)",
             tuple(entry["shape"]) if "shape" in entry else "no tensor",
             "load into tensors of the shapes that were saved")  # fmt: skip
    saved = dtype_named(entry["dtype"])
    for start, piece in pieces:
        left = piece.numel()
        seen: list[tuple[Any, Any]] = []
        for other, size, place in entry["pieces"]:
            common = _overlap(start, piece.shape, other, size)
            if common is None:
                continue
            if any(_overlap(other, size, *before) is not None for before in seen):
                fail(RuntimeError, "checkpoint.load", f"pieces of {name} that do not lie over each other were "
                     "required", f"one at {other}", "the table of contents was changed")  # fmt: skip
            seen.append((other, size))
            mine, theirs = common
            like = core.empty((0,), dtype=saved)
            source = tensor_of(reader.read(place), like).view(tuple(size))
            part = source[tuple(theirs)] if theirs else source
            (piece[tuple(mine)] if mine else piece).copy_(part)
            left -= part.numel()
        if left != 0:
            fail(RuntimeError, "checkpoint.load", f"all of {name} was required, once", f"{abs(left)} elements "
                 f"{'less' if left > 0 else 'more'}", "the checkpoint lacks pieces: load another one")  # fmt: skip


def load(
    state_dict: dict[str, Any],
    *,
    checkpoint_id: Any = None,
    storage_reader: FileSystemReader | None = None,
    planner: DefaultLoadPlanner | None = None,
    process_group: Any = None,
    no_dist: bool = False,
) -> None:
    """Read a checkpoint into a state, in place: tensors are written, other values exchanged.

    Args:
        checkpoint_id: the folder. It may have been written by another number of ranks, on another mesh.
        planner: a `DefaultLoadPlanner`, which is the default; it says whether entries may be missing.
    """
    partial = checked_planner(planner, DefaultLoadPlanner, "load").allow_partial_load
    ranks = _Ranks(process_group, no_dist)
    reader = _folder(checkpoint_id, storage_reader, FileSystemReader, "load")
    state = _state_of(state_dict)

    def run() -> None:
        try:
            read()
        except (
            ValueError,
            TypeError,
            LookupError,
            AttributeError,
            ArithmeticError,
            RecursionError,
        ) as error:
            if str(error).startswith("["):
                raise
            fail(RuntimeError, "checkpoint.load", "a whole table of contents was required",
                 f"{type(error).__name__}: {error}", "it was changed: load another checkpoint")  # fmt: skip

    def read() -> None:
        table = reader.contents()["entries"]
        recording = core.set_grad_enabled(False)
        try:
            for name, path, value in _named(state):
                entry = table.get(name)
                if entry is None and partial:
                    continue
                if entry is None:
                    fail(RuntimeError, "checkpoint.load", f"an entry {name!r} was required (Missing key in "
                         "checkpoint state_dict)", f"{len(table)} others",
                         "load a state with the keys that were saved")  # fmt: skip
                if _has_pieces(value):
                    _fill(reader, name, value, entry)
                elif "shape" not in entry:
                    buffer = io.BytesIO(reader.read(entry["pieces"][0][2]))
                    put(state, path, load_file(buffer))
                else:
                    made = core.empty(tuple(entry["shape"]), dtype=dtype_named(entry["dtype"]))
                    _fill(reader, name, made, entry)
                    put(state, path, made)
        finally:
            core.set_grad_enabled(recording)

    ranks.together("load", run)
    for key, value in state_dict.items():
        if isinstance(value, Stateful):
            value.load_state_dict(state[key])
        else:
            state_dict[key] = state[key]

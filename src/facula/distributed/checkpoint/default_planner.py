"""The planners that `save` and `load` use, where none is given.

Takes: a state. Gives: `DefaultSavePlanner`, `DefaultLoadPlanner`, and the functions that they consist of.
Keeps true: every entry is written, each piece by one of the ranks that have it; pieces do not lie over each other,
and make the whole tensor together.
"""

from __future__ import annotations

import io
import math
from dataclasses import replace
from typing import Any

from facula import core
from facula.core.errors import fail
from facula.distributed.checkpoint._nested_dict import FLATTEN_MAPPING, flatten_state_dict
from facula.distributed.checkpoint._traverse import set_element
from facula.distributed.checkpoint.metadata import (
    BytesStorageMetadata,
    Metadata,
    MetadataIndex,
    StorageMeta,
    TensorStorageMetadata,
)
from facula.distributed.checkpoint.pieces import find_state_dict_object, has_pieces, settled
from facula.distributed.checkpoint.planner import (
    LoadPlan,
    LoadPlanner,
    ReadItem,
    SavePlan,
    SavePlanner,
    WriteItem,
    WriteItemType,
)
from facula.distributed.checkpoint.planner_helpers import (
    create_read_items,
    create_write_items,
    dedup_save_plans,
    overlap,
)
from facula.serialization import load as load_file
from facula.serialization import save as save_file

__all__ = [
    "DefaultLoadPlanner", "DefaultSavePlanner", "create_default_global_load_plan",
    "create_default_global_save_plan", "create_default_local_load_plan", "create_default_local_save_plan",
]  # fmt: skip


class DefaultSavePlanner(SavePlanner):
    """Writes every entry, each piece from one of the ranks that have it.

    Args:
        flatten_state_dict: whether nested states are written entry by entry, named by the path of their keys.
        dedup_save_to_lowest_rank: whether what many ranks have is written by the first of them; otherwise by
            the one that has least to write.
        enable_plan_caching: whether plans of the checkpoint before are used again where the state has
            the same entries.
        flatten_sharded_tensors, dedup_replicated_tensors: kept for PyTorch's API, where they change nothing.
    """

    mappings: FLATTEN_MAPPING

    def __init__(
        self, flatten_state_dict: bool = True, flatten_sharded_tensors: bool = True,
        dedup_replicated_tensors: bool | None = None, dedup_save_to_lowest_rank: bool = False,
        enable_plan_caching: bool = False,
    ) -> None:  # fmt: skip
        self.flatten_state_dict = flatten_state_dict
        self.flatten_sharded_tensors = flatten_sharded_tensors
        self.dedup_save_to_lowest_rank = dedup_save_to_lowest_rank
        self.mappings = {}
        self._cached_plans_key = type(self).__name__
        self._enable_plan_caching = enable_plan_caching
        self._pending: SavePlan | None = None

    def set_up_planner(
        self,
        state_dict: dict[str, Any],
        storage_meta: StorageMeta | None = None,
        is_coordinator: bool = False,
    ) -> None:
        """Take a state."""
        if self.flatten_state_dict:
            state_dict, self.mappings = flatten_state_dict(state_dict)
        self.state_dict, self.is_coordinator = settled(state_dict), is_coordinator

    def create_local_plan(self) -> SavePlan:
        """All entries of this rank."""
        plan = create_default_local_save_plan(self.state_dict, self.is_coordinator)
        if self.flatten_state_dict:
            plan = replace(plan, planner_data=self.mappings)
        self.plan = plan
        if self._enable_plan_caching:
            if SavePlanner._cached_save_plan.get(self._cached_plans_key) == plan:
                return SavePlan([], usable=False)
            self._pending = plan
        return plan

    def create_global_plan(self, all_plans: list[SavePlan]) -> tuple[list[SavePlan], Metadata]:
        """Each piece once."""
        self.global_plan, self.metadata, changed = all_plans, Metadata({}), all_plans
        if self._enable_plan_caching:
            changed = self._with_kept(all_plans)
        else:
            self.global_plan, self.metadata = self._once(all_plans)
            changed = self.global_plan
        return changed, self.metadata

    def _once(self, all_plans: list[SavePlan]) -> tuple[list[SavePlan], Metadata]:
        plans = dedup_save_plans(all_plans, self.dedup_save_to_lowest_rank)
        plans, metadata = create_default_global_save_plan(plans)
        if self.flatten_state_dict:
            merged: dict[str, Any] = {}
            for plan in reversed(all_plans):
                merged.update(plan.planner_data or {})
            metadata = replace(metadata, planner_data=merged)
        wrong = _validate_global_plan(plans, metadata)
        if wrong:
            fail(ValueError, "checkpoint.save", "pieces that make whole tensors were required (Failed to "
                 "validate global plan)", "; ".join(wrong)[:500],
                 "give the ranks of one tensor pieces that neither overlap nor leave anything out")  # fmt: skip
        return plans, metadata

    def _with_kept(self, all_plans: list[SavePlan]) -> list[SavePlan]:
        """Plans of this checkpoint; those of ranks for which nothing changed are left out."""
        key = self._cached_plans_key
        before = SavePlanner._cached_all_plans.get(key)
        if before is not None and not any(plan.usable for plan in all_plans):
            self.global_plan = SavePlanner._cached_global_plan[key]
            self.metadata = SavePlanner._cached_metadata[key]
            return [SavePlan([], usable=False) for _ in all_plans]
        if before is not None:
            both = zip(before, all_plans, strict=True)
            all_plans = [new if new.usable else old for old, new in both]
        old_global = SavePlanner._cached_global_plan.get(key)
        self.global_plan, self.metadata = self._once(all_plans)
        SavePlanner._cached_all_plans[key] = all_plans
        SavePlanner._cached_global_plan[key] = self.global_plan
        SavePlanner._cached_metadata[key] = self.metadata
        if old_global is None:
            return self.global_plan
        pairs = zip(old_global, self.global_plan, strict=True)
        return [SavePlan([], usable=False) if old == new else new for old, new in pairs]

    def finish_plan(self, new_plan: SavePlan) -> SavePlan:
        """This rank's plan, or the one before where nothing changed."""
        if self._enable_plan_caching:
            key = self._cached_plans_key
            if new_plan.usable:
                SavePlanner._cached_final_save_plan[key] = new_plan
            else:
                new_plan = SavePlanner._cached_final_save_plan[key]
            if self._pending is not None:
                SavePlanner._cached_save_plan[key], self._pending = self._pending, None
        self.plan = new_plan
        return new_plan

    def resolve_data(self, write_item: WriteItem) -> Any:
        """What is written for an item."""
        return self.transform_object(write_item, self.lookup_object(write_item.index))

    def lookup_object(self, index: MetadataIndex) -> Any:
        """The value of an index: for those that derive from this class."""
        return find_state_dict_object(self.state_dict, index)

    def transform_object(self, write_item: WriteItem, object: Any) -> Any:
        """A value as it is written: what is no tensor becomes bytes."""
        if write_item.type is WriteItemType.BYTE_IO:
            held = io.BytesIO()
            save_file(object, held)
            return held
        return object


class DefaultLoadPlanner(LoadPlanner):
    """Reads every entry of the state that is to be filled.

    Args:
        flatten_state_dict: whether nested states are read entry by entry.
        allow_partial_load: entries that the checkpoint does not have keep their values, instead of an error.
        flatten_sharded_tensors: kept for PyTorch's API.
    """

    original_state_dict: dict[str, Any]
    mappings: FLATTEN_MAPPING

    def __init__(
        self, flatten_state_dict: bool = True, flatten_sharded_tensors: bool = True,
        allow_partial_load: bool = False,
    ) -> None:  # fmt: skip
        self.flatten_state_dict = flatten_state_dict
        self.flatten_sharded_tensors = flatten_sharded_tensors
        self.allow_partial_load = allow_partial_load
        self.original_state_dict, self.mappings = {}, {}

    def set_up_planner(
        self,
        state_dict: dict[str, Any],
        metadata: Metadata | None = None,
        is_coordinator: bool = False,
    ) -> None:
        """Take the state that is to be filled; tensors on the meta device get memory."""
        _with_memory(state_dict)
        self.original_state_dict = state_dict
        if self.flatten_state_dict:
            state_dict, self.mappings = flatten_state_dict(state_dict)
        self.state_dict, self.metadata, self.is_coordinator = state_dict, metadata, is_coordinator

    def create_local_plan(self) -> LoadPlan:
        """All entries of this rank."""
        assert self.metadata is not None
        return create_default_local_load_plan(
            self.state_dict, self.metadata, not self.allow_partial_load
        )

    def create_global_plan(self, global_plan: list[LoadPlan]) -> list[LoadPlan]:
        """Each rank reads what it needs."""
        return create_default_global_load_plan(global_plan)

    def finish_plan(self, central_plan: LoadPlan) -> LoadPlan:
        """The plan as it is."""
        return central_plan

    def load_bytes(self, read_item: ReadItem, value: io.BytesIO) -> None:
        """Exchange an entry that is no tensor."""
        name, found = read_item.dest_index.fqn, load_file(value)
        if self.flatten_state_dict:
            set_element(self.original_state_dict, self.mappings[name], found)
        self.state_dict[name] = found

    def resolve_tensor(self, read_item: ReadItem) -> Any:
        """The part of a tensor that an item is for."""
        return self.transform_tensor(read_item, self.lookup_tensor(read_item.dest_index))

    def lookup_tensor(self, index: MetadataIndex) -> Any:
        """The piece of an index: for those that derive from this class."""
        return find_state_dict_object(self.state_dict, index)

    def transform_tensor(self, read_item: ReadItem, tensor: core.Tensor) -> Any:
        """The part of a piece that is written to."""
        return narrowed(tensor, read_item.dest_offsets, read_item.lengths)

    def commit_tensor(self, read_item: ReadItem, tensor: core.Tensor) -> None:
        """The part was written to, in place."""


class _EmptyStateDictLoadPlanner(DefaultLoadPlanner):
    """Fills an empty state with all that the checkpoint holds, or with the entries of some names."""

    def __init__(self, keys: set[str] | None = None, *args: Any, **kwargs: Any) -> None:
        self.keys = keys
        super().__init__(*args, **kwargs)

    def _wanted(self, name: str, path: Any) -> bool:
        if self.keys is None:
            return True
        starts = [".".join(map(str, path[: i + 1])) for i in range(len(path))]
        return name in self.keys or any(start in self.keys for start in starts)

    def set_up_planner(
        self,
        state_dict: dict[str, Any],
        metadata: Metadata | None = None,
        is_coordinator: bool = False,
    ) -> None:
        """Make the state that is to be filled."""
        if state_dict:
            fail(ValueError, "checkpoint.load", "an empty state was required", f"{len(state_dict)} entries",
                 "pass {}, which is filled")  # fmt: skip
        assert metadata is not None
        paths = metadata.planner_data or {}
        for name, md in metadata.state_dict_metadata.items():
            path = paths.get(name, (name,))
            if self._wanted(name, path):
                value = None
                if isinstance(md, TensorStorageMetadata):
                    value = core.empty(tuple(md.size), dtype=md.properties.dtype)
                set_element(state_dict, path, value)
        super().set_up_planner(state_dict, metadata, is_coordinator)


def narrowed(tensor: core.Tensor, offsets: Any, sizes: Any) -> Any:
    """The part of a tensor that begins somewhere and has these sizes."""
    for dim, (start, size) in enumerate(zip(offsets, sizes, strict=True)):
        if tensor.shape[dim] != size:
            tensor = tensor.narrow(dim, start, size)
    return tensor


def _with_memory(state: Any) -> None:
    """Exchange plain tensors on the meta device in a state by such with memory."""
    pairs = state.items() if isinstance(state, dict) else enumerate(state)
    for key, value in list(pairs):
        if isinstance(value, (dict, list)):
            _with_memory(value)
        elif isinstance(value, core.Tensor) and has_pieces(value) and value.is_meta:
            state[key] = core.empty(tuple(value.shape), dtype=value.dtype)


def create_default_local_save_plan(state_dict: dict[str, Any], is_coordinator: bool) -> SavePlan:
    """All that this rank could write."""
    return SavePlan(
        [item for name, value in state_dict.items() for item in create_write_items(name, value)]
    )


def create_default_global_save_plan(
    all_plans: list[SavePlan], rewrite_index_hints: bool = True
) -> tuple[list[SavePlan], Metadata]:
    """What the checkpoint holds where ranks write these plans.

    Args:
        rewrite_index_hints: whether the items' indices say which piece of its tensor each is.
    """
    found: dict[str, Any] = {}
    plans = []
    for plan in all_plans:
        items = []
        for item in plan.items:
            name, data = item.index.fqn, item.tensor_data
            if item.type is not WriteItemType.SHARD and name in found:
                fail(ValueError, "checkpoint.save", f"one rank that writes {name} was required", "two",
                     "dedup_save_plans() leaves one of them")  # fmt: skip
            if data is None:
                found[name] = BytesStorageMetadata()
            else:
                md = found.setdefault(name, TensorStorageMetadata(data.properties, data.size, []))
                if rewrite_index_hints:
                    item = replace(item, index=replace(item.index, index=len(md.chunks)))
                md.chunks.append(data.chunk)
            items.append(item)
        plans.append(replace(plan, items=items))
    return plans, Metadata(found)


def _validate_global_plan(global_plan: list[SavePlan], metadata: Metadata) -> list[str]:
    """What is wrong with the pieces of a checkpoint, in words; nothing where all is well."""
    wrong = []
    for name, md in metadata.state_dict_metadata.items():
        if not isinstance(md, TensorStorageMetadata):
            continue
        whole = type(md.chunks[0])([0] * len(md.size), md.size) if md.chunks else None
        for chunk in md.chunks:
            inside = zip(chunk.offsets, chunk.sizes, md.size, strict=True)
            if any(a < 0 or n < 0 or a + n > total for a, n, total in inside):
                wrong.append(f"key:{name} has out of bounds chunk {chunk} of {whole}")
        wrong += [f"key:{name} has overlapping chunks: {a} {b}" for a, b in overlapping(md.chunks)]
        count = sum(math.prod(chunk.sizes) for chunk in md.chunks)
        if count != math.prod(md.size):
            wrong.append(
                f"key:{name} invalid fill: {math.prod(md.size)} elements, {count} in chunks"
            )
    return wrong


def overlapping(chunks: list[Any]) -> list[tuple[Any, Any]]:
    """Pieces that lie over each other: after one in order, only those are looked at that begin within it."""
    if len(chunks) < 2 or not len(chunks[0].offsets):
        return [(chunks[0], chunks[1])] if len(chunks) > 1 else []
    dims = range(len(chunks[0].offsets))
    dim = max(dims, key=lambda d: len({chunk.offsets[d] for chunk in chunks}))
    order = sorted(chunks, key=lambda chunk: chunk.offsets[dim])
    found = []
    for i, one in enumerate(order):
        for other in order[i + 1 :]:
            if other.offsets[dim] >= one.offsets[dim] + one.sizes[dim]:
                break
            if overlap(one, other) is not None:
                found.append((one, other))
    return found


def create_default_local_load_plan(
    state_dict: dict[str, Any], metadata: Metadata, strict: bool = True
) -> LoadPlan:
    """What this rank reads to fill a state.

    Args:
        strict: whether an entry that the checkpoint does not have is an error.
    """
    items: list[ReadItem] = []
    held = metadata.state_dict_metadata
    for name, value in state_dict.items():
        md = held.get(name)
        if md is None:
            if strict:
                fail(RuntimeError, "checkpoint.load", f"an entry {name!r} was required (Missing key in "
                     "checkpoint state_dict)", f"{len(held)} others",
                     "load a state with the keys that were saved")  # fmt: skip
            continue
        if isinstance(md, TensorStorageMetadata) and has_pieces(value):
            _check(name, md, value)
        items += create_read_items(name, md, value)
    return LoadPlan(items)


def _check(name: str, md: TensorStorageMetadata, value: Any) -> None:
    if tuple(md.size) != tuple(value.shape):
        fail(ValueError, "checkpoint.load", f"{name} of shape {tuple(value.shape)} was required (Size mismatch "
             "between saved and current, size mismatch)", tuple(md.size),
             "load into tensors of the shapes that were saved")  # fmt: skip
    twice = overlapping(md.chunks)
    if twice:
        fail(RuntimeError, "checkpoint.load", f"pieces of {name} that do not lie over each other were "
             "required", f"one at {tuple(twice[0][1].offsets)}", "the table of contents was changed")  # fmt: skip


def create_default_global_load_plan(all_plans: list[LoadPlan]) -> list[LoadPlan]:
    """Each rank reads what it needs."""
    return all_plans

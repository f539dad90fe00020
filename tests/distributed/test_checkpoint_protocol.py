"""Planners and storages of users: when they are asked, and what they may change."""

from __future__ import annotations

import io
import json
import os
import pickle
import stat
from concurrent.futures import Future as PythonFuture
from dataclasses import replace

import pytest
import ranks

import facula
from facula.distributed import checkpoint
from facula.distributed.checkpoint import (
    DefaultLoadPlanner,
    DefaultSavePlanner,
    FileSystemReader,
    FileSystemWriter,
    HuggingFaceStorageReader,
    HuggingFaceStorageWriter,
    LoadPlanner,
    SavePlanner,
)
from facula.distributed.checkpoint.format_utils import (
    BroadcastingTorchSaveReader,
    DynamicMetaLoadPlanner,
    dcp_to_torch_save,
    torch_save_to_dcp,
)
from facula.distributed.checkpoint.metadata import Metadata, MetadataIndex, TensorProperties
from facula.distributed.checkpoint.planner import LoadItemType, LoadPlan, SavePlan, WriteItemType
from facula.distributed.checkpoint.staging import DefaultStager, StagingOptions
from facula.distributed.checkpoint.state_dict_loader import _load_state_dict_from_keys
from facula.distributed.checkpoint.state_dict_saver import AsyncSaveResponse
from facula.distributed.checkpoint.storage import StorageReader, StorageWriter, WriteResult
from facula.serialization.safetensors import load_file, load_metadata


def state() -> dict:
    return {
        "model": {"w": facula.arange(6.0).reshape(2, 3)},
        "step": 7,
        "many": [facula.ones(2), 5],
    }


def empty() -> dict:
    return {"model": {"w": facula.zeros(2, 3)}, "step": 0, "many": [facula.zeros(2), 0]}


def whole(found: dict) -> bool:
    rest = found["step"], found["many"][0].tolist(), found["many"][1]
    return found["model"]["w"].tolist() == [[0, 1, 2], [3, 4, 5]] and rest == (7, [1, 1], 5)


def test_save_planners_are_asked_in_order(tmp_path):
    asked = []

    class Told(DefaultSavePlanner):
        def set_up_planner(self, state_dict, storage_meta=None, is_coordinator=False):
            asked.append(("set_up_planner", storage_meta.checkpoint_id, is_coordinator))
            super().set_up_planner(state_dict, storage_meta, is_coordinator)

        def create_local_plan(self):
            asked.append("create_local_plan")
            return super().create_local_plan()

        def create_global_plan(self, all_plans):
            asked.append(f"create_global_plan {len(all_plans)}")
            return super().create_global_plan(all_plans)

        def finish_plan(self, new_plan):
            asked.append("finish_plan")
            return super().finish_plan(new_plan)

        def resolve_data(self, write_item):
            asked.append(write_item.index.fqn)
            return super().resolve_data(write_item)

    checkpoint.save(state(), checkpoint_id=tmp_path, planner=Told())
    assert asked[:4] == [
        ("set_up_planner", os.fspath(tmp_path), True), "create_local_plan", "create_global_plan 1",
        "finish_plan",
    ]  # fmt: skip
    assert asked[4:] == ["model.w", "step", "many.0", "many.1"]


def test_load_planners_are_asked_in_order(tmp_path):
    checkpoint.save(state(), checkpoint_id=tmp_path)
    asked = []

    class Told(DefaultLoadPlanner):
        def set_up_planner(self, state_dict, metadata=None, is_coordinator=False):
            asked.append(sorted(metadata.state_dict_metadata))
            super().set_up_planner(state_dict, metadata, is_coordinator)

        def create_local_plan(self):
            asked.append("create_local_plan")
            return super().create_local_plan()

        def create_global_plan(self, global_plan):
            asked.append("create_global_plan")
            return super().create_global_plan(global_plan)

        def finish_plan(self, central_plan):
            asked.append("finish_plan")
            return super().finish_plan(central_plan)

        def load_bytes(self, read_item, value):
            asked.append(f"load_bytes {read_item.dest_index.fqn}")
            super().load_bytes(read_item, value)

        def resolve_tensor(self, read_item):
            asked.append(f"resolve_tensor {read_item.dest_index.fqn}")
            return super().resolve_tensor(read_item)

        def commit_tensor(self, read_item, tensor):
            asked.append(f"commit_tensor {tensor.tolist()}")

    found = empty()
    checkpoint.load(found, checkpoint_id=tmp_path, planner=Told())
    assert whole(found)
    assert asked[:4] == [
        ["many.0", "many.1", "model.w", "step"],
        "create_local_plan", "create_global_plan", "finish_plan",
    ]  # fmt: skip
    assert asked[4:] == [
        "resolve_tensor model.w", "commit_tensor [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]", "load_bytes step",
        "resolve_tensor many.0", "commit_tensor [1.0, 1.0]", "load_bytes many.1",
    ]  # fmt: skip


def test_planners_that_rename_and_convert(tmp_path):
    class Renamed(DefaultSavePlanner):
        def set_up_planner(self, state_dict, storage_meta=None, is_coordinator=False):
            named = {f"foo_{k}": v for k, v in state_dict.items()}
            super().set_up_planner(named, storage_meta, is_coordinator)

    class Half(DefaultSavePlanner):
        def create_local_plan(self):
            plan = super().create_local_plan()
            for item in plan.items:
                if item.tensor_data is not None:
                    item.tensor_data.properties.dtype = facula.float16
            return plan

        def resolve_data(self, write_item):
            found = super().resolve_data(write_item)
            return found if write_item.type is WriteItemType.BYTE_IO else found.half()

    checkpoint.save({"x": facula.ones(2)}, checkpoint_id=tmp_path / "a", planner=Renamed())
    found = {"foo_x": facula.zeros(2)}
    checkpoint.load(found, checkpoint_id=tmp_path / "a")
    assert found["foo_x"].tolist() == [1, 1]
    written = checkpoint.save(
        {"x": facula.full((2,), 0.1), "n": 1}, checkpoint_id=tmp_path / "b", planner=Half()
    )
    assert written.state_dict_metadata["x"].properties.dtype is facula.float16
    found = {"x": facula.zeros(2), "n": 0}
    checkpoint.load(found, checkpoint_id=tmp_path / "b")
    assert found["x"].tolist() == [float(facula.tensor(0.1).half())] * 2 and found["n"] == 1


def test_states_that_are_not_flattened(tmp_path):
    flat = {"x": facula.ones(2), "nested": {"a": [1, 2]}}
    planner = DefaultSavePlanner(flatten_state_dict=False)
    written = checkpoint.save(flat, checkpoint_id=tmp_path, planner=planner)
    assert sorted(written.state_dict_metadata) == ["nested", "x"] and written.planner_data is None
    found = {"x": facula.zeros(2), "nested": None}
    checkpoint.load(
        found, checkpoint_id=tmp_path, planner=DefaultLoadPlanner(flatten_state_dict=False)
    )
    assert found["x"].tolist() == [1, 1] and found["nested"] == {"a": [1, 2]}


def test_plans_that_are_kept(tmp_path):
    resolved = []

    class Keeps(DefaultSavePlanner):
        def __init__(self):
            super().__init__(enable_plan_caching=True)

        def create_local_plan(self):
            plan = super().create_local_plan()
            resolved.append(plan.usable)
            return plan

    for value in (1.0, 2.0):
        name = tmp_path / str(value)
        checkpoint.save({"x": facula.full((3,), value)}, checkpoint_id=name, planner=Keeps())
        found = {"x": facula.zeros(3)}
        checkpoint.load(found, checkpoint_id=name)
        assert found["x"].tolist() == [value] * 3
    assert resolved == [True, False]
    changed = {"x": facula.ones(3), "y": facula.ones(1)}
    checkpoint.save(changed, checkpoint_id=tmp_path / "3", planner=Keeps())
    found = {"y": facula.zeros(1)}
    checkpoint.load(found, checkpoint_id=tmp_path / "3")
    assert found["y"].tolist() == [1] and resolved[-1]


class Memory:
    """A storage that is no folder."""

    held: dict = {}  # noqa: RUF012


class MemoryWriter(StorageWriter):
    def __init__(self) -> None:
        self.asked: list[str] = []

    def reset(self, checkpoint_id=None):
        self.asked.append("reset")

    def set_up_storage_writer(self, is_coordinator):
        self.asked.append("set_up_storage_writer")

    def prepare_local_plan(self, plan):
        self.asked.append("prepare_local_plan")
        return plan

    def prepare_global_plan(self, plans):
        self.asked.append("prepare_global_plan")
        return [replace(p, storage_data=f"rank {i}") for i, p in enumerate(plans)]

    def write_data(self, plan, planner):
        assert plan.storage_data == "rank 0"
        results = []
        for item in plan.items:
            data = planner.resolve_data(item)
            Memory.held[item.index] = (
                data.getvalue() if isinstance(data, io.BytesIO) else data.clone()
            )
            results.append(WriteResult(item.index, 1, str(item.index)))
        future = PythonFuture()
        future.set_result(results)
        return future

    def finish(self, metadata, results):
        self.asked.append("finish")
        metadata.storage_data = {r.index: r.storage_data for r in results[0]}
        Memory.held["contents"] = metadata

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id):
        return True


class MemoryReader(StorageReader):
    def reset(self, checkpoint_id=None):
        pass

    def read_metadata(self):
        return Memory.held["contents"]

    def set_up_storage_reader(self, metadata, is_coordinator):
        self.places = metadata.storage_data

    def prepare_local_plan(self, plan):
        return plan

    def prepare_global_plan(self, plans):
        return plans

    def read_data(self, plan, planner):
        for item in plan.items:
            assert self.places[item.storage_index] == str(item.storage_index)
            data = Memory.held[item.storage_index]
            if item.type is LoadItemType.BYTE_IO:
                planner.load_bytes(item, io.BytesIO(data))
            else:
                target = planner.resolve_tensor(item)
                target.copy_(data)
                planner.commit_tensor(item, target)
        future = facula.futures.Future()
        future.set_result(None)
        return future

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id):
        return True


def test_storages_of_users():
    writer = MemoryWriter()
    checkpoint.save(state(), storage_writer=writer)
    assert writer.asked == [
        "reset", "set_up_storage_writer", "prepare_local_plan", "prepare_global_plan", "finish"
    ]  # fmt: skip
    found = empty()
    checkpoint.load(found, storage_reader=MemoryReader())
    assert whole(found)
    found = empty()
    checkpoint.load_state_dict(found, MemoryReader(), no_dist=True)
    assert whole(found)


def test_protocols_are_abstract():
    for kind in (SavePlanner, LoadPlanner, StorageReader, StorageWriter):
        with pytest.raises(TypeError, match="abstract"):
            kind()


@pytest.mark.parametrize(
    "options", [{"thread_count": 2}, {"single_file_per_rank": False}, {"sync_files": False}]
)
def test_options_of_folders(tmp_path, options):
    checkpoint.save(state(), storage_writer=FileSystemWriter(tmp_path, **options))
    found = empty()
    checkpoint.load(found, storage_reader=FileSystemReader(tmp_path))
    assert whole(found)
    files = [p for p in tmp_path.iterdir() if p.suffix == ".distcp"]
    assert (
        len(files)
        == {"thread_count": 2, "single_file_per_rank": 4, "sync_files": 1}[next(iter(options))]
    )


def test_folders_that_may_not_be_overwritten(tmp_path):
    for _ in range(2):
        checkpoint.save(state(), checkpoint_id=tmp_path)
    assert len([p for p in tmp_path.iterdir() if p.suffix == ".distcp"]) == 1
    writer = FileSystemWriter(tmp_path, overwrite=False)
    with pytest.raises(checkpoint.CheckpointException, match="overwrite=False") as caught:
        checkpoint.save(state(), storage_writer=writer)
    error, summary = caught.value.failures[0]
    assert isinstance(error, RuntimeError) and summary
    assert FileSystemWriter.validate_checkpoint_id(tmp_path / "a" / "b")
    assert not FileSystemWriter.validate_checkpoint_id("s3://bucket/a")


def test_a_full_disk_leaves_the_checkpoint_before(tmp_path):
    checkpoint.save({"x": facula.ones(4)}, checkpoint_id=tmp_path)

    class Full(FileSystemWriter):
        def fill(self, stream, name, items, planner):
            super().fill(stream, name, items[:1], planner)
            raise OSError(28, "No space left on device")

    big = {"x": facula.zeros(4), "y": facula.zeros(4)}
    with pytest.raises(checkpoint.CheckpointException, match="No space left"):
        checkpoint.save(big, storage_writer=Full(tmp_path))
    assert len(list(tmp_path.iterdir())) == 2
    found = {"x": facula.zeros(4)}
    checkpoint.load(found, checkpoint_id=tmp_path)
    assert found["x"].tolist() == [1] * 4


def test_files_that_training_does_not_own_are_left(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "__init__.py").write_text("")
    for _ in range(2):
        checkpoint.save({"x": facula.ones(4)}, checkpoint_id=tmp_path)
    assert (tmp_path / "notes.txt").read_text() == "mine" and (tmp_path / "__init__.py").exists()
    assert stat.S_ISREG((tmp_path / ".metadata").stat().st_mode)


def test_the_table_of_contents_has_pytorchs_names(tmp_path):
    checkpoint.save(state(), checkpoint_id=tmp_path)
    names = facula.serialization.pickle_names.names_in((tmp_path / ".metadata").read_bytes())
    kind = "torch.distributed.checkpoint.metadata"
    assert {(kind, "Metadata"), (kind, "MetadataIndex"), (kind, "TensorStorageMetadata")} <= set(
        names
    )
    assert ("torch.distributed.checkpoint.filesystem", "_StorageInfo") in names
    assert all(module.startswith("torch") for module, _ in names)


def test_copies_while_training_goes_on(tmp_path):
    x = facula.ones(3)
    future = checkpoint.async_save({"x": x}, checkpoint_id=tmp_path / "a")
    x.zero_()
    assert isinstance(future.result(), Metadata)
    stager = DefaultStager(StagingOptions(use_async_staging=True))
    x.fill_(2.0)
    got = checkpoint.async_save({"x": x}, checkpoint_id=tmp_path / "b", async_stager=stager)
    assert isinstance(got, AsyncSaveResponse) and got.staging_completion.result() is None
    x.zero_()
    got.upload_completion.result()
    stager.close()
    writer = FileSystemWriter(tmp_path / "c", cache_staged_state_dict=True)
    for value in (3.0, 4.0):
        x.fill_(value)
        future = checkpoint.async_save({"x": x}, storage_writer=writer)
        before = writer.state_dict_cache["x"].data_ptr()
        future.result()
    assert writer.state_dict_cache["x"].data_ptr() == before
    for name, value in (("a", 1.0), ("b", 2.0), ("c", 4.0)):
        found = {"x": facula.zeros(3)}
        checkpoint.load(found, checkpoint_id=tmp_path / name)
        assert found["x"].tolist() == [value] * 3
    future = checkpoint.async_save({"x": x}, checkpoint_id=tmp_path / "b" / ".metadata" / "c")
    assert isinstance(future.exception(), checkpoint.CheckpointException)


def test_hugging_face_files(tmp_path):
    tensors = {"a": facula.arange(4.0), "b": facula.ones(2, 2, dtype=facula.bfloat16)}
    where = {"a": 1, "b": 2}
    writer = HuggingFaceStorageWriter(tmp_path, fqn_to_index_mapping=where, thread_count=2)
    checkpoint.save(tensors, storage_writer=writer)
    index = json.loads((tmp_path / "model.safetensors.index.json").read_text())
    assert index == {
        "metadata": {"total_size": 24},
        "weight_map": {
            "a": "model-00001-of-00002.safetensors",
            "b": "model-00002-of-00002.safetensors",
        },
    }
    path = tmp_path / "model-00001-of-00002.safetensors"
    assert load_file(path)["a"].tolist() == [0, 1, 2, 3] and load_metadata(path)["format"] == "pt"
    found = {"a": facula.zeros(4), "b": facula.zeros(2, 2, dtype=facula.bfloat16)}
    checkpoint.load(found, storage_reader=HuggingFaceStorageReader(tmp_path, thread_count=2))
    assert found["a"].tolist() == [0, 1, 2, 3] and found["b"].float().sum() == 4
    with pytest.raises(checkpoint.CheckpointException, match="safetensors files hold nothing else"):
        checkpoint.save({"n": 3}, storage_writer=HuggingFaceStorageWriter(tmp_path / "b"))
    with pytest.raises(
        checkpoint.CheckpointException, match="the number of a file was required for c"
    ):
        named = HuggingFaceStorageWriter(tmp_path / "c", fqn_to_index_mapping=where)
        checkpoint.save({"c": facula.ones(1)}, storage_writer=named)


def test_hugging_face_pieces_of_ranks(tmp_path):
    found = ranks.run(f"hugging_face {tmp_path}", 3, script="sharded_programs.py")
    assert found == [[True, True, True]] * 3
    whole = load_file(tmp_path / "model-00001-of-00001.safetensors")
    assert whole["cut"].tolist() == facula.arange(35.0).reshape(7, 5).tolist()
    assert whole["plain"].tolist() == [0, 1, 2, 3]
    files = sorted(p.name for p in (tmp_path / "sharded").iterdir())
    assert files[0] == "shard-00001-model-00001-of-00001.safetensors" and len(files) == 3


def test_meshes_that_differ(tmp_path):
    assert all(
        run == [True] * 6
        for run in ranks.run(f"reshard {tmp_path}", 4, script="sharded_programs.py")
    )


def test_planners_of_many_ranks(tmp_path):
    found = ranks.run(f"planners {tmp_path}", 2, script="sharded_programs.py")
    assert found[0] == [["a", "b"], [True, True], True, 2]
    assert found[1] == [["a", "b"], [False, True], True, 2]


def test_files_of_save_become_checkpoints_and_back(tmp_path):
    facula.save(state(), tmp_path / "one.pt")
    torch_save_to_dcp(tmp_path / "one.pt", tmp_path / "folder")
    found = empty()
    checkpoint.load(found, checkpoint_id=tmp_path / "folder")
    assert whole(found)
    dcp_to_torch_save(tmp_path / "folder", tmp_path / "two.pt")
    assert whole(facula.load(tmp_path / "two.pt"))
    part = _load_state_dict_from_keys("model", checkpoint_id=tmp_path / "folder")
    assert list(part) == ["model"] and part["model"]["w"].shape == (2, 3)
    found = {"model": {"w": facula.zeros(2, 3)}}
    reader = BroadcastingTorchSaveReader(tmp_path / "one.pt")
    checkpoint.load(found, storage_reader=reader, planner=DynamicMetaLoadPlanner())
    assert found["model"]["w"].tolist() == [[0, 1, 2], [3, 4, 5]]


def test_plans_travel(tmp_path):
    planner = DefaultSavePlanner()
    planner.set_up_planner(state(), is_coordinator=True)
    plan = planner.create_local_plan()
    assert pickle.loads(pickle.dumps(plan)) == plan
    assert [i.type for i in plan.items] == [
        WriteItemType.TENSOR, WriteItemType.BYTE_IO, WriteItemType.TENSOR, WriteItemType.BYTE_IO
    ]  # fmt: skip
    assert plan.items[0].tensor_storage_size() == 24 and plan.items[1].tensor_storage_size() is None
    assert plan.planner_data["many.0"] == ("many", 0)
    assert MetadataIndex("a", [1], 3) == MetadataIndex("a", (1,)) != MetadataIndex("a", (2,))
    assert TensorProperties.create_from_tensor(facula.ones(1)).dtype is facula.float32
    assert isinstance(SavePlan([]), SavePlan) and LoadPlan([]) == LoadPlan([])


def test_ranks_without_collectives(tmp_path):
    found = ranks.run(f"alone {tmp_path}", 2, script="sharded_programs.py")
    assert found == [[0.0], [1.0]]
    assert sorted(p.name for p in tmp_path.iterdir() if p.name.endswith(".metadata")) == [
        "__0.metadata", "__1.metadata"
    ]  # fmt: skip

"""Checkpoints of many ranks: read by others, whole whatever happens while the next one is written."""

from __future__ import annotations

import dataclasses
import os
import pickle

import pytest
import ranks

import facula
from facula.distributed import checkpoint
from facula.distributed.checkpoint.metadata_file import packed, unpacked


def run(program: str, size: int, folder: object, **options) -> list:
    return ranks.run(f"{program} {folder}", size, script="sharded_programs.py", **options)


def test_what_some_ranks_wrote_others_read(tmp_path):
    for _ in range(2):  # the second one takes the first one's place
        names = run("save_state", 3, tmp_path)[0]
        assert len(names) == 3 and len(set(names)) == 1
    for size in (1, 2):
        for got in run("load_state", size, tmp_path):
            assert got[:6] == [True, [0, 1, 2, 3], 17, [1, 1], {"x": True}, "t"]
            assert "'other'" in got[6][1] and "size mismatch" in got[7][1]


def test_training_goes_on_from_a_checkpoint(tmp_path):
    for want, got, kind, rate in run("training", 2, tmp_path):
        assert got == want and kind == "Tensor" and rate == 0.05


def test_the_last_checkpoint_stays_whole(tmp_path):
    first = run("broken", 2, tmp_path, dying=[1])[0]
    assert first[0][0] == "CheckpointException" and "rank 1: OSError: no space left" in first[0][1]
    assert "rank 1" in first[1][1] and first[2:] == [17, [0, 1, 2, 3]]


def saved(tmp_path):
    checkpoint.save({"x": facula.arange(8.0), "n": 3}, checkpoint_id=tmp_path)
    return tmp_path / ".metadata"


def test_two_entries_of_one_name_are_refused(tmp_path):
    state = {"a": {"b": facula.ones(2)}, "a.b": facula.zeros(2)}
    with pytest.raises(checkpoint.CheckpointException, match="duplicated flatten key 'a.b'"):
        checkpoint.save(state, checkpoint_id=tmp_path)


def piece(start, size):
    return checkpoint.ChunkStorageMetadata(start, size)


def info(found, **changed):
    for index, place in list(found.storage_data.items()):
        if index.fqn == "x":
            found.storage_data[index] = dataclasses.replace(place, **changed)


def entry(found):
    return found.state_dict_metadata["x"]


@pytest.mark.parametrize(
    "change",
    [
        lambda f: entry(f).chunks.append(entry(f).chunks[0]),
        lambda f: entry(f).chunks.__setitem__(0, piece((0,), (4,))),
        lambda f: entry(f).chunks.__setitem__(slice(None), [piece((0,), (4,))] * 2),
        # as many elements as there are, of which some are read twice and others never
        lambda f: entry(f).chunks.__setitem__(slice(None), [piece((0,), (5,)), piece((2,), (3,))]),
        lambda f: entry(f).chunks.__setitem__(0, 7),
        lambda f: entry(f).chunks.__setitem__(0, piece((4,), (8,))),
        lambda f: entry(f).chunks.__setitem__(0, piece(("x",), (8,))),
        lambda f: entry(f).chunks.__setitem__(0, piece((0, 0), (8,))),
        lambda f: entry(f).chunks.__setitem__(0, piece((0,), (1 << 70,))),
        lambda f: setattr(entry(f), "size", "8"),
        lambda f: setattr(entry(f), "chunks", None),
        lambda f: setattr(entry(f), "properties", None),
        lambda f: setattr(entry(f).properties, "dtype", "load_library"),
        lambda f: f.state_dict_metadata.__setitem__("x", 3),
        lambda f: setattr(f, "state_dict_metadata", []),
        lambda f: setattr(f, "storage_data", None),
        lambda f: f.storage_data.clear(),
        lambda f: info(f, relative_path=1.5),
        lambda f: info(f, relative_path="../x"),
        lambda f: info(f, relative_path="pipe"),
        lambda f: info(f, relative_path="."),
        lambda f: info(f, relative_path="none"),
        lambda f: info(f, length=-1),
        lambda f: info(f, length=1 << 62),
        lambda f: info(f, length=3),
        lambda f: info(f, offset=-1),
        lambda f: info(f, offset=1 << 70),
        lambda f: info(f, transform_descriptors=["zstd"]),
    ],
)
def test_a_changed_table_of_contents_is_refused(tmp_path, change):
    path = saved(tmp_path)
    found = unpacked(path.read_bytes(), "here")
    os.mkfifo(tmp_path / "pipe")
    change(found)
    path.write_bytes(packed(found))
    with pytest.raises(checkpoint.CheckpointException, match=r"rank 0: \w+: \["):
        checkpoint.load({"x": facula.zeros(8), "n": 0}, checkpoint_id=tmp_path)


class Runs:
    """What would run when a table of contents is read that is trusted."""

    def __reduce__(self):
        return os.system, ("true",)


def test_what_is_no_table_of_contents_is_refused(tmp_path):
    path = saved(tmp_path)
    whole = path.read_bytes()
    texts = [b"", b"[]", b"{", b"\xff", b"3", b"[" * 5000, pickle.dumps(3), pickle.dumps(Runs())]
    for text in [*texts, *(whole[:cut] for cut in range(1, len(whole), 37))]:
        path.write_bytes(text)
        with pytest.raises(checkpoint.CheckpointException, match=r"rank 0: \w+: \["):
            checkpoint.load({"x": facula.zeros(8), "n": 0}, checkpoint_id=tmp_path)


def test_tensors_without_plain_elements_come_back_as_they_were(tmp_path):
    eye, part = facula.eye(3), facula.arange(4.0)
    state = {
        "quantized": facula.quantize_per_tensor(part, 0.1, 3, facula.quint8),
        "coo": eye.to_sparse(),
        "csr": eye.to_sparse_csr(),
    }
    checkpoint.save(state, checkpoint_id=tmp_path)
    other = {
        "quantized": facula.quantize_per_tensor(part * 0, 0.5, 0, facula.quint8),
        "coo": (eye * 0).to_sparse(),
        "csr": (eye * 0).to_sparse_csr(),
    }
    checkpoint.load(other, checkpoint_id=tmp_path)
    assert other["quantized"].q_zero_point() == 3 and other["quantized"].int_repr().tolist() == [
        3,
        13,
        23,
        33,
    ]
    assert other["coo"].layout is facula.sparse_coo and (other["coo"].to_dense() == eye).all()
    assert other["csr"].layout is facula.sparse_csr and (other["csr"].to_dense() == eye).all()


@pytest.mark.parametrize("rate", [0.1, facula.tensor(0.1)])
def test_states_of_optimizers_that_made_no_step_yet(rate):
    model = facula.nn.Linear(3, 2)
    before = [p.detach().clone() for p in model.parameters()]
    optimizer = facula.optim.AdamW(model.parameters(), lr=rate, weight_decay=0.5)
    found = checkpoint.state_dict.get_optimizer_state_dict(model, optimizer)
    assert set(found["state"]) == {"weight", "bias"} and found["param_groups"][0]["lr"] == rate
    assert found["state"]["weight"]["exp_avg"].tolist() == [[0.0] * 3] * 2
    for p, old in zip(model.parameters(), before, strict=True):
        assert facula.equal(p, old) and p.grad is None


def test_planners_and_what_a_checkpoint_holds(tmp_path):
    state = {"model": {"w": facula.arange(6.0).reshape(2, 3)}, "step": 7}
    written = checkpoint.save(
        state, checkpoint_id=tmp_path, planner=checkpoint.DefaultSavePlanner()
    )
    for found in (written, checkpoint.FileSystemReader(tmp_path).read_metadata()):
        w = found.state_dict_metadata["model.w"]
        assert (w.properties.dtype, w.size) == (facula.float32, (2, 3))
        assert w.chunks == [checkpoint.ChunkStorageMetadata((0, 0), (2, 3))]
        assert found.state_dict_metadata["step"] == checkpoint.BytesStorageMetadata()
    into = {"model": {"w": facula.zeros(2, 3), "new": facula.full((2,), 5.0)}, "step": 0}
    with pytest.raises(checkpoint.CheckpointException, match="an entry 'model.new' was required"):
        checkpoint.load(into, checkpoint_id=tmp_path)
    planner = checkpoint.DefaultLoadPlanner(allow_partial_load=True)
    checkpoint.load(into, checkpoint_id=tmp_path, planner=planner)
    assert into["model"]["w"].tolist() == [[0, 1, 2], [3, 4, 5]] and into["step"] == 7
    assert into["model"]["new"].tolist() == [5, 5]

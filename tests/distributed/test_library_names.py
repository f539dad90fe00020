"""Names of `torch.distributed` that libraries use beside the documented ones, on several ranks."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import ranks

import facula
from facula import nn
from facula.distributed import argparse_util, utils
from facula.distributed._shard.sharding_spec import (
    ChunkShardingSpec,
    EnumerableShardingSpec,
    ShardMetadata,
)
from facula.distributed.algorithms._checkpoint import checkpoint_wrapper as wrapper
from facula.distributed.engines import Backend
from facula.distributed.fsdp import wrap
from facula.distributed.options import AllreduceOptions, BackendConfig, supports_complex
from facula.distributed.tensor.placement_types import Shard
from facula.distributed.types import ReduceOp


def run(program: str, size: int = 2, **options) -> list:
    return ranks.run(program, size, script="library_programs.py", **options)


def test_states_of_optimizers_under_names_and_numbers():
    first, second = run("optimizers")
    names = ["0.weight", "0.bias", "2.weight", "2.bias"]
    for found in (first, second):
        for original in ("False", "True"):
            for part in ("full", "back", "sharded", "shard", "scatter"):
                assert found[f"{original} {part}"] < 1e-15, part
            assert found[f"{original} numbers"][1] == list(range(len(names)))
            assert sorted(found[f"{original} numbers"][0]) == list(range(len(names)))
            assert found[f"{original} kinds"] == ["DTensor"]
        assert found["unknown"][0] == "ValueError" and "99" in found["unknown"][1]
    assert first["True first only"] and not second["True first only"]


def test_a_step_is_left_out_on_all_ranks_or_on_none():
    first, second = run("scaling")
    assert first[:2] == second[:2] == [[[0.75, 0.75], 8.0], [[1.0, 1.0], 2.0]]
    assert first[2] == [[0.75, 0.75], 4.0] and second[2] == [[1.0, 1.0], 4.0]


def test_an_optimizer_is_read_in_pieces(tmp_path):
    for found in run(f"saved {tmp_path / 'kept'}"):
        apart, kinds, steps, rate, unknown, far = found
        assert apart == 0.0 and kinds == ["DTensor"] and steps == [1.0] * 4 and rate == 0.1
        assert unknown[0] == "ValueError" and "'model', 'optim'" in unknown[1]
        assert far == 0.0


def test_whole_files_from_pieces(tmp_path):
    first, second = run(f"consolidated {tmp_path}")
    for found in (first, second):
        for name in ("one", "all"):
            same, index = found[name]
            assert same and index["metadata"]["total_size"] == 4 * 22
            assert index["weight_map"] == {
                "a": "model-00001-of-00002.safetensors",
                "b": "model-00002-of-00002.safetensors",
            }
        assert "an entry z was required" in found["unknown"][1]
    assert first["lost"][0] == "RuntimeError" and "of 15 elements" in first["lost"][1]


def test_modules_begin_alike_on_all_ranks():
    for rank, found in enumerate(run("wrapped")):
        assert found["same"] and found["kept"], rank
        assert found["mean"] == [0.0] * 4
        assert found["uneven"][0] == "RuntimeError" and "parameter 1" in found["uneven"][1]


def test_tables_of_groups():
    first, second = run("groups")
    for found in (first, second):
        assert found["one"] == [1, True, "gloo"]
        assert found["ranks"] == [[0, 0], [1, 1]]
        assert found["gathered"] == [[[0.0, 0.0], [10.0]], [[1.0, 1.0], [11.0]]]
        assert found["single"] == [0.0, 0.0, 1.0, 1.0]
        assert "2 lists were required" in found["short"][1]
        assert found["config"] == "cpu:gloo,cuda:gloo" and found["none"] == [0, False]
    assert first["two"] == [2, True, True] and second["two"] == [1, False, True]


def test_parameters_are_averaged_in_groups_that_grow():
    for rank, found in enumerate(run("averaging", 4)):
        pair = 0.5 if rank < 2 else 2.5
        # steps 1 and 3 average pairs, 2 averages all; 0 is warm-up
        assert found["seen"] == [float(rank), pair, 1.5, pair]
        assert [kind for kind, _ in found["bad"]] == ["ValueError"] * 3
        own = float(rank + 1)
        after = -2.5 - own * 1.5  # momentum 0.5 after the mean of the first steps
        mean = after - 1.75 * own  # the third step's, before the mean
        means = -2.5 - 1.5 * 2.5 - 1.75 * 2.5
        assert found["weights"] == [-2.5, after, means] and mean != means
        assert found["told"] == [3, 1.0, 1] and found["anew"] == [0, 1]


# ------------------------------------------------------------------ one process


def test_arguments_are_packed_moved_and_cast():
    flat, names = utils._pack_kwargs(1, 2, a=3, b=4)
    assert (flat, names) == ((1, 2, 3, 4), ("a", "b"))
    assert utils._unpack_kwargs(flat, names) == ((1, 2), {"a": 3, "b": 4})
    with pytest.raises(AssertionError, match="too many keys"):
        utils._unpack_kwargs((1,), ("a", "b"))
    x, n = facula.ones(2), facula.tensor([1])
    args, kwargs = utils._cast_forward_inputs(facula.float64, x, [n], key={"y": x})
    assert args[0].dtype is facula.float64 and args[1][0].dtype is facula.int64
    assert kwargs["key"]["y"].dtype is facula.float64
    assert utils._cast_forward_inputs(None, x)[0][0] is x
    moved, named = utils._to_kwargs((x,), {"k": n}, facula.device("meta"), False)
    assert moved[0][0].is_meta and named[0]["k"].is_meta
    assert utils._to_kwargs((x,), None, facula.device("cpu"), False)[1] == ({},)


def test_prefixes_roots_and_memory():
    state = {"module.a": 1, "b": 2, "module.c": 3}
    utils._replace_by_prefix(state, "module.", "")
    assert state == {"b": 2, "a": 1, "c": 3}
    with pytest.raises(ValueError, match="distinct"):
        utils._replace_by_prefix(state, "x", "x")
    outer = nn.Sequential(nn.Linear(1, 1), nn.Linear(1, 1))
    alone = nn.Linear(1, 1)
    assert utils._get_root_modules([outer[0], outer, alone]) == [outer, alone]
    x = facula.ones(4)
    utils._free_storage(x)
    assert x.untyped_storage().nbytes() == 0 and not utils._data_ptr_allocated(x)
    utils._alloc_storage(x, facula.Size([4]))
    assert x.untyped_storage().nbytes() == 16
    with pytest.raises(AssertionError, match="said so"):
        utils._p_assert(False, "said so")


def test_policies_and_wrappers():
    wide = wrap.ModuleWrapPolicy({nn.Linear})
    made = lambda module, recurse, nonwrapped_numel: recurse or nonwrapped_numel > 10  # noqa: E731
    cases = ((nn.Linear(1, 1), 2, True), (nn.Tanh(), 0, False), (nn.Tanh(), 11, True))
    for module, numel, chosen in cases:
        found = wrap._or_policy(module, False, numel, [wide, made])
        assert found is chosen
    plain = nn.Sequential(nn.Linear(3, 3), nn.Tanh())
    away = wrapper.offload_wrapper(plain)
    x = facula.randn(2, 3, requires_grad=True)
    away(x).sum().backward()
    got, x.grad = x.grad, None
    plain(x).sum().backward()
    assert (got == x.grad).all() and list(away.state_dict()) == list(plain.state_dict())
    assert away[0] is plain[0] and isinstance(away, wrapper.ActivationWrapper)
    with pytest.raises(ValueError, match="forward"):
        wrapper.ActivationWrapper(plain)(x)
    assert Shard(0)._local_shard_size_and_offset(5, 2, 1) == (2, 3)


def test_engines_by_device():
    assert Backend.default_device_backend_map["cpu"] == "gloo"
    config = BackendConfig("cpu:gloo,cuda:nccl")
    assert config.get_device_backend_map() == {"cpu": "gloo", "cuda": "nccl"}
    assert repr(config) == "cpu:gloo,cuda:nccl"
    assert BackendConfig(Backend("nccl")).get_device_backend_map() == {"cuda": "nccl"}
    for text, told in (("cpu:gloo:x,cuda:a", "Invalid"), ("cpu:gloo,cpu:mpi", "Duplicate")):
        with pytest.raises(ValueError, match=told):
            BackendConfig(text)
    options = AllreduceOptions()
    assert options.reduceOp == ReduceOp.SUM and options.asyncOp and options.seconds() is None
    assert supports_complex(ReduceOp.SUM) and not supports_complex(ReduceOp.MAX)


def test_options_of_the_environment(monkeypatch):
    import argparse

    monkeypatch.setenv("PET_WIDTH", "7")
    monkeypatch.setenv("PET_LOUD", "1")
    parser = argparse.ArgumentParser()
    parser.add_argument("--width", action=argparse_util.env, type=int, required=True)
    parser.add_argument("--height", action=argparse_util.env, type=int, default=2)
    parser.add_argument("--loud", action=argparse_util.check_env)
    parser.add_argument("--fast", action=argparse_util.check_env)
    found = parser.parse_args([])
    assert (found.width, found.height, found.loud, found.fast) == (7, 2, True, False)
    assert parser.parse_args(["--width", "3"]).width == 3 and parser.parse_args(["--fast"]).fast
    monkeypatch.setenv("PET_FAST", "perhaps")
    with pytest.raises(ValueError, match="0 or 1"):
        parser.add_argument("--faster", dest="fast", action=argparse_util.check_env)


@pytest.mark.parametrize("option", ["", "--use-env", "--use_env"])
def test_the_older_launcher_tells_numbers_as_arguments(tmp_path, option):
    script = tmp_path / "script.py"
    script.write_text(
        "import os, sys\n"
        f"open(os.path.join({str(tmp_path)!r}, 'rank' + os.environ['RANK']), 'w').write(repr(sys.argv[1:]))\n"
    )
    command = [
        sys.executable,
        "-m",
        "facula.distributed.launch",
        "--standalone",
        "--nproc-per-node=2",
    ]
    done = subprocess.run(
        [*command, *([option] if option else []), str(script), "--epochs", "3"],
        capture_output=True, text=True, timeout=ranks.DEADLINE,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    for rank in range(2):
        told = [] if option else [f"--local-rank={rank}"]
        assert (tmp_path / f"rank{rank}").read_text() == repr([*told, "--epochs", "3"])
    assert "FutureWarning" in done.stderr


def test_the_older_launcher_has_no_number_for_other_programs():
    command = [sys.executable, "-m", "facula.distributed.launch", "--no-python", "/bin/true"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=ranks.DEADLINE)
    assert done.returncode != 0 and "--use-env was required" in done.stderr


def test_tensors_of_pieces(tmp_path):
    whole = np.arange(15.0).reshape(5, 3)
    found = run(f"pieces {tmp_path}")
    assert [one["whole"] for one in found] == [None, whole.tolist()]
    for one, columns in zip(found, (whole[:, 2:], whole[:, :2]), strict=True):
        assert one["read"] == [whole.tolist()] * 2 and one["columns"] == columns.tolist()
        texts = [
            "all 20 elements",
            "one shape on all ranks",
            "do not lie over each other",
            "pieces of one dtype",
        ]
        for (kind, text), part in zip(one["bad"], texts, strict=False):
            assert kind == "ValueError" and part in text
    assert "out of shape (5, 3)" in found[0]["bad"][4][1] and found[1]["bad"][4] == ["none", ""]


def test_ways_to_cut_make_the_pieces_of_chunk():
    for size, count in ((7, 3), (4, 4), (2, 3), (9, 2)):
        cut = ChunkShardingSpec(1, [f"rank:{rank}/cpu" for rank in range(count)])
        pieces = cut.build_metadata([2, size], None).shards_metadata
        want = np.arange(2 * size).reshape(2, size)
        parts = facula.from_numpy(want).chunk(count, 1)
        assert [piece.shard_sizes for piece in pieces] == [list(part.shape) for part in parts]
        for piece, part in zip(pieces, parts, strict=True):
            start = piece.shard_offsets[1]
            assert (want[:, start : start + piece.shard_sizes[1]] == part.numpy()).all()


@pytest.mark.parametrize(
    "make, text",
    [
        (lambda: ShardMetadata([0], [1, 2]), "as many offsets as sizes"),
        (lambda: ShardMetadata([-1], [1]), "shard_offsets of at least 0"),
        (lambda: ShardMetadata([0], [1], "a/b/c"), "Could not parse remote_device"),
        (lambda: ChunkShardingSpec("a", []), "a number was required for dim"),  # type: ignore[arg-type]
        (lambda: ChunkShardingSpec(2, ["rank:0/cpu"]).build_metadata([3], None), "Invalid sharding dim"),
        (lambda: EnumerableShardingSpec([]), "a piece was required"),
        (lambda: EnumerableShardingSpec([ShardMetadata([0], [3]), ShardMetadata([2], [1])]), "Shards overlap"),
        (lambda: EnumerableShardingSpec([ShardMetadata([0], [3]), ShardMetadata([2, 2], [1, 1])]), "number of dim"),
        (lambda: EnumerableShardingSpec([ShardMetadata([0], [3])]).build_metadata([2], None), "outside of the tensor"),
        (lambda: EnumerableShardingSpec([ShardMetadata([0], [3])]).build_metadata([4], None), "all 4 elements"),
    ],
)  # fmt: skip
def test_pieces_that_make_no_tensor_are_refused(make, text):
    with pytest.raises(ValueError, match=text):
        make()

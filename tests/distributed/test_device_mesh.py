"""Grids of ranks: what is sliced, flattened, split and joined, seen from one rank of eight that are simulated."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Iterator
from typing import Any

import pytest

import facula
from facula import distributed as dist
from facula.distributed.device_mesh import DeviceMesh, _mesh_resources, init_device_mesh
from facula.fx.fake_tensor import FakeTensorMode


@pytest.fixture(autouse=True)
def world() -> Iterator[None]:
    """Rank 5 of 8."""
    dist.init_process_group("fake", store=dist.HashStore(), rank=5, world_size=8)
    yield
    dist.destroy_process_group()


def grid() -> DeviceMesh:
    return init_device_mesh("cpu", (2, 2, 2), mesh_dim_names=("a", "b", "c"))


def test_a_mesh_tells_names_sizes_and_strides():
    assert repr(grid()) == "DeviceMesh((a=2, b=2, c=2), 'cpu', stride=(4, 2, 1))"
    assert repr(init_device_mesh("cpu", (2, 4))) == "DeviceMesh((2, 4), 'cpu', stride=(4, 1))"
    assert repr(init_device_mesh("cpu", (8,))) == "DeviceMesh((8,), 'cpu', stride=(1,))"
    assert grid().get_coordinate() == (1, 0, 1) and grid().get_rank() == 5


def test_slices():
    mesh = grid()
    for names, ranks in {"a": [1, 5], "b": [5, 7], "c": [4, 5]}.items():
        assert mesh[names].mesh.tolist() == ranks and mesh[names].get_group().ranks == ranks
        assert mesh[names].get_group() is mesh.get_group(names)
    assert mesh["a", "c"].mesh.tolist() == [[0, 1], [4, 5]]
    assert mesh["a", "b", "c"] is mesh and mesh["a"]._get_root_mesh() is mesh
    assert mesh["b"]._get_root_mesh_dim() == 1


@pytest.mark.parametrize(
    ("names", "kind", "text"),
    [
        (("c", "a"), KeyError, "ascending order"),
        (("zz",), KeyError, "Invalid mesh_dim_name"),
        (("a", "a"), RuntimeError, "overlapping"),
    ],
)
def test_what_can_not_be_sliced(names: Any, kind: Any, text: str):
    with pytest.raises(kind, match=text):
        grid()[names]
    with pytest.raises(RuntimeError, match="without mesh_dim_names"):
        init_device_mesh("cpu", (2, 4))["a"]


def test_flattened_dimensions():
    mesh = grid()
    flat = mesh["a", "b"]._flatten()
    assert flat.mesh_dim_names == ("a_b",) and flat.mesh.tolist() == [1, 3, 5, 7]
    assert flat.get_group().ranks == [1, 3, 5, 7] and flat.get_local_rank() == 2
    assert mesh["a_b"] == flat and mesh["a", "b"]._flatten() is flat
    assert mesh["a_b", "c"].mesh.tolist() == [[0, 1], [2, 3], [4, 5], [6, 7]]
    assert mesh.get_local_rank("a_b") == 2 and mesh.get_group("a_b") is flat.get_group()
    assert mesh["a"]._flatten("a") == mesh["a"] and mesh["a"]._flatten("q").mesh.tolist() == [1, 5]
    assert mesh._flatten("all").get_group() is dist.group.WORLD
    with pytest.raises(ValueError, match="already exists"):
        mesh["b", "c"]._flatten("a")
    with pytest.raises(ValueError, match="created before"):
        mesh["b", "c"]._flatten("a_b")
    with pytest.raises(RuntimeError, match="without mesh_dim_names"):
        init_device_mesh("cpu", (2, 4))._flatten()
    with pytest.raises(KeyError, match="Invalid"):
        mesh["a", "b"]["a_b"]


def test_split_dimensions():
    mesh = init_device_mesh("cpu", (8,), mesh_dim_names=("w",))
    split = mesh._unflatten("w", (2, 4), ("x", "y"))
    assert split.mesh.tolist() == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert split["x"].mesh.tolist() == [1, 5] and split["y"].get_group().ranks == [4, 5, 6, 7]
    inner = grid()["a", "b"]._unflatten(1, (1, 2), ("m", "n"))
    assert inner.mesh_dim_names == ("a", "m", "n") and inner.shape == (2, 1, 2)
    for arguments, kind in (
        ((3, (2, 4), ("x", "y")), ValueError),
        ((0, (2, 3), ("x", "y")), ValueError),
        (("q", (2, 4), ("x", "y")), ValueError),
        ((0, (2, 4), ("x",)), RuntimeError),
    ):
        with pytest.raises(kind):
            mesh._unflatten(*arguments)


def test_joined_slices():
    mesh = grid()
    joined = DeviceMesh._concatenate([mesh["a"], mesh["c"]])
    assert joined.mesh.tolist() == [[0, 1], [4, 5]] and joined.mesh_dim_names == ("a", "c")
    assert joined.get_group("c") is mesh.get_group("c")
    with pytest.raises(RuntimeError, match="overlapping"):
        DeviceMesh._concatenate([mesh["a"], mesh["a"]])
    with pytest.raises(RuntimeError, match="different"):
        DeviceMesh._concatenate([mesh["a"], DeviceMesh("cpu", [5, 6], mesh_dim_names=["z"])])


def test_a_mesh_of_groups():
    mesh = grid()
    whole = DeviceMesh.from_group(dist.group.WORLD, "cpu")
    assert whole.mesh.tolist() == list(range(8)) and whole.get_group() is dist.group.WORLD
    pair = DeviceMesh.from_group(
        [mesh.get_group("a"), mesh.get_group("b")], "cpu", mesh.mesh[:, :, 1], mesh_dim_names=("a", "b")
    )  # fmt: skip
    assert pair.get_group("b") is mesh.get_group("b") and pair["a"].mesh.tolist() == [1, 5]
    for arguments in (
        ([], "cpu"),
        ([dist.group.WORLD], "cpu"),
        ([dist.group.WORLD], "cpu", [[0, 1]]),
        (dist.group.WORLD, "cpu", [[0, 1], [2, 3]]),
    ):
        with pytest.raises(ValueError):
            DeviceMesh.from_group(*arguments)


def test_a_group_of_all_ranks_is_that_of_the_world():
    assert init_device_mesh("cpu", (8,)).get_group() is dist.group.WORLD
    assert init_device_mesh("cpu", (8, 1)).get_group(0) is dist.group.WORLD
    other = init_device_mesh("cpu", (8,), backend_override={0: "fake"})
    assert other.get_group() is not dist.group.WORLD and other.get_group().ranks == list(range(8))


def test_engines_of_single_dimensions():
    for given, text in (({"a": "fake", 0: "fake"}, "redundant"), ({"q": "fake"}, "invalid keys")):
        with pytest.raises(RuntimeError, match=text):
            init_device_mesh("cpu", (2, 4), mesh_dim_names=("a", "b"), backend_override=given)
    with pytest.raises(ValueError, match="same length"):
        DeviceMesh("cpu", [[0, 1]], backend_override=((None, None),))


def test_a_mesh_that_makes_no_groups():
    mesh = DeviceMesh("cpu", [1], _init_backend=False)
    assert mesh.get_coordinate() is None
    with pytest.raises(RuntimeError, match="process groups not initialized!"):
        mesh.get_group()


def test_lines_of_a_dimension():
    lines = grid()._get_all_submeshes("c")
    assert [line.mesh.tolist() for line in lines] == [[0, 1], [2, 3], [4, 5], [6, 7]]
    assert [len(line._dim_group_names) for line in lines] == [0, 0, 1, 0]


def test_equal_meshes_and_copies():
    mesh = grid()
    assert mesh == grid() and hash(mesh) == hash(grid())
    assert mesh != init_device_mesh("cpu", (2, 2, 2)) and mesh != init_device_mesh("cpu", (2, 4))
    for other in (pickle.loads(pickle.dumps(mesh)), copy.deepcopy(mesh)):
        assert other == mesh and other.get_group("b").ranks == [5, 7]


def test_the_mesh_of_a_block():
    mesh = grid()
    with mesh, mesh["a"]:
        assert _mesh_resources.get_current_mesh() == mesh["a"]
    with pytest.raises(RuntimeError, match="No device mesh is currently active"):
        _mesh_resources.get_current_mesh()
    with mesh["c"]:
        made = facula.distributed.tensor.zeros(
            4, 3, placements=[facula.distributed.tensor.Shard(0)]
        )
    assert made.to_local().shape == (2, 3)


def test_meshes_while_tensors_are_fake():
    mesh = grid()
    with FakeTensorMode():
        assert mesh["a", "b"].shape == (2, 2) and mesh["a"].mesh.tolist() == [1, 5]


def test_wrong_meshes():
    for ranks, kind in (([0, 0], ValueError), (list(range(9)), RuntimeError), (None, TypeError)):
        with pytest.raises(kind):
            DeviceMesh("cpu", ranks)
    with pytest.raises(RuntimeError, match="not be bigger"):
        init_device_mesh("cpu", (3, 3))
    with pytest.raises(RuntimeError, match="same length"):
        init_device_mesh("cpu", (2,), mesh_dim_names=("a", "b"))
    with pytest.raises(RuntimeError, match="unique"):
        init_device_mesh("cpu", (2, 2), mesh_dim_names=("a", "a"))
    with pytest.raises(RuntimeError, match="index is not supported"):
        init_device_mesh("cuda:0", (2, 2))

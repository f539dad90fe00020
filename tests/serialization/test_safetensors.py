"""safetensors files: read and written as the safetensors package does."""

import numpy
import pytest

import facula
from facula.serialization import safetensors

package = pytest.importorskip("safetensors.numpy")


def example():
    return {
        "weight": facula.arange(12.0).reshape(3, 4),
        "transposed": facula.arange(6.0).reshape(2, 3).t(),
        "count": facula.arange(5),
        "flag": facula.tensor([True, False, True]),
        "half": facula.tensor([1.5, 2.5], dtype=facula.float16),
        "empty": facula.empty((0, 3)),
        "scalar": facula.tensor(1.5),
    }


def test_package_reads_ours(tmp_path):
    path = tmp_path / "a.safetensors"
    safetensors.save_file(example(), path, {"format": "pt"})
    loaded = package.load_file(path)
    for name, value in example().items():
        assert loaded[name].shape == tuple(value.shape)
        assert (loaded[name] == numpy.array(value.tolist()).reshape(value.shape)).all()


def test_ours_reads_the_package_s(tmp_path):
    path = tmp_path / "a.safetensors"
    arrays = {
        "a": numpy.arange(6, dtype=numpy.float32).reshape(2, 3),
        "b": numpy.array([1, 2], dtype=numpy.int8),
        "c": numpy.array(2.5),
    }
    package.save_file(arrays, path, {"k": "v"})
    loaded = safetensors.load_file(path)
    assert {name: value.tolist() for name, value in loaded.items()} == {
        name: value.tolist() for name, value in arrays.items()
    }
    assert safetensors.load_metadata(path) == {"k": "v"}


def test_bfloat16_and_float8_come_back(tmp_path):
    path = tmp_path / "a.safetensors"
    dtypes = (facula.bfloat16, facula.float8_e4m3fn, facula.float8_e5m2, facula.complex64)
    tensors = {str(dtype): facula.tensor([0.5, 2.0]).to(dtype) for dtype in dtypes}
    safetensors.save_file(tensors, path)
    loaded = safetensors.load_file(path)
    for name, value in tensors.items():
        assert loaded[name].dtype == value.dtype and loaded[name].tolist() == value.tolist()


def test_changing_a_loaded_tensor_leaves_the_file(tmp_path):
    path = tmp_path / "a.safetensors"
    safetensors.save_file({"a": facula.zeros(3)}, path)
    safetensors.load_file(path)["a"][0] = 5.0
    assert safetensors.load_file(path)["a"].tolist() == [0.0, 0.0, 0.0]


def test_shared_storage_is_refused(tmp_path):
    base = facula.zeros(4)
    with pytest.raises(ValueError, match="a and b"):
        safetensors.save_file({"a": base, "b": base[1:]}, tmp_path / "a.safetensors")


def test_only_tensors_are_saved(tmp_path):
    with pytest.raises(TypeError, match="must be a tensor"):
        safetensors.save_file({"a": [1]}, tmp_path / "a.safetensors")

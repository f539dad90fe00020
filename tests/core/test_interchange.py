"""Memory shared with NumPy, DLPack and buffers; copies by pickle and deepcopy; weak references."""

import copy
import gc
import io
import pickle
import weakref

import numpy as np
import pytest

import facula

DTYPES = ["bool", "uint8", "int8", "int16", "int32", "int64", "uint16", "uint32", "uint64", "float16",
          "float32", "float64", "complex64", "complex128"]  # fmt: skip


@pytest.mark.parametrize("dtype", DTYPES)
def test_numpy_without_a_copy(dtype):
    array = np.arange(6).reshape(2, 3).astype(dtype)
    x = facula.from_numpy(array)
    assert x.dtype is getattr(facula, dtype) and x.shape == (2, 3)
    assert x.data_ptr() == array.ctypes.data
    array[0, 0] = 1
    assert x[0, 0].item() == 1
    x[1, 2] = 0
    assert array[1, 2] == 0
    back = x.numpy()
    assert back.ctypes.data == array.ctypes.data and back.dtype == array.dtype
    np.testing.assert_array_equal(back, array)


def test_numpy_views_keep_their_strides():
    array = np.arange(24.0).reshape(2, 3, 4)
    for view in (array.T, array[:, ::2], array[1:, :, 1], np.broadcast_to(array[0], (5, 3, 4))):
        x = facula.from_numpy(view) if view.flags.writeable else facula.tensor(view)
        np.testing.assert_array_equal(x.numpy(), view)
    x = facula.from_numpy(array).transpose(0, 2)[1:]
    assert x.numpy().strides == array.transpose(2, 1, 0)[1:].strides


def test_memory_lives_as_long_as_either_side():
    array = np.ones(1000)
    x = facula.from_numpy(array)
    gone = weakref.ref(array)
    del array
    gc.collect()
    assert gone() is not None and x.sum().item() == 1000
    y = x.numpy()
    del x
    gc.collect()
    assert y.sum() == 1000
    del y
    gc.collect()
    assert gone() is None
    z = facula.ones(1000).numpy()
    gc.collect()
    assert z.sum() == 1000


def test_numpy_refusals():
    x = facula.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="requires grad"):
        x.numpy()
    assert x.numpy(force=True).tolist() == [1, 1] and x.detach().numpy().tolist() == [1, 1]
    with pytest.raises(TypeError, match="BFloat16|bfloat16"):
        facula.ones(2, dtype=facula.bfloat16).numpy()
    with pytest.raises(TypeError):
        facula.from_numpy([1, 2])
    with pytest.raises(TypeError):
        facula.from_numpy(np.array(["a"]))
    with pytest.raises(ValueError, match="negative"):
        facula.from_numpy(np.arange(4)[::-1])
    with pytest.raises((TypeError, NotImplementedError)):
        facula.ones(2, device="meta").numpy()


def test_numpy_functions_take_tensors():
    x = facula.tensor([1.0, 4.0])
    np.testing.assert_array_equal(np.sqrt(x), [1, 2])
    assert np.asarray(x, dtype=np.float64).dtype == np.float64
    assert (np.ones(2) + x.numpy()).tolist() == [2, 5]
    assert facula.as_tensor(np.ones(2)).dtype == facula.float64
    assert facula.tensor(np.float32(1.5)).item() == 1.5
    assert facula.tensor([np.int64(1), np.int64(2)]).dtype == facula.int64


def test_read_only_memory_is_not_written():
    array = np.ones(3)
    array.flags.writeable = False
    with pytest.warns(UserWarning, match="not writable|not writeable"):
        x = facula.from_numpy(array)
    with pytest.raises((RuntimeError, ValueError), match="read-only"):
        x.add_(1)
    assert array.tolist() == [1, 1, 1] and (x + 1).tolist() == [2, 2, 2]


@pytest.mark.parametrize("dtype", [d for d in DTYPES if d != "bool"] + ["bfloat16"])
def test_dlpack_both_ways(dtype):
    x = facula.arange(6).reshape(2, 3).to(getattr(facula, dtype))
    y = facula.from_dlpack(x)
    assert y.data_ptr() == x.data_ptr() and y.dtype == x.dtype and facula.equal(x, y)
    if dtype != "bfloat16":
        array = np.from_dlpack(x)
        assert array.ctypes.data == x.data_ptr()
        z = facula.from_dlpack(np.ones((2, 2), dtype=dtype)[:, :1])
        assert z.shape == (2, 1) and z.stride() == (2, 1)
    capsule = facula.utils.dlpack.to_dlpack(x.t())
    assert facula.equal(facula.utils.dlpack.from_dlpack(capsule), x.t())
    with pytest.raises((RuntimeError, ValueError)):
        facula.utils.dlpack.from_dlpack(capsule)  # a capsule is used once


def test_dlpack_keeps_memory_alive():
    x = facula.ones(100)
    y = facula.from_dlpack(x)
    del x
    gc.collect()
    assert y.sum().item() == 100
    assert facula.ones(1).__dlpack_device__() == (1, 0)
    with pytest.raises((RuntimeError, BufferError), match="grad"):
        facula.ones(1, requires_grad=True).__dlpack__()


def test_buffers():
    buffer = bytearray(b"\x01\x00\x00\x00\x02\x00\x00\x00")
    x = facula.frombuffer(buffer, dtype=facula.int32)
    assert x.tolist() == [1, 2]
    x[0] = 7
    assert buffer[0] == 7
    assert facula.frombuffer(buffer, dtype=facula.uint8, offset=4, count=2).tolist() == [2, 0]
    for arguments in ({"offset": 9}, {"count": 99}, {"offset": 1}):
        with pytest.raises(ValueError):
            facula.frombuffer(buffer, dtype=facula.int32, **arguments)
    with pytest.raises((ValueError, TypeError)):
        facula.frombuffer(3, dtype=facula.int32)


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_pickle(protocol):
    x = facula.randn(3, 4, requires_grad=True)
    y = pickle.loads(pickle.dumps(x, protocol))
    assert facula.equal(x, y) and y.requires_grad and y.is_leaf and y.data_ptr() != x.data_ptr()
    view = facula.arange(10)[2:8:2]
    assert pickle.loads(pickle.dumps(view, protocol)).tolist() == [2, 4, 6]
    parameter = facula.nn.Parameter(facula.ones(2))
    again = pickle.loads(pickle.dumps(parameter, protocol))
    assert type(again) is facula.nn.Parameter and facula.equal(again, parameter)
    for value in (facula.float32, facula.device("cpu"), facula.Size([1, 2]), facula.strided):
        assert pickle.loads(pickle.dumps(value, protocol)) == value


def test_deepcopy():
    x = facula.ones(4, requires_grad=True)
    x.grad = facula.ones(4)
    y = copy.deepcopy(x)
    assert facula.equal(x, y) and y.data_ptr() != x.data_ptr() and facula.equal(y.grad, x.grad)
    assert y.grad is not x.grad and y.requires_grad
    base = facula.zeros(6)
    pair = copy.deepcopy([base, base[2:4], base])
    pair[0].fill_(5)
    assert pair[1].tolist() == [5, 5] and pair[2] is pair[0] and not base.any()
    with pytest.raises(RuntimeError, match="graph leaves|leaf"):
        copy.deepcopy(x * 2)
    shallow = copy.copy(base)
    assert shallow.data_ptr() == base.data_ptr()


def test_save_and_load_in_memory():
    stream = io.BytesIO()
    base = facula.arange(6.0)
    facula.save({"a": base, "b": base[2:], "n": 3}, stream)
    stream.seek(0)
    loaded = facula.load(stream)
    loaded["a"].fill_(1)
    assert loaded["b"].tolist() == [1] * 4 and loaded["n"] == 3


def test_weak_references_and_identity():
    x = facula.ones(2)
    reference = weakref.ref(x)
    assert reference() is x and {x: 1}[x] == 1 and hash(x) == hash(x)
    assert facula.ones(2) not in {x: 1}
    del x
    assert reference() is None


def test_python_numbers():
    assert int(facula.tensor(3.7)) == 3 and float(facula.tensor(2)) == 2.0
    assert complex(facula.tensor(1j)) == 1j and bool(facula.tensor([0.5]))
    assert [10, 20, 30][facula.tensor(1)] == 20 and list(range(facula.tensor(3))) == [0, 1, 2]
    assert f"{facula.tensor(1.5):.2f}" == "1.50"
    assert facula.tensor([[1, 2], [3, 4]]).tolist() == [[1, 2], [3, 4]]
    assert facula.tensor(2**53 + 1).item() == 2**53 + 1
    assert facula.tensor(2**64 - 1, dtype=facula.uint64).item() == 2**64 - 1
    for action in (
        lambda: bool(facula.ones(2)),
        lambda: facula.ones(2).item(),
        lambda: bool(facula.ones(0)),
    ):
        with pytest.raises(RuntimeError):
            action()
    with pytest.raises(TypeError):
        [1, 2][facula.tensor(1.0)]


def test_construction_from_nested_data():
    assert facula.tensor([[1, 2], [3, 4]]).shape == (2, 2) and facula.tensor([]).shape == (0,)
    assert facula.tensor([[], []]).shape == (2, 0)
    assert facula.tensor([1, 2.0]).dtype == facula.float32
    assert (
        facula.tensor([True, 2]).dtype == facula.int64
        and facula.tensor([True]).dtype == facula.bool
    )
    assert facula.tensor([facula.tensor(1), facula.tensor(2)]).tolist() == [1, 2]
    assert facula.tensor((i for i in range(3)) and [0, 1, 2]).tolist() == [0, 1, 2]
    for wrong, kind in (
        ([[1], [1, 2]], ValueError),
        (["a"], (TypeError, ValueError)),
        ([None], (TypeError, RuntimeError)),
        ([2**70], ValueError),
    ):
        with pytest.raises(kind):
            facula.tensor(wrong)


def test_a_stream_is_a_number_or_none():
    x = facula.ones(2)
    assert facula.from_dlpack(x.__dlpack__(stream=None)).tolist() == [1, 1]
    assert facula.from_dlpack(x.__dlpack__(stream=1)).tolist() == [1, 1]
    with pytest.raises(TypeError, match="stream must be"):
        x.__dlpack__(stream=object())

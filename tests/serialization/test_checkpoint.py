"""Checkpoints: PyTorch's are read, what is saved comes back, and files are whole or absent.

Takes files under `data/` that PyTorch 2.13 wrote.
"""

import collections
import io
import os
import pickle
import resource
import signal
import time
from pathlib import Path

import numpy
import pytest

import facula
from facula import serialization

DATA = Path(__file__).parent / "data"


def equal(one, other):
    """Bit equality of two tensors."""
    if (one.dtype, one.shape) != (other.dtype, other.shape):
        return False
    pair = [t.detach().contiguous().reshape(-1).view(facula.uint8) for t in (one, other)]
    return pair[0].tolist() == pair[1].tolist()


def assert_same(one, other):
    """Equality of nestings, tensors compared by bits, geometry and gradient flag."""
    assert type(one) is type(other)
    if isinstance(one, facula.Tensor):
        assert one.stride() == other.stride() and one.requires_grad == other.requires_grad
        assert one.device == other.device and (one.is_meta or equal(one, other))
    elif isinstance(one, dict):
        assert list(one) == list(other)
        for key in one:
            assert_same(one[key], other[key])
    elif isinstance(one, (list, tuple)):
        assert len(one) == len(other)
        for a, b in zip(one, other, strict=True):
            assert_same(a, b)
    else:
        assert one == other


def example():
    base = facula.arange(10.0)
    noted = facula.zeros(2)
    noted.note = "kept"
    return {
        "views": [base[2:5], base[::2], base.view(2, 5).t()],
        "parameter": facula.nn.Parameter(facula.tensor([1.0, 2.0])),
        "dtypes": [facula.float32, facula.bool, facula.bfloat16],
        "size": facula.Size([2, 3]),
        "device": facula.device("cpu"),
        "layout": facula.strided,
        "format": facula.channels_last,
        "all": [
            facula.tensor([0, 1, 2]).to(getattr(facula, name))
            for name in "float64 float16 bfloat16 int64 int32 int16 int8 uint8 bool complex64 "
            "complex128 uint16 uint32 uint64 float8_e4m3fn float8_e5m2".split()
        ],
        "plain": [b"ab\xff", {1, 2}, 1 + 2j, 2**100, "é😀", None, 1.5, -3, 255, 256, 70000],
        "meta": facula.empty(3, device="meta"),
        "noted": noted,
        "ordered": collections.OrderedDict(a=1, b=[2, (3, 4)]),
        "defaults": collections.defaultdict(list, {"a": [1]}),
        "empty": facula.empty((0, 3)),
        "scalar": facula.tensor(3.5),
        "grad": facula.tensor([1.0], requires_grad=True),
    }


def round_trip(value, **options):
    stream = io.BytesIO()
    serialization.save(value, stream)
    stream.seek(0)
    return serialization.load(stream, **options)


@pytest.mark.parametrize("name", ["checkpoint.pt", "protocol4.pt", "before_1_6.pt"])
def test_pytorch_files_are_read(name):
    loaded = serialization.load(DATA / name)
    base = facula.arange(10.0)
    assert_same(loaded["views"], [base[2:5], base[::2], base.view(2, 5).t()])
    storages = {view.untyped_storage().data_ptr() for view in loaded["views"]}
    assert len(storages) == 1
    parameter = loaded["parameter"]
    assert isinstance(parameter, facula.nn.Parameter) and parameter.tolist() == [1.0, 2.0]
    assert parameter.requires_grad and not loaded["frozen"].requires_grad
    assert loaded["dtypes"] == [facula.float32, facula.bool, facula.bfloat16]
    assert loaded["size"] == facula.Size([2, 3]) and isinstance(loaded["size"], facula.Size)
    assert [t.to(facula.float32).tolist()[1] for t in loaded["all"] if not t.is_complex()] == [
        1.0
    ] * 14
    assert loaded["conjugate"].tolist() == [1 - 2j]
    assert loaded["attributes"].note == "kept"
    assert isinstance(loaded["ordered"], collections.OrderedDict)
    assert (loaded["bytes"], loaded["set"], loaded["complex"]) == (b"ab\xff", {1, 2}, 1 + 2j)
    assert (loaded["big"], loaded["text"], loaded["none"]) == (2**100, "é😀", None)
    assert loaded["scalar"].item() == 3.5 and loaded["empty"].shape == (0, 3)
    assert loaded["model"]["0.weight"].shape == (4, 3)
    assert loaded["model"]._metadata[""] == {"version": 1}
    assert loaded["optimizer"]["param_groups"][0]["lr"] == 0.01
    assert loaded["optimizer"]["state"][0]["step"].item() == 1.0


def test_pytorch_state_goes_into_modules_and_optimizers():
    loaded = serialization.load(DATA / "checkpoint.pt")
    nn = facula.nn
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))
    assert str(model.load_state_dict(loaded["model"])) == "<All keys matched successfully>"
    optimizer = facula.optim.AdamW(model.parameters())
    optimizer.load_state_dict(loaded["optimizer"])
    assert optimizer.param_groups[0]["lr"] == 0.01
    assert_same(dict(model.state_dict()), dict(loaded["model"]))


def test_whole_model_of_stock_layers_is_read():
    model = serialization.load(DATA / "whole_model.pt", weights_only=False)
    assert [type(layer).__name__ for layer in model] == ["Linear", "BatchNorm1d", "Linear"]
    assert model.eval()(facula.zeros(1, 3)).shape == (1, 2)


def test_what_is_saved_comes_back():
    assert_same(round_trip(example()), example())


def test_shared_storage_and_shared_objects_stay_shared():
    base, items = facula.zeros(4), [1]
    loaded = round_trip({"a": base, "b": base[1:], "c": items, "d": items})
    loaded["a"][1] = 5
    assert loaded["b"][0].item() == 5 and loaded["c"] is loaded["d"]


def test_views_of_other_dtype_share_bytes():
    base = facula.zeros(4)
    loaded = round_trip([base, base.view(facula.int32)])
    loaded[0][0] = 1.0
    assert loaded[1][0].item() == 0x3F800000


def test_same_content_gives_same_file():
    streams = [io.BytesIO(), io.BytesIO()]
    for stream in streams:
        serialization.save(example(), stream)
    assert streams[0].getvalue() == streams[1].getvalue()


def test_mapped_file(tmp_path):
    serialization.save(example(), tmp_path / "a.pt")
    loaded = serialization.load(tmp_path / "a.pt", mmap=True)
    assert_same(loaded, example())
    loaded["views"][0][0] = 99.0  # a private copy of the page
    assert serialization.load(tmp_path / "a.pt")["views"][0][0].item() == 2.0


def test_map_location_to_meta():
    assert round_trip(facula.zeros(3), map_location="meta").is_meta
    assert round_trip(facula.zeros(3), map_location={"cpu": "meta"}).is_meta
    assert round_trip(facula.zeros(3), map_location=facula.device("meta")).is_meta


def test_map_location_function_sees_every_storage():
    seen = []

    def place(storage, location):
        seen.append((storage.nbytes(), location))
        return storage

    round_trip([facula.zeros(3), facula.zeros(5)], map_location=place)
    assert seen == [(12, "cpu"), (20, "cpu")]


def test_bare_storage():
    storage = facula.arange(3).untyped_storage()
    assert bytes(memoryview(round_trip(storage))) == bytes(memoryview(storage))


def test_numpy_values():
    loaded = round_trip([numpy.arange(6).reshape(2, 3), numpy.float64(2.5), numpy.dtype("<i4")])
    assert (loaded[0] == numpy.arange(6).reshape(2, 3)).all()
    assert loaded[1] == 2.5 and loaded[2] == numpy.dtype("<i4")


def test_failed_save_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "a.pt"
    serialization.save({"x": 1}, path)
    with pytest.raises((pickle.PicklingError, AttributeError)):
        serialization.save({"x": lambda: 1}, path)
    from facula.serialization import archive

    def broken(self):
        raise OSError("No space left on device")

    monkeypatch.setattr(archive.ArchiveWriter, "close", broken)
    with pytest.raises(OSError, match="No space"):
        serialization.save({"x": 2}, path)
    assert serialization.load(path) == {"x": 1}
    assert os.listdir(tmp_path) == ["a.pt"]


def test_killed_save_leaves_a_whole_file(tmp_path):
    path = tmp_path / "a.pt"
    serialization.save({"n": 0, "x": facula.zeros(1 << 20)}, path)
    for delay in (0.01, 0.03, 0.06):
        child = os.fork()
        if child == 0:
            for n in range(1, 1000):
                serialization.save({"n": n, "x": facula.full((1 << 20,), float(n))}, path)
            os._exit(0)
        time.sleep(delay)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        found = serialization.load(path)
        assert (found["x"] == found["n"]).all()


def test_no_room_is_said_and_leaves_the_old_file(tmp_path):
    path = tmp_path / "a.pt"
    serialization.save(facula.ones(3), path)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, limits[1]))
    try:
        with pytest.raises(OSError, match=r"\[save\] room for the whole file .*unchanged"):
            serialization.save(facula.ones(1 << 20), path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, before)
    assert os.listdir(tmp_path) == ["a.pt"]
    assert serialization.load(path).tolist() == [1, 1, 1]


def test_bare_storages_inside_containers():
    storage = facula.arange(3, dtype=facula.uint8).untyped_storage()
    again = round_trip({"a": [storage], "b": storage})
    assert again["a"][0].tolist() == again["b"].tolist() == [0, 1, 2]
    assert again["a"][0].data_ptr() == again["b"].data_ptr()


def test_uninitialized_parameters_are_kept_as_such():
    state = facula.nn.LazyLinear(3).state_dict()
    again = round_trip(state)
    assert type(again["weight"]) is facula.nn.UninitializedParameter
    facula.nn.LazyLinear(3).load_state_dict(again)


def test_functions_inside_whole_models():
    layer = facula.nn.TransformerEncoderLayer(8, 2, 16)
    assert round_trip(layer).activation is facula.nn.functional.relu


def test_weights_only_takes_no_pickle_module(tmp_path):
    path = tmp_path / "a.pt"
    serialization.save(facula.ones(3), path)
    with pytest.raises(RuntimeError, match="no pickle module beside weights_only"):
        serialization.load(path, weights_only=True, pickle_module=pickle)


def test_file_permissions_are_kept(tmp_path):
    path = tmp_path / "a.pt"
    serialization.save(1, path)
    mask = os.umask(0)
    os.umask(mask)
    assert path.stat().st_mode & 0o777 == 0o666 & ~mask
    path.chmod(0o600)
    serialization.save(2, path)
    assert path.stat().st_mode & 0o777 == 0o600


class Settings:
    """A class that a file may name."""

    def __init__(self):
        self.rate = 0.5


def test_own_class_needs_permission():
    stream = io.BytesIO()
    serialization.save(Settings(), stream)
    stream.seek(0)
    with pytest.raises(pickle.UnpicklingError, match="add_safe_globals"):
        serialization.load(stream)
    stream.seek(0)
    with serialization.safe_globals([Settings]):
        assert serialization.load(stream).rate == 0.5
    assert serialization.get_safe_globals() == []


@pytest.mark.parametrize("unit", ["ns", "D", "25s", "us"])
def test_numpy_times_keep_their_unit(unit):
    times = numpy.array([1, 2, 3], f"M8[{unit}]")
    spans = times - times[0]
    loaded = round_trip([times, spans, spans[1]])
    assert loaded[0].dtype == times.dtype and (loaded[0] == times).all()
    assert loaded[1].dtype == spans.dtype and (loaded[1] == spans).all()
    assert loaded[2] == spans[1] and loaded[2].dtype == spans.dtype


def test_numpy_fields_are_refused_not_lost():
    with pytest.raises(pickle.UnpicklingError, match="save each field as an array"):
        round_trip(numpy.zeros(2, "i4,f8"))


def test_hints_about_numpy_values_lead_somewhere():
    """`weights_only=False`, which was the advice, changes nothing."""
    values = numpy.array([None, 1.5], object)
    stream = io.BytesIO()
    facula.save([values.dtype], stream)
    stream.seek(0)
    with pytest.raises(pickle.UnpicklingError, match="save the values as tensors") as caught:
        facula.load(stream, weights_only=False)
    assert "weights_only" not in str(caught.value)
    assert round_trip(numpy.array([0.0, 1.5]))[1] == 1.5


@pytest.mark.parametrize("text", ["(2,3)i4", "i4,i4", "O", "f4" * 20, "1i4", "f4\n"])
def test_names_of_dtypes_are_not_evaluated(text):
    class Named:
        def __reduce__(self):
            return numpy.dtype, (text,)

    with pytest.raises(pickle.UnpicklingError):
        round_trip(Named())

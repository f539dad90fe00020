"""Files in the format before PyTorch 1.6: what `save` writes is taken apart here with `pickle` and NumPy."""

from __future__ import annotations

import io
import pickle

import numpy
import pytest

import facula
from facula import serialization


class _Parts(pickle.Unpickler):
    """Reads the pickles of such a file without facula: names stay words, storages stay what they are called."""

    def find_class(self, module, name):
        return lambda *args: (f"{module}.{name}", args)

    def persistent_load(self, identity):
        return identity


def written(value, **options):
    stream = io.BytesIO()
    facula.save(value, stream, _use_new_zipfile_serialization=False, **options)
    stream.seek(0)
    return stream


def test_the_parts_of_a_file_stand_in_order():
    base = facula.arange(6.0)
    stream = written([base[2:4], base.view(2, 3).t(), facula.tensor([7], dtype=facula.int16)])
    assert _Parts(stream).load() == 0x1950A86A20F9469CFC6C
    assert _Parts(stream).load() == 1001
    system = _Parts(stream).load()
    assert system["protocol_version"] == 1001 and system["little_endian"]
    found = _Parts(stream).load()
    storages = [arguments[0] for _, arguments in found]
    assert storages[0] == storages[1] and storages[0][0] == "storage"
    assert [storage[4:] for storage in storages] == [(6, None), (6, None), (1, None)]
    assert [arguments[1:4] for _, arguments in found[:2]] == [
        (2, (2,), (1,)),
        (0, (3, 2), (1, 3)),
    ]
    keys = _Parts(stream).load()
    rest = {}
    for key in keys:
        count = int(numpy.frombuffer(stream.read(8), "<i8")[0])
        kind = "<f4" if key == storages[0][2] else "<i2"
        rest[key] = numpy.frombuffer(stream.read(count * numpy.dtype(kind).itemsize), kind)
    assert rest[storages[0][2]].tolist() == [0, 1, 2, 3, 4, 5]
    assert rest[storages[2][2]].tolist() == [7] and not stream.read()


def test_what_was_shared_is_shared_after_loading():
    base = facula.arange(4.0)
    model = facula.nn.Linear(2, 2)
    value = {
        "a": base,
        "b": base[2:],
        "state": model.state_dict(),
        "empty": facula.empty(0),
        "n": [1, "x", None],
    }
    loaded = facula.load(written(value))
    loaded["a"][3] = 9
    assert loaded["b"].tolist() == [2.0, 9.0] and loaded["n"] == [1, "x", None]
    assert loaded["state"]["weight"].tolist() == model.weight.tolist()
    assert loaded["empty"].shape == (0,)


def test_several_files_in_one_stream_are_read_in_turn():
    stream = io.BytesIO()
    for number in range(3):
        facula.save(facula.full((2,), float(number)), stream, _use_new_zipfile_serialization=False)
    stream.seek(0)
    assert [facula.load(stream).tolist() for _ in range(3)] == [[0.0, 0.0], [1.0, 1.0], [2.0, 2.0]]


def test_a_path_and_what_cannot_be_written(tmp_path):
    path = tmp_path / "old.pt"
    facula.save(facula.ones(2), path, _use_new_zipfile_serialization=False)
    assert facula.load(path).tolist() == [1.0, 1.0]
    with pytest.raises(RuntimeError, match="mmap can only be used with files saved with"):
        facula.load(path, mmap=True)
    x = facula.ones(2)
    with pytest.raises(
        RuntimeError, match="Cannot save multiple tensors or storages that view the same data"
    ):
        written([x, x.view(facula.int16)])


def test_messages_have_the_words_that_programs_look_for():
    stream = io.BytesIO()
    facula.save(facula.ones(1), stream)
    whole = stream.getvalue()
    for options, error, text in (
        (
            {"map_location": "cuda"},
            RuntimeError,
            "Attempting to deserialize object on a CUDA device",
        ),
        ({"map_location": "nowhere"}, RuntimeError, "don't know how to restore data location"),
        ({"mmap": True}, ValueError, "f must be a file path"),
        (
            {"weights_only": True, "pickle_module": pickle},
            RuntimeError,
            "Can not safely load weights",
        ),
    ):
        with pytest.raises(error, match=text):
            facula.load(io.BytesIO(whole), **options)
    with pytest.raises(RuntimeError, match="PytorchStreamReader failed"):
        facula.load(io.BytesIO(whole[:-20]))
    with pytest.raises(pickle.UnpicklingError, match="Weights only load failed"):
        facula.load(io.BytesIO(pickle.dumps(numpy.testing.assert_equal, 2)))
    with pytest.raises(AttributeError, match="file-like object with a 'write' attribute"):
        facula.save(facula.ones(1), 3)
    assert (
        serialization.MAGIC_NUMBER == 0x1950A86A20F9469CFC6C
        and serialization.PROTOCOL_VERSION == 1001
    )
    assert issubclass(serialization.SourceChangeWarning, Warning)

"""Where storages lie, the order of bytes, and the names that a checkpoint asks for."""

import io
import zipfile
from fractions import Fraction

import numpy as np
import pytest

import facula
from facula import serialization
from facula.serialization import LoadEndianness, locations


@pytest.fixture
def registry(monkeypatch):
    monkeypatch.setattr(locations, "_PACKAGES", [])


def saved(value):
    stream = io.BytesIO()
    facula.save(value, stream)
    stream.seek(0)
    return stream


def without_order(stream):
    """The same archive, without the record of its order of bytes."""
    made = io.BytesIO()
    with zipfile.ZipFile(stream) as old, zipfile.ZipFile(made, "w") as new:
        for name in old.namelist():
            if not name.endswith("byteorder"):
                new.writestr(name, old.read(name))
    made.seek(0)
    return made


def test_order_of_bytes_of_files_that_do_not_say_it():
    values = facula.tensor([1.5, -2.0])
    turned = np.array([1.5, -2.0], "<f4").view(">f4").astype("<f4").tolist()
    assert serialization.get_default_load_endianness() is None
    try:
        for order, expected in (
            (LoadEndianness.BIG, turned),
            (LoadEndianness.LITTLE, [1.5, -2.0]),
            (LoadEndianness.NATIVE, [1.5, -2.0]),
        ):
            serialization.set_default_load_endianness(order)
            assert serialization.get_default_load_endianness() is order
            found = facula.load(without_order(saved(values)))
            np.testing.assert_array_equal(found.numpy(), np.array(expected, "f4"))
            assert facula.load(saved(values)).tolist() == [1.5, -2.0]  # it says its order
    finally:
        serialization.set_default_load_endianness(None)
    with pytest.raises(TypeError, match="Invalid argument type"):
        serialization.set_default_load_endianness("big")


def test_words_of_ones_own(registry):
    x = facula.ones(2)
    assert serialization.location_tag(x.untyped_storage()) == "cpu"
    asked = []

    def tag(storage):
        return "shelf:3" if storage.nbytes() == 8 else None

    def restore(storage, word):
        asked.append(word)
        return storage if word.startswith("shelf") else None

    serialization.register_package(5, lambda storage: "late", lambda storage, word: None)
    serialization.register_package(1, tag, restore)
    assert serialization.location_tag(x.untyped_storage()) == "shelf:3"
    assert serialization.location_tag(facula.ones(5).untyped_storage()) == "late"
    assert b"shelf:3" in saved(x).getvalue()
    assert facula.load(saved(x)).tolist() == [1, 1] and asked == ["shelf:3"]


def test_default_restore_location():
    storage = facula.ones(2).untyped_storage()
    assert serialization.default_restore_location(storage, "cpu") is storage
    assert serialization.default_restore_location(storage, "meta").device.type == "meta"
    with pytest.raises(RuntimeError, match="must be there"):
        serialization.default_restore_location(storage, "nowhere")


class Own:
    """A class that no checkpoint may make."""


def test_names_that_load_would_refuse():
    layer = facula.nn.Linear(2, 2)
    assert serialization.get_unsafe_globals_in_checkpoint(saved(layer.state_dict())) == []
    stream = saved({"a": Own(), "b": Fraction(1, 2), "w": facula.ones(1)})
    found = serialization.get_unsafe_globals_in_checkpoint(stream)
    assert found[:1] == [f"{__name__}.Own"] and "fractions.Fraction" in found
    stream.seek(0)
    with pytest.raises(Exception, match="Own"):
        facula.load(stream)
    stream.seek(0)
    with serialization.safe_globals([Own]):
        assert f"{__name__}.Own" not in serialization.get_unsafe_globals_in_checkpoint(stream)


@pytest.mark.parametrize("name", ["solve", "eig", "lstsq", "symeig"])
def test_removed_functions_say_what_took_their_place(name):
    x = facula.eye(2)
    for call in (getattr(facula, name), getattr(facula.Tensor, name)):
        with pytest.raises(RuntimeError, match=r"(?s)now removed.*linalg\."):
            call(x, x)


def test_spmm_is_a_product():
    x, y = facula.randn(3, 4), facula.randn(4, 2)
    expected = x.numpy() @ y.numpy()
    for left in (x, x.to_sparse(), x.to_sparse_csr()):
        np.testing.assert_allclose(facula.spmm(left, y).numpy(), expected, rtol=1e-5, atol=1e-6)


def test_set_module():
    class Layer:
        pass

    facula.utils.set_module(Layer, "models")
    assert Layer.__module__ == "models"
    with pytest.raises(TypeError, match="should be a string"):
        facula.utils.set_module(Layer, 3)

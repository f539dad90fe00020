"""Typed storages read and write the memory of tensors."""

import io

import numpy as np
import pytest

import facula


def test_a_storage_is_the_memory_of_its_tensor():
    x = facula.arange(6.0).reshape(2, 3)
    storage = x[1].storage()
    assert len(storage) == 6 and storage[4] == 4.0 and storage.tolist() == list(range(6))
    storage[0] = 9
    storage.untyped()
    assert x[0, 0].item() == 9 and storage.data_ptr() == x.data_ptr()
    assert facula.empty(0).set_(storage).tolist() == storage.tolist()
    copy = storage.clone().fill_(1)
    assert copy.tolist() == [1.0] * 6 and x[0, 0].item() == 9


def test_kinds():
    made = facula.FloatStorage([1, 2])
    assert isinstance(made, facula.FloatStorage) and isinstance(made, facula.TypedStorage)
    assert not isinstance(made, facula.LongStorage) and made.dtype is facula.float32
    assert isinstance(made.long(), facula.LongStorage) and made.nbytes() == 8
    assert made.pickle_storage_type() == "FloatStorage"
    assert facula.DoubleStorage(3).size() == 3
    assert (
        facula.DoubleStorage.dtype is facula.float64 and facula.QInt8Storage.dtype is facula.qint8
    )


def test_bytes_of_the_other_order_are_turned_around():
    big = bytes([1, 2, 3, 4])
    assert facula.ShortStorage.from_buffer(big, "big").tolist() == [0x0102, 0x0304]
    assert facula.ShortStorage.from_buffer(big, "little").tolist() == [0x0201, 0x0403]
    assert facula.ShortStorage.from_buffer(big, byte_order="big").tolist() == [0x0102, 0x0304]
    assert facula.ByteStorage.from_buffer(big, "big").tolist() == [1, 2, 3, 4]
    pair = np.array([1 + 2j], dtype=">c8")
    assert facula.ComplexFloatStorage.from_buffer(pair.tobytes(), "big").tolist() == [1 + 2j]


def test_typed_tensors_lie_on_storages():
    x = facula.arange(3.0)
    assert facula.FloatTensor(x.storage()).data_ptr() == x.data_ptr()


def test_a_tensor_of_a_storage_holds_its_bytes():
    storage = facula.tensor([1.0, 2.0]).untyped_storage()
    assert facula.tensor(storage, dtype=facula.float32).tolist() == [1.0, 2.0]
    assert facula.tensor(storage, dtype=facula.int16).shape == (4,)


def test_a_storage_without_elements_says_so():
    storage = facula.empty(3, device="meta").storage()
    for read in (lambda: storage[0], storage.tolist):
        with pytest.raises(NotImplementedError, match="Not available for 'meta'"):
            read()
    with pytest.raises(RuntimeError, match="only available on CPU"):
        storage.share_memory_()


def test_kinds_by_dtype():
    kinds = facula.storage._dtype_to_storage_type_map()
    assert kinds[facula.float32] == "FloatStorage" and kinds[facula.bool] == "BoolStorage"


def test_storages_are_saved_as_what_they_are():
    numbers = facula.arange(3)
    kept = io.BytesIO()
    facula.save(
        {"typed": numbers.storage(), "same": numbers, "bytes": numbers.untyped_storage()}, kept
    )
    kept.seek(0)
    loaded = facula.load(kept)
    assert isinstance(loaded["typed"], facula.LongStorage)
    assert loaded["typed"].tolist() == loaded["same"].tolist() == [0, 1, 2]
    assert isinstance(loaded["bytes"], facula.UntypedStorage)
    loaded["typed"][1] = 7
    assert loaded["same"].tolist() == [0, 7, 2] and loaded["bytes"].tolist()[8] == 7


def test_bytes_that_are_not_there():
    with pytest.raises(NotImplementedError, match="Not available for 'meta'"):
        facula.empty(3, device="meta").untyped_storage()[0]


def test_storages_of_quantized_numbers_hold_their_integers():
    storage = facula.QInt8Storage(3)
    storage[:] = 0
    storage[1] = -5
    assert storage.tolist() == [0, -5, 0]
    assert storage.dtype is facula.qint8
    assert storage.nbytes() == 3
    assert facula.QInt32Storage([1, 2]).nbytes() == 8


@pytest.mark.parametrize(
    ("kind", "words", "make"),
    [
        (RuntimeError, "'device' cannot be specified", lambda: facula.FloatStorage(device="cpu")),
        (RuntimeError, "'dtype' cannot be specified", lambda: facula.ByteStorage(dtype=facula.float32)),
        (RuntimeError, "Too many positional", lambda: facula.FloatStorage(0, 0)),
        (TypeError, "invalid data type", lambda: facula.FloatStorage("four")),
        (TypeError, "not recognized", lambda: facula.FloatStorage(facula.ones(2))),
        (TypeError, "must be UntypedStorage", lambda: facula.FloatStorage(wrap_storage=facula.FloatStorage(1))),
        (RuntimeError, "No positional", lambda: facula.FloatStorage(1, wrap_storage=facula.UntypedStorage(4))),
        (RuntimeError, "'dtype' must be", lambda: facula.TypedStorage(wrap_storage=facula.UntypedStorage(4))),
        (TypeError, "must be (torch|facula).dtype", lambda: facula.TypedStorage(2, dtype=0)),
        (RuntimeError, "not recognized", lambda: facula.TypedStorage(2, device="xla")),
        (
            RuntimeError,
            "should not be specified",
            lambda: facula.TypedStorage(
                wrap_storage=facula.UntypedStorage(4), dtype=facula.int8, device="cpu"
            ),
        ),
        (RuntimeError, "Only child classes", lambda: facula.storage._LegacyStorage()),
        (RuntimeError, "cannot set item", lambda: facula.FloatStorage(1).fill_(facula.FloatStorage(1))),
    ],
)  # fmt: skip
def test_arguments_that_make_no_storage(kind, words, make):
    with pytest.raises(kind, match=words):
        make()


def test_counts_and_bytes_in_files():
    import io

    storage, file = facula.ShortStorage([1, -2]), io.BytesIO()
    storage._write_file(file, False, True, 2)
    assert file.getvalue() == (2).to_bytes(8, "little") + bytes([1, 0, 254, 255])
    with pytest.raises(NotImplementedError, match="Cannot copy out"):
        facula.TypedStorage([1], device="meta")._write_file(file, False, True, 4)
    copy = storage.untyped().__copy__()
    copy.byteswap(facula.int16)
    assert copy.tolist() == [0, 1, 255, 254]
    assert storage.tolist() == [1, -2]


def test_a_dtype_of_quantized_numbers_has_no_sign():
    for dtype in (facula.quint8, facula.qint8, facula.qint32):
        with pytest.raises(RuntimeError, match="not supported for quantized"):
            dtype.is_signed  # noqa: B018
    assert facula.iinfo(facula.qint8).min == -128 and facula.iinfo(facula.quint8).max == 255


def test_elements_that_share_memory_are_told():
    def told(*arguments):
        return facula._debug_has_internal_overlap(facula.ones(40).as_strided(*arguments))

    assert told((3, 4), (4, 1)) == told((4, 3), (1, 4)) == told((2, 1, 5), (1, 0, 2)) == 0
    assert told((3, 4), (0, 1)) == 1
    assert told((3, 4), (2, 1)) == told((2, 5), (10, 2)) == 2


def test_a_format_is_text():
    with pytest.raises(TypeError, match="a str was required"):
        facula.tensor(1.0).__format__(3)


def test_storages_are_shown_while_a_mode_makes_tensors_without_elements():
    storage = facula.tensor([1.0, 2.5]).storage()
    with facula._subclasses.FakeTensorMode() as mode:
        assert str(storage).startswith(" 1.0\n 2.5\n[facula.storage.TypedStorage")
        fake = mode.from_tensor(facula.zeros(3)).storage()
        shown = "...\n[facula.storage.TypedStorage(dtype=facula.float32, device=meta) of size 3]"
        assert str(fake) == shown
    assert str(fake) == shown

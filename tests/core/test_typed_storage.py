"""Typed storages read and write the memory of tensors."""

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

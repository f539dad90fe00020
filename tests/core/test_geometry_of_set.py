"""`set_` makes a storage long enough for another shape, as `resize_` does; the same shape has to fit."""

import pytest

import facula


def test_another_shape_makes_the_storage_longer():
    x = facula.ones(1)
    x.set_(x.untyped_storage(), 100, facula.Size([2, 3]))
    assert x.storage_offset() == 100 and x.untyped_storage().nbytes() == (100 + 6) * 4
    y = facula.ones(4).set_(facula.UntypedStorage(4), 2, (2, 2), (1, 2))
    assert y.untyped_storage().nbytes() == (2 + 4) * 4


def test_the_same_shape_has_to_fit():
    x = facula.ones(1)
    with pytest.raises(RuntimeError, match="out of bounds for storage of size 4"):
        x.set_(x.untyped_storage(), 100, facula.Size([1]))


def test_a_storage_in_another_class_shares_the_bytes():
    class Named(facula.UntypedStorage):
        pass

    plain = facula.UntypedStorage(2)
    named = Named(plain)
    plain[0] = 7
    assert named[0] == 7 and named == plain and len(named) == 2 and isinstance(named, Named)


@pytest.mark.parametrize("value", [2.5, None, True])
@pytest.mark.parametrize("make", [facula.Tensor, facula.LongTensor, facula.ones(1).new])
def test_older_constructors_take_sequences(make, value):
    with pytest.raises(TypeError, match="data must be a sequence"):
        make(value)


@pytest.mark.parametrize("make", [facula.Tensor, facula.LongTensor, facula.ones(1).new])
def test_older_constructors_name_what_they_cannot_read(make):
    with pytest.raises(TypeError, match="invalid data type 'str'"):
        make("a")
    with pytest.raises(TypeError, match="received an invalid combination of arguments"):
        make((6, 0), 1, 1, 0)

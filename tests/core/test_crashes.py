"""Calls that once ended the process say what was wrong."""

import pickle

import pytest

import facula
from facula import core
from facula._subclasses.fake_tensor import FakeTensor, FakeTensorMode


class Wrapper(facula.Tensor):
    """A tensor without elements of its own."""

    @staticmethod
    def __new__(cls, inner):
        made = facula.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)
        made.inner = inner
        return made

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        plain = [a.inner if isinstance(a, Wrapper) else a for a in args]
        return function(*plain, **(kwargs or {}))


def test_none_is_no_data():
    x = facula.ones(2)
    with pytest.raises(TypeError, match="Variable data has to be a tensor, but got NoneType"):
        x.data = None
    assert x.tolist() == [1.0, 1.0]


@pytest.mark.parametrize(
    "name",
    ["storage_key", "storage_of", "tolist", "item", "plain_alias", "address_of", "to_dlpack",
     "tensor_place", "storage_place", "fake_snapshot", "number_of", "writes", "bytes_of"],
)  # fmt: skip
def test_helpers_of_the_core_take_no_none(name):
    with pytest.raises(TypeError):
        getattr(core, name)(None)


@pytest.mark.parametrize("name", ["share_memory_", "detach", "clone", "resize_as_", "retain_grad"])
def test_methods_take_no_none_for_self(name):
    with pytest.raises(TypeError):
        getattr(facula.Tensor, name)(None)


def test_bytes_of_storages_that_have_none():
    storage = facula.ones(2, device="meta").untyped_storage()
    for read in (pickle.dumps, memoryview, core.bytes_of):
        with pytest.raises(NotImplementedError, match="no data"):
            read(storage)
    assert facula.UntypedStorage([1, 2], device="meta").nbytes() == 2


def test_a_wrapper_has_no_bytes_to_read():
    wrapped = Wrapper(facula.ones(2, 3))
    there = facula.zeros(6).set_(wrapped.untyped_storage())
    assert tuple(there.shape) == (6,)
    for read in (there, wrapped.untyped_storage()):
        with pytest.raises(NotImplementedError, match="no data"):
            read.tolist()


def test_pickles_under_a_fake_mode():
    text = pickle.dumps(facula.ones(2, 3))
    with FakeTensorMode():
        loaded = pickle.loads(text)
    assert isinstance(loaded, FakeTensor)
    assert tuple(loaded.shape) == (2, 3)


@pytest.mark.breaks("unsupported-mutation")
def test_shared_memory_inside_of_compiled_code():
    compiled = facula.compile(lambda x: x + facula.zeros(2).share_memory_(), backend="eager")
    assert compiled(facula.ones(2)).tolist() == [1.0, 1.0]


def test_sums_of_more_terms_than_memory_holds_end():
    with pytest.raises((RuntimeError, MemoryError)):
        facula.mvlgamma(facula.ones(2), 10**12)


def test_capsules_share_memory():
    x = facula.ones(3)
    assert facula.asarray(facula.to_dlpack(x)).data_ptr() == x.data_ptr()


class Silent(facula.Tensor):
    """A subclass whose `__init__` does not call its base's."""

    def __init__(self, *args, **kwargs):
        self.note = "kept"


class SilentStorage(facula.UntypedStorage):
    def __init__(self, *args, **kwargs):
        self.note = "kept"


def test_tensors_made_without_init_are_empty():
    for made in (facula.Tensor.__new__(facula.Tensor), Silent(), Silent.__new__(Silent)):
        assert made.shape == (0,) and made.dtype is facula.float32
        assert made.tolist() == [] and (made + 1).tolist() == []
        assert made.untyped_storage().nbytes() == 0
        assert pickle.loads(pickle.dumps(made.as_subclass(facula.Tensor))).shape == (0,)
    assert Silent().note == "kept"


def test_storages_made_without_init_are_empty():
    made = facula.UntypedStorage.__new__(facula.UntypedStorage)
    assert len(made) == 0 and made.tolist() == [] and made.clone().nbytes() == 0
    assert len(SilentStorage()) == 0 and SilentStorage().note == "kept"
    assert len(made.resize_(8)) == 8
    assert facula.empty(0).set_(made).untyped_storage() is made


def test_classes_that_are_no_tensors_make_none():
    with pytest.raises(TypeError, match="subclass of Tensor"):
        facula.Tensor._make_wrapper_subclass(FakeTensorMode, (2,))


def test_a_tensor_made_of_a_tensor_has_its_history():
    x = facula.ones(2, requires_grad=True)
    made = facula.Tensor(x * 3)
    assert made.requires_grad and not made.is_leaf
    (made * made).sum().backward()
    assert x.grad.tolist() == [18.0, 18.0]
    with facula.no_grad():
        assert not facula.Tensor(x).requires_grad
    assert not facula.Tensor(facula.ones(2)).requires_grad

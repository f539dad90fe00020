"""Tensors on the meta device that are like given ones, and what compares tensors without their elements."""

import gc

import pytest

import facula
from facula import _prims_common
from facula._subclasses.meta_utils import MetaConverter, assert_metadata_eq


def same(a, b):
    assert a == b


@pytest.mark.parametrize("grad", [True, False])
@pytest.mark.parametrize(
    "make",
    [
        lambda x: x,
        lambda x: x * 2,
        lambda x: x[1:],
        lambda x: x.t(),
        lambda x: (x * 2)[:, ::2],
        lambda x: x[1:].t()[1:],
        lambda x: x.reshape(3, 1, 4, 1).contiguous(memory_format=facula.channels_last),
    ],
)
def test_what_is_to_be_seen_is_the_same(make, grad):
    x = facula.ones(3, 4, requires_grad=grad)
    y = make(x)
    made = MetaConverter()(y)
    assert made.is_meta
    assert_metadata_eq(same, made, y)


def test_identity_memory_and_gradients():
    to_meta, x = MetaConverter(), facula.ones(4, requires_grad=True)
    x.grad = facula.ones(4)
    whole, part = to_meta(x), to_meta(x[1:])
    assert to_meta(x) is whole and part._base is whole and whole.grad.is_meta
    plain = facula.ones(6)
    other = facula.empty(0).set_(plain.untyped_storage(), 2, (4,), (1,))
    first, second = to_meta(plain), to_meta(other)
    assert first.untyped_storage()._cdata == second.untyped_storage()._cdata
    assert to_meta(3) == 3 and to_meta.successful()
    assert isinstance(to_meta(facula.nn.Parameter(plain)), facula.nn.Parameter)
    remembered = len(to_meta.tensor_memo)
    del other
    gc.collect()
    assert len(to_meta.tensor_memo) < remembered
    with pytest.raises(NotImplementedError, match="a tensor with strides"):
        to_meta(facula.eye(2).to_sparse())


def test_differences_are_found():
    x = facula.ones(2, 3)
    for other in (facula.ones(3, 2), x.double(), x.t().contiguous().t(), facula.ones(3, 3)[1:]):
        with pytest.raises(AssertionError):
            assert_metadata_eq(same, x, other)


def test_steps_in_memory():
    x, y = facula.ones(2, 1, 3), facula.ones(2, 1, 3).as_strided((2, 1, 3), (3, 7, 1))
    z = facula.ones(3, 1, 2).permute(2, 1, 0)
    significant, every = _prims_common.check_significant_strides, _prims_common.check_all_strides
    assert significant(x, z) == (True, None)  # neither is on an accelerator
    assert significant(x, y, only_cuda=False) == (True, None)
    assert every(x, y, only_cuda=False) == (False, 1)
    assert significant(x, z, only_cuda=False) == (False, 0)


def test_keys_that_are_left_out():
    keys = facula._C.DispatchKey
    assert not facula._C._dispatch_tls_local_exclude_set().has(keys.AutocastCPU)
    with facula._C._ExcludeDispatchKeyGuard(facula._C.DispatchKeySet(keys.AutocastCPU)):
        assert facula._C._dispatch_tls_local_exclude_set().has(keys.AutocastCPU)
    assert not facula._C._dispatch_tls_local_exclude_set().has(keys.AutocastCPU)

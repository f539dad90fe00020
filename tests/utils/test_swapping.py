"""`utils.swap_tensors`: what each tensor was, the other one is, and nothing that knew them goes wrong."""

import weakref

import pytest

import facula
from facula import nn
from facula.utils import swap_tensors


def test_everything_goes_over_but_the_identities():
    plain = facula.tensor([1.0, 2.0])
    parameter = nn.Parameter(facula.arange(6.0).reshape(2, 3).t())
    parameter.grad, parameter.tag = facula.full((3, 2), 7.0), "kept"
    places = id(plain), id(parameter)
    assert swap_tensors(plain, parameter) is None
    assert (id(plain), id(parameter)) == places
    assert type(plain) is nn.Parameter and type(parameter) is facula.Tensor
    assert plain.tolist() == [[0, 3], [1, 4], [2, 5]] and plain.stride() == (1, 3)
    assert plain.requires_grad and plain.grad.tolist() == [[7, 7]] * 3 and plain.tag == "kept"
    assert parameter.tolist() == [1, 2] and not parameter.requires_grad
    assert parameter.grad is None and parameter.__dict__ == {}


def test_dtypes_and_devices():
    a, b = facula.ones(2, 0, dtype=facula.int8), facula.empty(3, device="meta")
    swap_tensors(a, b)
    assert a.is_meta and a.shape == (3,) and a.dtype is facula.float32
    assert b.shape == (2, 0) and b.dtype is facula.int8 and not b.is_meta


def test_modules_and_optimizers_see_it():
    layer = nn.Linear(2, 1, bias=False)
    optimizer = facula.optim.SGD(layer.parameters(), lr=1.0)
    swap_tensors(layer.weight, nn.Parameter(facula.tensor([[3.0, 5.0]])))
    layer(facula.ones(2)).backward()
    optimizer.step()
    assert layer.weight.tolist() == [[2, 4]]


def test_graphs_that_end_in_a_swapped_leaf_raise():
    a, b = facula.ones(2, requires_grad=True), facula.zeros(2, requires_grad=True)
    before = (a * 3).sum()
    swap_tensors(a, b)
    with pytest.raises(RuntimeError, match="poisoned by swap_tensors"):
        before.backward()
    (a * 3).sum().backward()  # new graphs do not
    assert a.grad.tolist() == [3, 3] and b.grad is None


def test_graphs_that_kept_a_swapped_tensor_raise():
    """The product's gradient would be that of the other tensor."""
    factor, other = facula.ones(2), facula.zeros(2)
    other.add_(1)
    leaf = facula.ones(2, requires_grad=True)
    before = (factor * leaf).sum()
    swap_tensors(factor, other)
    with pytest.raises(RuntimeError, match="unmodified saved tensor was required"):
        before.backward()


def test_results_take_their_history_along():
    leaf = facula.ones(2, requires_grad=True)
    result, other = leaf * 5, facula.zeros(3)
    swap_tensors(result, other)
    assert result.is_leaf and other.grad_fn is not None
    other.sum().backward()
    assert leaf.grad.tolist() == [5, 5]


def test_hooks_go_over():
    a, b = facula.ones(1, requires_grad=True), facula.ones(1, requires_grad=True)
    a.register_hook(lambda g: g * 10)
    heard = []
    a.register_post_accumulate_grad_hook(heard.append)
    swap_tensors(a, b)
    (a + b).backward()
    assert a.grad.tolist() == [1] and b.grad.tolist() == [10]
    assert len(heard) == 1 and heard[0] is b


def test_views_stay_views_of_their_root():
    root, other = facula.zeros(4), facula.ones(2)
    view = root[1:3]
    swap_tensors(view, other)
    assert other._base is root and view._base is None
    other.fill_(9)
    assert root.tolist() == [0, 9, 9, 0] and view.tolist() == [1, 1]
    tracked = facula.ones(3, requires_grad=True) * 1
    view, other = tracked[1:], facula.zeros(1)
    swap_tensors(view, other)
    tracked.mul_(2)  # the view hears of the write to its root
    assert other.tolist() == [2, 2]
    del tracked
    other.sum().backward()


def test_subclasses_go_over():
    class Heard(facula.Tensor):
        @classmethod
        def __torch_function__(cls, function, kinds, args=(), kwargs=None):
            heard.append(function)
            return super().__torch_function__(function, kinds, args, kwargs or {})

    heard = []
    a, b = facula.ones(2).as_subclass(Heard), facula.zeros(2)
    swap_tensors(a, b)
    heard.clear()
    facula.add(a, 1)
    assert not heard
    assert type(facula.add(b, 1)) is Heard and heard


def test_slots_go_over():
    class Slotted(facula.Tensor):
        __slots__ = ("name", "unset")

    a, b = facula.ones(1).as_subclass(Slotted), facula.zeros(1).as_subclass(Slotted)
    a.name, a.unset, b.name = "a", 1, "b"
    swap_tensors(a, b)
    assert a.name == "b" and b.name == "a" and b.unset == 1 and not hasattr(a, "unset")
    with pytest.raises(RuntimeError, match="different slots"):
        swap_tensors(a, facula.ones(1))
    assert a.name == "b"


def test_what_else_refers_to_them_is_refused():
    a, b = facula.ones(3), facula.zeros(3)
    view = a[1:]
    for pair in ((a, b), (b, a)):
        with pytest.raises(RuntimeError, match="got one with views"):
            swap_tensors(*pair)
    del view
    swap_tensors(a, b)
    reference = weakref.ref(a)
    for pair, name in (((a, b), "t1"), ((b, a), "t2")):
        with pytest.raises(RuntimeError, match=f"Cannot swap {name} because it has weakref"):
            swap_tensors(*pair)
    assert reference() is a and a.tolist() == [0, 0, 0]


def test_with_itself_nothing_happens():
    a = facula.ones(2, requires_grad=True)
    before = (a * 2).sum()
    swap_tensors(a, a)
    before.backward()
    assert a.grad.tolist() == [2, 2]

"""Names that libraries take from PyTorch's own rooms: what they do here."""

import copy
import gc
import subprocess
import sys

import numpy as np
import pytest

import facula
from facula import functorch, nn
from facula._C import _functorch
from facula._functorch.vmap import _maybe_remove_batch_dim
from facula.nn.utils._named_member_accessor import swap_tensor
from facula.utils import _pytree
from facula.utils._contextlib import _DecoratorContextManager
from facula.utils.weak import WeakIdKeyDictionary, WeakIdRef


def test_entries_of_a_batch_are_told_from_tensors():
    seen = []

    def one(x, y):
        seen.append((_functorch.is_batchedtensor(x), _functorch.is_batchedtensor(y)))
        seen.append((_functorch.maybe_get_bdim(x), _functorch.maybe_get_bdim(y)))
        seen.append(_functorch.get_unwrapped(x) is xs)
        return x + y

    xs = facula.arange(6.0).reshape(2, 3)
    facula.vmap(one, (1, None))(xs, facula.ones(2))
    assert seen == [(True, False), (1, -1), True]
    assert _functorch.get_unwrapped(xs) is xs and _functorch.maybe_get_level(xs) == -1


def test_a_batch_dimension_is_taken_off_and_put_back():
    xs = facula.arange(6.0).reshape(2, 3)
    entry = _functorch._add_batch_dim(xs, -1, 1 << 40)
    assert entry.shape == (2,) and _functorch.maybe_get_level(entry) == 1 << 40
    assert _functorch._remove_batch_dim(entry, 1 << 40, 3, 1).equal(xs)
    assert _functorch._remove_batch_dim(entry, 1 << 40, 3, 0).equal(xs.T)
    assert _maybe_remove_batch_dim("f", facula.ones(2), 1 << 40, 3, 0).shape == (3, 2)
    with pytest.raises(ValueError, match="`f` can not return a BatchedTensor"):
        _maybe_remove_batch_dim("f", entry, 1 << 40, 3, None)


class Pair:
    """A container of tensors that says itself what one entry of it is, as tensordict's do."""

    def __init__(self, a, b):
        self.a, self.b = a, b
        self.shape = a.shape[:1]

    def dim(self):
        return len(self.shape)

    def _add_batch_dim(self, *, in_dim, vmap_level):
        made = copy.copy(self)
        made.a, made.b = (
            _functorch._add_batch_dim(t, in_dim, vmap_level) for t in (self.a, self.b)
        )
        return made

    def _maybe_remove_batch_dim(self, name, *, vmap_level, batch_size, out_dim):
        parts = (
            _maybe_remove_batch_dim(name, t, vmap_level, batch_size, out_dim)
            for t in (self.a, self.b)
        )
        return Pair(*parts)


def test_containers_that_map_themselves_go_through_vmap():
    pair = Pair(facula.arange(6.0).reshape(3, 2), facula.arange(3.0))

    def one(p, scale):
        assert p.a.shape == (2,) and p.b.shape == ()
        made = copy.copy(p)
        made.a, made.b = p.a * p.b, p.b * scale
        return made

    out = facula.vmap(one, (0, None))(pair, 10)
    np.testing.assert_array_equal(
        out.a.numpy(), np.arange(6.0).reshape(3, 2) * np.arange(3.0)[:, None]
    )
    np.testing.assert_array_equal(out.b.numpy(), np.arange(3.0) * 10)


def test_modules_as_functions_of_their_parameters():
    model = nn.Linear(3, 2)
    function, parameters = functorch.make_functional(model)
    x = facula.randn(4, 3)
    assert function(parameters, x).equal(model(x)) and not list(function.parameters())
    assert function([p * 0 for p in parameters], x).equal(facula.zeros(4, 2))
    assert all(
        p.requires_grad and p is not q for p, q in zip(parameters, model.parameters(), strict=True)
    )
    _, plain = functorch.make_functional(model, disable_autograd_tracking=True)
    assert not any(p.requires_grad for p in plain)
    with pytest.raises(RuntimeError, match="2 tensors were required"):
        function(parameters[:1], x)
    with pytest.raises(RuntimeError, match="without buffers"):
        functorch.make_functional(nn.BatchNorm1d(3))


def test_tied_parameters_are_one_parameter_of_the_function():
    model = nn.Sequential(nn.Linear(2, 2, bias=False), nn.Linear(2, 2, bias=False))
    model[1].weight = model[0].weight
    function, parameters = functorch.make_functional(model)
    assert len(parameters) == 1
    x = facula.randn(3, 2)
    w = facula.randn(2, 2)
    assert facula.testing.assert_close(function((w,), x), x @ w.T @ w.T) is None


def test_an_ensemble_is_a_function_of_stacked_parameters():
    models = [nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3)).eval() for _ in range(3)]
    function, parameters, buffers = functorch.combine_state_for_ensemble(models)
    x = facula.randn(5, 2)
    out = facula.vmap(function, (0, 0, None))(parameters, buffers, x)
    for one, model in zip(out, models, strict=True):
        facula.testing.assert_close(one, model(x))


def test_a_tensor_of_a_module_is_swapped():
    model = nn.BatchNorm1d(2)
    before, new = model.weight, nn.Parameter(facula.zeros(2))
    assert swap_tensor(model, "weight", new) is before and model.weight is new
    old = model.running_mean
    assert swap_tensor(model, "running_mean", facula.ones(2)) is old
    assert model._buffers["running_mean"].sum() == 2
    with pytest.raises(KeyError, match="dot"):
        swap_tensor(model, "a.b", new)
    with pytest.raises(AttributeError, match="no attribute `extra`"):
        swap_tensor(model, "extra", new)
    assert swap_tensor(model, "extra", facula.ones(1), allow_missing=True) is None
    assert swap_tensor(model, "extra", None).equal(facula.ones(1)) and not hasattr(model, "extra")
    with pytest.raises(TypeError, match="a tensor was required"):
        swap_tensor(model, "weight", 3)


def test_keys_are_compared_by_identity_and_not_kept_alive():
    x, y = facula.ones(2), facula.ones(2)
    notes = WeakIdKeyDictionary({x: 1})
    notes[y] = 2
    assert notes[x] == 1 and notes[y] == 2 and len(notes) == 2 and facula.ones(2) not in notes
    assert {id(key) for key in notes} == {id(x), id(y)} and 3 not in notes
    twin = notes.copy()
    del notes[x]
    assert x not in notes and twin[x] == 1
    with pytest.raises(KeyError):
        notes[x]
    del y
    gc.collect()
    assert len(notes) == 0 and [id(key) for key in twin] == [id(x)]
    reference = WeakIdRef(x)
    assert reference == WeakIdRef(x) and reference != WeakIdRef(facula.ones(2))


def test_a_context_manager_of_a_library_decorates_functions():
    class Counted(_DecoratorContextManager):
        entered = 0

        def __enter__(self):
            Counted.entered += 1

        def __exit__(self, *exception):
            Counted.entered += 10

    @Counted()
    def f(x):
        return x + Counted.entered

    assert f(1) == 2 and f(1) == 13 and Counted.entered == 22


def test_subclasses_pass_their_data_on_to_the_constructor():
    class Named(facula.Tensor):
        def __new__(cls, source, *, label):
            return super().__new__(cls, source)

        def __init__(self, source, *, label):
            self.label = label

    base = facula.arange(6.0).reshape(2, 3)
    made = Named(base, label="x")
    assert type(made) is Named and made.shape == (2, 3) and made.label == "x"
    assert made.data_ptr() == base.data_ptr()
    assert facula.Tensor.__new__(Named, 2, 3).shape == (2, 3)
    assert facula.Tensor.__new__(Named, [1.0, 2.0]).tolist() == [1.0, 2.0]


def test_results_with_names_are_made_of_values_or_of_a_sequence():
    values = facula.max(facula.eye(2), 0)
    kind = type(values)
    assert facula.return_types.max is kind and _pytree.is_structseq_instance(values)
    for made in (kind(values), kind(*values), kind(list(values)), kind._make(values)):
        assert made.values is values.values and made.indices is values.indices
    assert not _pytree.is_structseq_instance((1, 2)) and _pytree.tree_is_leaf(3)
    assert not _pytree.tree_is_leaf([3]) and _pytree.tree_is_leaf([3], lambda v: True)


def test_questions_about_modes_and_storages():
    from facula import _guards
    from facula._subclasses.fake_tensor import FakeTensorMode
    from facula.overrides import TorchFunctionMode

    assert _guards.active_fake_mode() is None
    with FakeTensorMode() as mode:
        assert _guards.active_fake_mode() is mode
    assert not facula._C._is_torch_function_mode_enabled()

    class Mode(TorchFunctionMode):
        def __torch_function__(self, function, types, args=(), kwargs=None):
            return function(*args, **(kwargs or {}))

    with Mode():
        assert facula._C._is_torch_function_mode_enabled()
    x = facula.ones(3)
    assert facula._C._is_alias_of(x, x[1:]) and not facula._C._is_alias_of(x, x.clone())
    assert isinstance(x.untyped_storage(), facula.StorageBase)


def test_functorch_and_replaced_modules_are_found_under_the_alias():
    program = """
import facula
facula.install_as_torch()
import functorch
from functorch import make_functional, vmap
import torch.nn.utils._named_member_accessor
import torch.utils._pytree, torch.fx._pytree
from torch.utils._pytree import tree_map
print(vmap is torch.vmap, tree_map is torch.fx._pytree.tree_map)
try:
    from functorch import dim
except ImportError:
    print("no dim")
"""
    done = subprocess.run(
        [sys.executable, "-c", "import sys; sys.modules.pop('x', None)\n" + program],
        capture_output=True,
        text=True,
    )
    assert done.stdout == "True True\nno dim\n", done.stderr

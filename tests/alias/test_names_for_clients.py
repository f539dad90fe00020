"""Names and forms that packages upon PyTorch use while they are imported, or deep in their loops."""

from __future__ import annotations

import inspect
import os
import pickle

import numpy as np
import pytest

import facula
from facula import distributions, nn
from facula.distributions import constraints, transforms


def test_the_root_has_itself():
    assert facula.torch is facula and "torch" not in facula.__all__


def test_files_have_types_for_annotations():
    """They were missing; libraries write them as annotations and defaults."""
    named = facula.serialization
    assert named.DEFAULT_PROTOCOL == 2
    assert isinstance("cpu", named.MAP_LOCATION.__args__[2])
    assert os.PathLike[str] in named.FILE_LIKE.__args__


def test_classes_of_transforms():
    assert isinstance(transforms.ExpTransform().inv, transforms._InverseTransform)
    kept = transforms._clipped_sigmoid(facula.tensor([200.0, -200.0])).tolist()
    assert 0.0 < kept[1] < 1e-30 and 0.99 < kept[0] < 1.0


def test_helpers_of_normal_distributions():
    """Libraries of Gaussian processes and of Laplace approximations import them."""
    named = distributions.multivariate
    rng = np.random.default_rng(0)
    factor, vector = np.tril(rng.random((3, 3))) + np.eye(3), rng.random(3)
    lower, x = facula.tensor(factor), facula.tensor(vector)
    matrix = factor @ factor.T
    precision = named._precision_to_scale_tril(lower @ lower.mT).numpy()
    np.testing.assert_allclose(precision @ precision.T, np.linalg.inv(matrix))
    wanted = vector @ np.linalg.solve(matrix, vector)
    np.testing.assert_allclose(named._batch_mahalanobis(lower, x).item(), wanted)
    np.testing.assert_allclose(named._batch_mv(lower, x).numpy(), factor @ vector)

    wide, diagonal = rng.random((3, 2)), rng.random(3) + 1
    W, D = facula.tensor(wide), facula.tensor(diagonal)
    matrix = wide @ wide.T + np.diag(diagonal)
    capacitance = named._batch_capacitance_tril(W, D)
    found = named._batch_lowrank_logdet(W, D, capacitance).item()
    np.testing.assert_allclose(found, np.linalg.slogdet(matrix)[1])
    found = named._batch_lowrank_mahalanobis(W, D, x, capacitance).item()
    np.testing.assert_allclose(found, vector @ np.linalg.solve(matrix, vector))


@pytest.mark.parametrize("module", [constraints, transforms])
def test_star_imports_of_distributions(module):
    """Libraries go through these lists; each name is there."""
    assert all(hasattr(module, name) for name in module.__all__)
    assert {"real", "simplex"} <= set(constraints.__all__)


def test_a_transform_may_be_a_module():
    """A class of both could not assign submodules: the transform's constructor did not hand on."""

    class Learned(transforms.Transform, nn.Module):
        domain = codomain = constraints.real
        bijective = True

        def __init__(self):
            super().__init__(cache_size=1)
            self.scale = nn.Linear(1, 1)

        def _call(self, x):
            return x * self.scale.weight[0, 0].exp()

        def _inverse(self, y):
            return y / self.scale.weight[0, 0].exp()

    made = Learned()
    assert len(list(made.parameters())) == 2
    x = facula.tensor([0.5, 2.0])
    np.testing.assert_allclose(made.inv(made(x)).detach().numpy(), x.numpy(), rtol=1e-6)


def test_divergences_of_classes_that_are_no_distributions():
    """Libraries have a base class of their own, beside PyTorch's."""

    class Base:
        pass

    class Mine(Base, distributions.Normal):
        pass

    @distributions.register_kl(Mine, Base)
    def _(p, q):
        return facula.tensor(7.0)

    assert distributions.kl_divergence(Mine(0.0, 1.0), Mine(1.0, 1.0)).item() == 7.0
    with pytest.raises(TypeError, match="Expected type_p"):
        distributions.register_kl(Mine(0.0, 1.0), Base)


def test_sparse_tensors_by_class():
    kind = facula.sparse.FloatTensor
    where = facula.tensor([[0, 1], [1, 0]])
    made = kind(where, facula.tensor([3.0, 4.0]), facula.Size([2, 2]))
    assert made.to_dense().tolist() == [[0.0, 3.0], [4.0, 0.0]]
    assert kind(2, 3).shape == (2, 3) and kind(2, 3)._nnz() == 0
    assert isinstance(made, kind) and not isinstance(facula.ones(2), kind)
    assert not isinstance(made, facula.sparse.DoubleTensor)
    assert set((kind | facula.sparse.HalfTensor).__args__) == {kind, facula.sparse.HalfTensor}
    with pytest.raises(TypeError, match="float32"):
        kind(where, facula.tensor([3, 4]), facula.Size([2, 2]))
    assert not hasattr(facula.sparse, "OtherTensor")


def test_rows_of_sparse_matrices_both_ways():
    rng = np.random.default_rng(3)
    rows, columns = np.sort(rng.integers(0, 6, 20)), rng.integers(0, 5, 20)
    want = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=6))])
    starts = facula._convert_indices_from_coo_to_csr(facula.tensor(rows), 6, out_int32=True)
    assert starts.dtype is facula.int32 and starts.tolist() == want.tolist()
    back = facula._convert_indices_from_csr_to_coo(starts, facula.tensor(columns))
    assert back.dtype is facula.int64 and back.tolist() == [rows.tolist(), columns.tolist()]
    turned = facula._convert_indices_from_csr_to_coo(
        starts, facula.tensor(columns), transpose=True, out_int32=True
    )
    assert turned.dtype is facula.int32 and turned.tolist() == [columns.tolist(), rows.tolist()]
    pair = facula._convert_indices_from_csr_to_coo(
        facula.tensor([[0, 1, 2], [0, 0, 2]]), facula.tensor([[1, 0], [0, 1]])
    )
    assert pair.tolist() == [[0, 0, 1, 1], [0, 1, 1, 1], [1, 0, 0, 1]]


def test_products_by_their_first_name():
    dense = facula.arange(6.0).reshape(3, 2)
    sparse = facula.tensor([[0.0, 2.0, 0.0], [1.0, 0.0, 0.0]]).to_sparse()
    assert facula.dsmm(sparse, dense).tolist() == [[4.0, 6.0], [0.0, 1.0]]


def test_defaults_of_operators():
    """Libraries ask `__kwdefaults__` whether an operator has an argument."""
    assert facula.meshgrid.__kwdefaults__ == {"indexing": None}
    assert facula.softmax.__defaults__ is None or None in facula.softmax.__defaults__
    assert "out" in inspect.signature(facula.clamp).parameters
    assert facula.clamp.__defaults__ == (None, None)


def test_parts_of_printed_tensors():
    printing = facula._tensor_str
    text = printing._add_suffixes("tensor([1, 2]", ["size=(2,)", "a=1"], 7, False)
    assert text == "tensor([1, 2], size=(2,), a=1)"
    assert printing._add_suffixes("t([1]", ["b=2"], 2, True) == "t([1],\n  b=2)"
    x = facula.ones(2)
    assert printing._str_intern(x) == repr(x)


def test_sizes_as_a_tensor():
    assert facula._shape_as_tensor(facula.ones(2, 3)).tolist() == [2, 3]


def test_errors_of_checks_by_type():
    facula._check_tensor_all_with(ValueError, facula.tensor([True]))
    with pytest.raises(ValueError, match="above"):
        facula._check_tensor_all_with(ValueError, facula.tensor([True, False]), lambda: "above 3")


def test_a_profiler_that_was_left_running():
    asked = facula.autograd
    assert not asked._profiler_enabled()
    with pytest.raises(RuntimeError, match="not running"):
        asked._disable_profiler()
    left = facula.profiler.profile()
    left.start()
    assert asked._profiler_enabled()
    asked._disable_profiler()
    assert not asked._profiler_enabled()
    with facula.profiler.profile() as second:
        facula.ones(2).exp()
    assert any("exp" in event.key for event in second.key_averages())
    always = facula.profiler.profiler._default_schedule_fn
    assert always(5) is facula.profiler.ProfilerAction.RECORD


def test_switches_of_devices_that_are_not_there():
    with facula.backends.__dict__["__allow_nonbracketed_mutation"]():
        assert facula.backends.fp32_precision == "none"
    with pytest.raises(RuntimeError, match="not available"), facula.cuda.profiler.profile():
        pass
    assert facula._inductor.cudagraph_mark_step_begin() is None


def test_types_of_scripts_in_annotations():
    """`str | torch.DeviceObjType` raised, as annotations of functions in a library."""
    kind = facula.DeviceObjType
    assert set((str | kind).__args__) == {str, kind} and set((kind | None).__args__) == {
        kind,
        type(None),
    }


def test_entries_of_vmap_have_one_kind():
    asked = facula._C._functorch.is_legacy_batchedtensor
    seen = []
    facula.vmap(lambda x: (seen.append(asked(x)), x)[1])(facula.ones(2))
    assert seen == [False] and not asked(facula.ones(2))


def test_inverse_transforms_in_pickles():
    made = pickle.loads(pickle.dumps(transforms.ExpTransform().inv))  # noqa: S301 - written here
    assert made(facula.tensor(1.0)).item() == 0.0


def test_a_number_tells_tensors_apart():
    """Libraries compare `_cdata` to see whether a parameter in a store is the module's own."""
    layer = nn.Linear(2, 2)
    weight = layer.weight
    assert weight._cdata == layer.weight._cdata != layer.bias._cdata
    assert weight._cdata != weight.detach()._cdata

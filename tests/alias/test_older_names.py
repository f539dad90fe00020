"""Names that programs and libraries take from PyTorch's inner modules: what they give, by hand and by NumPy."""

import importlib
import math

import numpy as np
import pytest

import facula
import facula.nn.functional as F
from facula.nn import functional_helpers


def numbers(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape)


def test_tensors_packed_into_one_and_back() -> None:
    utils = importlib.import_module("facula._utils")
    arrays = [numbers(2, 3), numbers(4, seed=1), numbers(seed=2)]
    tensors = [facula.tensor(a).t() if a.ndim == 2 else facula.tensor(a) for a in arrays]
    flat = utils._flatten_dense_tensors(tensors)
    np.testing.assert_array_equal(
        flat, np.concatenate([arrays[0].T.ravel(), arrays[1], [arrays[2]]])
    )
    views = utils._unflatten_dense_tensors(flat, tensors)
    for view, tensor in zip(views, tensors, strict=True):
        np.testing.assert_array_equal(view, tensor.numpy())
    views[0][0, 0] = 7.0
    assert flat[0] == 7.0


def test_groups_of_tensors_by_type_and_size() -> None:
    utils = importlib.import_module("facula._utils")
    tensors = [
        facula.zeros(10),
        facula.zeros(3, dtype=facula.int64),
        facula.zeros(20),
        facula.zeros(5),
    ]
    groups = list(utils._take_tensors(tensors, 100))
    assert [[t.numel() for t in group] for group in groups] == [[10], [20, 5], [3]]
    ordered = utils._reorder_tensors_as([t for group in groups for t in group], tensors)
    assert [t.numel() for t in ordered] == [10, 3, 20, 5]


def test_devices_dtypes_and_names() -> None:
    utils = importlib.import_module("facula._utils")
    assert utils._get_device_index(3) == 3
    assert utils._get_device_index(facula.device("cpu"), allow_cpu=True) == -1
    assert utils._get_device_index("cuda:2") == 2
    with pytest.raises(ValueError, match="Expected a non cpu device"):
        utils._get_device_index("cpu")
    with pytest.raises(ValueError, match="a device with an index"):
        utils._get_device_index(None)
    assert utils._element_size(facula.complex64) == 8
    assert utils._import_dotted_name("facula.nn.Linear") is facula.nn.Linear
    assert list(utils._accumulate([1, 2, 3])) == [1, 3, 6]

    class Settings:
        @utils.classproperty
        def size(cls):
            return cls.__name__

    assert Settings.size == Settings().size == "Settings"


def test_the_modules_of_older_versions() -> None:
    six = importlib.import_module("facula._six")
    assert isinstance("x", six.string_classes) and six.inf == math.inf
    assert isinstance([], six.container_abcs.Sequence)
    for name in ("facula._tensor", "facula.tensor"):
        assert importlib.import_module(name).Tensor is facula.Tensor
    assert facula.tensor([1]).tolist() == [1]
    assert facula.has_lapack and facula.math.pi == math.pi and not facula.has_mps
    with pytest.raises(RuntimeError, match=r"Class space\.Thing not registered!"):
        facula.classes.space.Thing  # noqa: B018
    assert facula.DispatchKey is facula._C.DispatchKey and not hasattr(facula, "NoSuchName")


def test_projections_of_attention() -> None:
    x, w, b = numbers(2, 3, 4), numbers(12, 4, seed=1), numbers(12, seed=2)
    packed = F._in_projection_packed(*[facula.tensor(x)] * 3, facula.tensor(w), facula.tensor(b))
    apart = F._in_projection(
        *[facula.tensor(x)] * 3, *facula.tensor(w).chunk(3), *facula.tensor(b).chunk(3)
    )
    for part in range(3):
        rows = slice(4 * part, 4 * part + 4)
        expected = x @ w[rows].T + b[rows]
        np.testing.assert_allclose(packed[part], expected, rtol=1e-12)
        np.testing.assert_allclose(apart[part], expected, rtol=1e-12)


def test_attention_of_older_versions() -> None:
    q, k, v, mask = (
        numbers(2, 3, 4),
        numbers(2, 5, 4, seed=1),
        numbers(2, 5, 4, seed=2),
        numbers(3, 5),
    )
    output, weights = F._scaled_dot_product_attention(*map(facula.tensor, (q, k, v, mask)))
    scores = np.exp(q / 2 @ k.transpose(0, 2, 1) + mask)
    expected = scores / scores.sum(-1, keepdims=True)
    np.testing.assert_allclose(weights, expected, rtol=1e-10)
    np.testing.assert_allclose(output, expected @ v, rtol=1e-10)


def test_checks_and_masks_of_attention() -> None:
    x = facula.zeros(2, 3, 4)
    assert F._mha_shape_check(x, x, x, None, None, 2) is True
    assert F._mha_shape_check(x[0], x[0], x[0], None, None, 2) is False
    with pytest.raises(
        AssertionError, match="For batched \\(3-D\\) `query`, expected `key` and `value` to be 3-D"
    ):
        F._mha_shape_check(x, x[0], x, None, None, 2)
    with pytest.raises(AssertionError, match=r"Expected `attn_mask` shape to be \(2, 2, 2\)"):
        F._mha_shape_check(*[x[:, 0]] * 3, None, facula.zeros(1, 2, 2), 2)
    made = F._canonical_mask(facula.tensor([True, False]), "mask", None, "", facula.float32)
    assert made.tolist() == [-math.inf, 0.0]
    assert F._none_or_dtype(None) is None and F._none_or_dtype(x) == facula.float32
    for check, said in (
        (F._verify_batch_size, "1 value per channel"),
        (F._verify_spatial_size, "1 spatial"),
    ):
        check([2, 3, 4])
        with pytest.raises(ValueError, match=said):
            check([1, 3, 1])
    with pytest.warns(UserWarning, match="Implicit dimension choice for softmax"):
        assert F._get_softmax_dim("softmax", 3, 2) == 0
    assert F._Reduction.get_enum("sum") == functional_helpers._Reduction.get_enum("sum") == 2
    with pytest.raises(AttributeError, match="no attribute"):
        F.nothing  # noqa: B018


def test_optimizers_of_others_find_their_helpers() -> None:
    from facula.optim.optimizer import (
        Optimizer,
        _default_to_fused_or_foreach,
        _dispatch_sqrt,
        _get_scalar_dtype,
        _get_value,
        _use_grad_for_differentiable,
        _view_as_real,
    )

    class Plain(Optimizer):
        @_use_grad_for_differentiable
        def step(self):
            self.recorded = facula.is_grad_enabled()

    for differentiable in (False, True):
        optimizer = Plain([facula.zeros(1, requires_grad=True)], {"differentiable": differentiable})
        optimizer.step()
        assert optimizer.recorded is differentiable and facula.is_grad_enabled()
    assert _get_value(facula.tensor(2.5)) == 2.5 and _get_value(3) == 3
    assert _dispatch_sqrt(9.0) == 3.0 and _dispatch_sqrt(facula.tensor(4.0)).item() == 2.0
    assert _get_scalar_dtype() == facula.float32
    assert _default_to_fused_or_foreach([facula.zeros(1)], False, True) == (True, False)
    params, grads = [facula.tensor([1 + 2j])], [facula.tensor([3 + 4j])]
    _view_as_real(params, grads)
    assert params[0].tolist() == [[1.0, 2.0]] and grads[0].tolist() == [[3.0, 4.0]]


def test_rows_of_lists_by_device_and_dtype() -> None:
    a, b, c = facula.zeros(1), facula.zeros(2, dtype=facula.float64), facula.zeros(3)
    groups = facula.optim.Optimizer._group_tensors_by_device_and_dtype(
        [[a, b, c], [c, None, a]], True
    )
    cpu = facula.device("cpu")
    assert groups[cpu, facula.float32][1] == [0, 2] and groups[cpu, facula.float64][1] == [1]
    lists = groups[cpu, facula.float32][0]
    assert lists[0][0] is a and lists[1][1] is a and groups[cpu, facula.float64][0][1] == [None]
    with pytest.raises(RuntimeError, match="lists of one length"):
        facula.optim.Optimizer._group_tensors_by_device_and_dtype([[a], []])


def test_casts_and_copies_of_mixed_precision() -> None:
    from facula.amp.autocast_mode import _cast
    from facula.amp.grad_scaler import _MultiDeviceReplicator

    given = {"x": facula.zeros(1), "y": [facula.zeros(1, dtype=facula.float64), 3, "text"]}
    made = _cast(given, "cpu", facula.bfloat16)
    assert made["x"].dtype == facula.bfloat16 and made["y"][0].dtype == facula.float64
    assert made["y"][1:] == [3, "text"] and isinstance(made["y"], list)
    copies = _MultiDeviceReplicator(given["x"])
    first = copies.get(facula.device("cpu"))
    assert first is copies.get(facula.device("cpu")) and first is not given["x"]


def test_formulas_of_divergences_by_name() -> None:
    from facula.distributions import kl

    normal = facula.distributions.Normal
    p, q = normal(1.0, 2.0), normal(0.0, 3.0)
    expected = math.log(3 / 2) + (4 + 1) / 18 - 0.5
    assert kl._kl_normal_normal(p, q).item() == pytest.approx(expected, rel=1e-6)
    with pytest.raises(AttributeError):
        kl._kl_normal_nothing  # noqa: B018

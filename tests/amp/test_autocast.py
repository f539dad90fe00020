"""Autocast: which dtype an operator computes in, where it is on, and what it leaves behind."""

import importlib
import math
import threading

import numpy as np
import pytest

import facula
from facula import amp
from facula.autograd import autocast as state
from facula.nn import functional as F
from facula.ops.table.registry import TABLE

WORDS = {"lower", "float32", "widest", "unchanged"}


@pytest.fixture
def x():
    return facula.randn(4, 16)


def test_every_policy_is_known():
    policies = {
        op.definition.autocast for op in TABLE.values() if op.definition.kind != "custom"
    } - {None}
    assert policies
    for text in policies:
        parts = [part.split() for part in text.split(",")]
        assert all(part[-1] in WORDS and len(part) <= 2 for part in parts)
        assert all(part[0] in ("cpu", "accelerator") for part in parts if len(part) == 2)


def test_policy_of_a_device():
    text = "accelerator lower, cpu unchanged"
    assert state.policy_on(text, "cuda") == "lower"
    assert state.policy_on(text, "cpu") == "unchanged"
    assert state.policy_on("cpu float32", "cuda") is None
    assert state.policy_on("widest", "mps") == "widest"


@pytest.mark.parametrize("dtype", [facula.bfloat16, facula.float16])
def test_products_are_lowered(x, dtype):
    linear, conv = facula.nn.Linear(16, 8), facula.nn.Conv2d(1, 2, 3)
    with facula.autocast("cpu", dtype=dtype):
        results = [linear(x), conv(x[None, None]), x @ x.T, x.mm(x.T), facula.einsum("ij,kj", x, x)]
        q = x[None, None]
        results.append(F.scaled_dot_product_attention(q, q, q))
        assert all(r.dtype is dtype for r in results)
        assert (x + 1).dtype is facula.float32 and x.exp().dtype is facula.float32
    assert linear(x).dtype is facula.float32


def test_value_is_that_of_a_cast(x):
    linear = facula.nn.Linear(16, 8)
    with facula.autocast("cpu"):
        lowered = linear(x)
    by_hand = F.linear(x.bfloat16(), linear.weight.bfloat16(), linear.bias.bfloat16())
    assert facula.equal(lowered, by_hand)


def test_losses_are_float32_and_joins_widest(x):
    low = x.bfloat16()
    with facula.autocast("cpu"):
        assert F.mse_loss(low, low).dtype is facula.float32
        target = facula.zeros(4, dtype=facula.int64)
        assert F.cross_entropy(low, target).dtype is facula.float32
        assert facula.cat([low, x]).dtype is facula.float32
        assert facula.stack([low, low]).dtype is facula.bfloat16
        assert low.softmax(-1).dtype is facula.bfloat16


def test_doubles_and_integers_stay():
    with facula.autocast("cpu"):
        wide = facula.randn(3, 3, dtype=facula.float64)
        assert (wide @ wide).dtype is facula.float64
        whole = facula.ones(3, 3, dtype=facula.int64)
        assert (whole @ whole).dtype is facula.int64
        assert facula.prod(wide.bfloat16(), dtype=facula.float64).dtype is facula.float64


def test_out_and_in_place_are_not_cast(x):
    square = x @ x.T
    out = facula.empty(4, 4)
    with facula.autocast("cpu"):
        facula.mm(x, x.T, out=out)
        assert out.dtype is facula.float32 and facula.equal(out, square)
        assert square.addmm_(x, x.T).dtype is facula.float32


def test_regions_nest_and_restore(x):
    assert not facula.is_autocast_enabled("cpu")
    with facula.autocast("cpu", dtype=facula.float16):
        assert facula.is_autocast_enabled("cpu")
        assert facula.get_autocast_dtype("cpu") is facula.float16
        with facula.autocast("cpu", enabled=False):
            assert not facula.is_autocast_enabled("cpu")
            assert (x @ x.T).dtype is facula.float32
        with facula.autocast("cpu", dtype=facula.bfloat16):
            assert (x @ x.T).dtype is facula.bfloat16
        assert (x @ x.T).dtype is facula.float16
    assert not facula.is_autocast_enabled("cpu")
    assert facula.get_autocast_dtype("cpu") is facula.bfloat16


def test_an_exception_leaves_the_region(x):
    with pytest.raises(RuntimeError), facula.autocast("cpu"):
        x @ x
    assert not facula.is_autocast_enabled("cpu") and (x @ x.T).dtype is facula.float32


def test_decorator(x):
    @facula.autocast("cpu", dtype=facula.bfloat16)
    def product(y):
        return y @ y.T

    assert product(x).dtype is facula.bfloat16
    assert product.__name__ == "product"


def test_threads_have_their_own_state(x):
    seen = []

    def look():
        seen.append((facula.is_autocast_enabled("cpu"), (x @ x.T).dtype))

    with facula.autocast("cpu"):
        thread = threading.Thread(target=look)
        thread.start()
        thread.join()
    assert seen == [(False, facula.float32)]


def test_accelerators_only(x):
    with facula.autocast("cuda"):
        assert facula.is_autocast_enabled() and not facula.is_autocast_enabled("cpu")
        assert (x @ x.T).dtype is facula.float32


def test_parameters_are_lowered_once_and_follow_updates(x):
    linear = facula.nn.Linear(16, 8)
    with facula.autocast("cpu"):
        linear(x)
        first = state._STATE.cache[id(linear.weight)][3]
        linear(x)
        assert state._STATE.cache[id(linear.weight)][3] is first
        with facula.no_grad():
            assert not linear(x).requires_grad
            linear.weight.mul_(2)
        again = linear(x)
        by_hand = F.linear(x.bfloat16(), linear.weight.bfloat16(), linear.bias.bfloat16())
        assert facula.equal(again, by_hand)
        facula.clear_autocast_cache()
        assert not state._STATE.cache
        linear(x)
    assert not state._STATE.cache


def test_no_cache(x):
    linear = facula.nn.Linear(16, 8)
    with facula.autocast("cpu", cache_enabled=False):
        linear(x)
        assert not state._STATE.cache
    assert facula.is_autocast_cache_enabled()


def test_gradients_are_those_of_the_casts(x):
    weight = facula.randn(8, 16, requires_grad=True)
    with facula.autocast("cpu"):
        y = F.linear(x, weight)
        loss = F.mse_loss(y, facula.zeros(4, 8))
    loss.backward()
    twin = weight.detach().clone().requires_grad_()
    F.mse_loss(F.linear(x.bfloat16(), twin.bfloat16()).float(), facula.zeros(4, 8)).backward()
    assert weight.grad.dtype is facula.float32
    assert facula.equal(weight.grad, twin.grad)


def test_recurrent_network_is_lowered_as_a_whole(x):
    with facula.autocast("cpu"):
        out, (h, c) = facula.nn.LSTM(16, 5)(x)
    assert {out.dtype, h.dtype, c.dtype} == {facula.bfloat16}


def test_checkpoint_recomputes_under_the_same_autocast(x):
    from facula.autograd.checkpoint import checkpoint

    linear, seen = facula.nn.Linear(16, 16), []

    def segment(y):
        seen.append(facula.is_autocast_enabled("cpu"))
        return linear(y).float()

    inputs = x.clone().requires_grad_()
    with facula.autocast("cpu"):
        out = checkpoint(segment, inputs, use_reentrant=False)
    out.sum().backward()
    assert seen == [True, True]


@pytest.mark.parametrize("cast_inputs", [None, facula.float32])
def test_custom_function(x, cast_inputs):
    seen = {}

    class Product(facula.autograd.Function):
        @staticmethod
        @amp.custom_fwd(device_type="cpu", cast_inputs=cast_inputs)
        def forward(ctx, a):
            ctx.save_for_backward(a)
            out = a @ a.T
            seen["forward"] = facula.is_autocast_enabled("cpu"), out.dtype
            return out

        @staticmethod
        @amp.custom_bwd(device_type="cpu")
        def backward(ctx, grad):
            (a,) = ctx.saved_tensors
            seen["backward"] = facula.is_autocast_enabled("cpu")
            return ((grad.float() + grad.float().T) @ a.float()).to(a.dtype)

    a = x.clone().requires_grad_()
    with facula.autocast("cpu"):
        out = Product.apply(a)
    out.sum().backward()
    lowered = cast_inputs is None
    assert seen["forward"] == (lowered, facula.bfloat16 if lowered else facula.float32)
    assert seen["backward"] is lowered
    assert a.grad.shape == a.shape


def test_wrong_arguments():
    with pytest.raises(ValueError, match="Expected `device_type` of type `str`"):
        facula.autocast(facula.device("cpu"))
    with pytest.raises(RuntimeError, match="unsupported autocast device_type 'toaster'"):
        facula.autocast("toaster")
    with pytest.warns(UserWarning, match="target dtype is not supported"):
        region = facula.autocast("cpu", dtype=facula.int32)
    with region:
        assert not facula.is_autocast_enabled("cpu")
    assert amp.is_autocast_available("cpu") and not amp.is_autocast_available("meta")


def test_misuse_is_told_apart():
    with pytest.raises(TypeError, match="requires a callable, but got Tensor"):
        facula.autocast("cpu")(facula.ones(2))
    with pytest.raises(RuntimeError, match="Invalid device string: 'no device'"):
        facula.autocast("no device")
    with pytest.raises(ValueError, match="Expected `device_type` of type `str`, got:"):
        facula.autocast(facula.device("cpu"))


@pytest.mark.parametrize("kind", ["cpu", "cuda"])
def test_older_names_work_behind_their_inner_modules(kind):
    for inner in ("autocast_mode", "grad_scaler"):
        importlib.import_module(f"facula.{kind}.amp.{inner}")
    module = importlib.import_module(f"facula.{kind}.amp.autocast_mode")
    with pytest.warns(FutureWarning), module.autocast(enabled=False):
        pass
    with pytest.warns(FutureWarning):
        getattr(facula, kind).amp.GradScaler(enabled=False)


@pytest.mark.parametrize("kind", ["cpu", "cuda"])
def test_older_names_say_what_they_are_called_now(kind):
    older = getattr(facula, kind).amp
    with pytest.warns(FutureWarning, match=rf"{kind}.amp.autocast.*amp.autocast\('{kind}', args"):
        older.autocast(enabled=False)
    with pytest.warns(FutureWarning, match=rf"amp.GradScaler\('{kind}', args"):
        older.GradScaler(enabled=False)


def test_what_is_no_device_is_not_asked_about():
    with pytest.raises(RuntimeError, match="Invalid device string: 'not a real device'"):
        facula.amp.is_autocast_available("not a real device")
    assert not facula.amp.is_autocast_available("meta")


def test_a_product_with_an_activation_is_lowered():
    c, a, b = facula.randn(3), facula.randn(2, 4), facula.randn(4, 3)
    product = c.numpy() * 2 + 3 * (a.numpy() @ b.numpy())
    plain = facula._addmm_activation(c, a, b, beta=2, alpha=3)
    assert np.allclose(plain.numpy(), np.maximum(product, 0), atol=1e-5)
    soft = facula._addmm_activation(c, a, b, beta=2, alpha=3, use_gelu=True)
    normal = np.vectorize(lambda v: v * 0.5 * (1 + math.erf(v / math.sqrt(2))))
    assert np.allclose(soft.numpy(), normal(product), atol=1e-5)
    with facula.autocast("cpu"):
        assert facula._addmm_activation(c, a, b).dtype == facula.bfloat16


@pytest.mark.parametrize(
    ("mode", "spaces"), [("reflect", (1, 2)), ("replicate", (1, 2, 3)), ("circular", ())]
)
def test_padding_from_inside_is_done_in_float32_where_pytorch_does_it(mode, spaces):
    for space in (1, 2, 3):
        x = facula.rand((1, 2, *[4] * space), dtype=facula.bfloat16)
        with facula.autocast("cpu"):
            padded = F.pad(x, (1, 1) * space, mode=mode)
        assert padded.dtype == (facula.float32 if space in spaces else facula.bfloat16)
        assert facula.equal(padded.to(x.dtype), F.pad(x, (1, 1) * space, mode=mode))

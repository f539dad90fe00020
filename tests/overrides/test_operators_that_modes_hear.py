"""Dispatch modes and subclasses hear of PyTorch's operators, forward and backward, whatever runs below."""

import pytest

import facula
from facula import nn
from facula.fx.experimental.proxy_tensor import make_fx
from facula.nn import functional as F
from facula.utils._python_dispatch import TorchDispatchMode
from facula.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts
from facula.utils.flop_counter import FlopCounterMode

aten = facula.ops.aten
#: calls that only hand a tensor on
HANDED_ON = ("aten.detach.default", "aten.view.default")


class Names(TorchDispatchMode):
    """Writes down what it hears of."""

    def __init__(self):
        super().__init__()
        self.calls = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.calls.append((func, args))
        return func(*args, **(kwargs or {}))

    @property
    def names(self):
        """The operators without those that hand a tensor on."""
        return [str(func) for func, _ in self.calls if str(func) not in HANDED_ON]


def heard(function, *inputs):
    """What a mode hears of in a forward and in a backward pass."""
    with Names() as forward:
        result = function(*inputs)
    result = result[0] if isinstance(result, tuple) else result
    backward = Names()
    if result.requires_grad:
        with backward:
            result.backward(facula.ones_like(result))
    return forward.names[: len(forward.names)], [n for n in backward.names if "ones_like" not in n]


def wanted(text):
    return [f"aten.{name}" if "." in name else f"aten.{name}.default" for name in text.split()]


def leaf(*shape):
    return facula.randn(*shape, requires_grad=True)


CALLS = {
    "linear": (lambda: nn.Linear(4, 5), lambda: [leaf(3, 4)], "t addmm", "t mm t mm t sum.dim_IntList t"),
    "linear without bias": (lambda: nn.Linear(4, 5, bias=False), lambda: [leaf(3, 4)], "t mm", "t mm t t mm t"),
    "convolution": (lambda: nn.Conv2d(4, 6, 3), lambda: [leaf(2, 4, 8, 8)], "convolution", "convolution_backward"),
    "transposed convolution": (lambda: nn.ConvTranspose1d(4, 6, 3, 2, output_padding=1), lambda: [leaf(2, 4, 8)],
                               "convolution", "convolution_backward"),
    "layer norm": (lambda: nn.LayerNorm(4), lambda: [leaf(3, 4)], "native_layer_norm", "native_layer_norm_backward"),
    "group norm": (lambda: nn.GroupNorm(2, 4), lambda: [leaf(3, 4, 5)], "native_group_norm",
                   "native_group_norm_backward"),
    "cross entropy": (lambda: nn.CrossEntropyLoss(), lambda: [leaf(3, 4), facula.tensor([0, 3, 1])],
                      "_log_softmax nll_loss_forward", "nll_loss_backward _log_softmax_backward_data"),
    "cross entropy of images": (lambda: nn.CrossEntropyLoss(reduction="sum"),
                                lambda: [leaf(2, 4, 3, 3), facula.randint(4, (2, 3, 3))],
                                "_log_softmax nll_loss2d_forward", "nll_loss2d_backward _log_softmax_backward_data"),
    "mean square": (lambda: nn.MSELoss(), lambda: [leaf(3), facula.randn(3)], "mse_loss", "mse_loss_backward"),
    "softmax": (lambda: nn.Softmax(-1), lambda: [leaf(3, 4)], "_softmax", "_softmax_backward_data"),
    "relu": (lambda: nn.ReLU(), lambda: [leaf(3)], "relu", "threshold_backward"),
    "gelu": (lambda: nn.GELU(), lambda: [leaf(3)], "gelu", "gelu_backward"),
    "sigmoid": (lambda: nn.Sigmoid(), lambda: [leaf(3)], "sigmoid", "sigmoid_backward"),
    "maxima": (lambda: nn.MaxPool2d(2), lambda: [leaf(1, 2, 4, 4)], "max_pool2d_with_indices",
               "max_pool2d_with_indices_backward"),
    "averages": (lambda: nn.AvgPool2d(2), lambda: [leaf(1, 2, 4, 4)], "avg_pool2d", "avg_pool2d_backward"),
    "resampling": (lambda: nn.Upsample(scale_factor=2, mode="bilinear"), lambda: [leaf(1, 2, 4, 4)],
                   "upsample_bilinear2d", "upsample_bilinear2d_backward"),
    "attention": (lambda: F.scaled_dot_product_attention, lambda: [leaf(2, 2, 3, 4) for _ in "qkv"],
                  "_scaled_dot_product_flash_attention_for_cpu",
                  "_scaled_dot_product_flash_attention_for_cpu_backward"),
    "an int and a slice": (lambda: (lambda x: x[1, 1:]), lambda: [leaf(3, 4)], "select.int slice.Tensor", None),
    "positions": (lambda: (lambda x: x[facula.tensor([0, 2])]), lambda: [leaf(3, 4)],
                  "lift_fresh_copy index.Tensor", None),
    "largest along a dimension": (lambda: (lambda x: x.max(1)), lambda: [leaf(3, 4)], "max.dim", None),
}  # fmt: skip


@pytest.mark.parametrize("case", CALLS)
def test_names_are_pytorchs(case):
    make, inputs, forward, backward = CALLS[case]
    told = heard(make(), *inputs())
    assert told[0] == wanted(forward)
    if backward is not None:
        assert told[1] == wanted(backward)


@pytest.mark.parametrize("case", CALLS)
def test_values_and_gradients_equal_those_without_a_mode(case):
    make, inputs, _, _ = CALLS[case]
    facula.manual_seed(0)
    function, given = make(), inputs()
    leaves = [*(x for x in given if x.requires_grad), *getattr(function, "parameters", list)()]

    def run():
        result = function(*given)
        result = result[0] if isinstance(result, tuple) else result
        first = facula.autograd.grad(result.sin().sum(), leaves, create_graph=True)
        total = sum((g * g).sum() for g in first)
        second = facula.autograd.grad(total, leaves, allow_unused=True)
        return result, first, second

    plain = run()
    with Names():
        told = run()
    assert facula.allclose(plain[0], told[0], atol=1e-6)
    for order in (1, 2):
        for x, y in zip(plain[order], told[order], strict=True):
            x, y = (facula.zeros(()) if z is None else z for z in (x, y))
            assert facula.allclose(x, y, rtol=1e-4, atol=1e-5)


def test_what_is_heard_is_what_tables_are_keyed_by():
    x, y, image, kernel = (
        facula.ones(3),
        facula.zeros(3),
        facula.ones(1, 2, 5),
        facula.ones(3, 2, 3),
    )
    with Names() as mode:
        F.mse_loss(x, y)
        F.conv1d(image, kernel)
    assert [func for func, _ in mode.calls] == [aten.mse_loss.default, aten.convolution.default]
    assert {aten.mse_loss.default: "found"}[mode.calls[0][0]] == "found"
    assert mode.calls[0][1][2:] == ()  # the mean is the default
    assert list(map(list, mode.calls[1][1][3:6])) == [[1], [0], [1]]


def test_a_mode_may_put_another_result_in_the_place_of_an_operator():
    class Zeros(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            result = func(*args, **(kwargs or {}))
            return facula.zeros_like(result) if func is aten.addmm.default else result

    layer = nn.Linear(3, 2)
    with Zeros():
        assert layer(facula.ones(1, 3)).tolist() == [[0.0, 0.0]]


def test_subclasses_hear_the_same():
    seen = []

    class Wrapper(facula.Tensor):
        @staticmethod
        def __new__(cls, inner):
            made = facula.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)
            made.inner = inner
            return made

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            seen.append(str(func))
            bare = [x.inner if isinstance(x, cls) else x for x in args]
            return cls(func(*bare, **(kwargs or {})))

    found = F.linear(Wrapper(facula.ones(2, 3)), facula.ones(4, 3), facula.ones(4))
    assert seen == ["aten.addmm.default"]
    assert found.inner.tolist() == [[4.0] * 4] * 2


def test_a_policy_of_checkpoints_may_keep_products():
    layer = nn.Linear(4, 4)
    contexts = lambda: create_selective_checkpoint_contexts([aten.addmm.default])  # noqa: E731
    x = leaf(2, 4)
    result = checkpoint(lambda y: layer(y).sin(), x, use_reentrant=False, context_fn=contexts)
    with Names() as mode:
        result.sum().backward()
    assert "aten.addmm.default" not in mode.names
    assert "aten.sin.default" in mode.names or "aten.cos.default" in mode.names


def test_counts_of_operations():
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 36, 5)
    )
    with FlopCounterMode(display=False) as counter:
        model(facula.randn(2, 3, 6, 6)).sum().backward()
    convolution = 2 * 2 * 36 * 8 * 27
    product = 2 * 2 * 288 * 5
    # the input of the model asks for no gradient
    assert counter.get_total_flops() == 2 * convolution + 3 * product
    counts = counter.get_flop_counts()["Global"]
    assert counts[aten.convolution] == convolution
    assert counts[aten.convolution_backward] == convolution


def test_tracing_by_the_package_hears_its_own_operators():
    graph = make_fx(lambda x, w: F.conv1d(x, w))(facula.randn(1, 2, 5), facula.randn(3, 2, 3)).graph
    with Names():
        under = make_fx(lambda x, w: F.conv1d(x, w))(
            facula.randn(1, 2, 5), facula.randn(3, 2, 3)
        ).graph
    assert [str(n.target) for n in graph.nodes] == [str(n.target) for n in under.nodes]

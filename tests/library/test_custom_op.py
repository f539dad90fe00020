"""PyTorch's ways to define an operator: `custom_op`, `define`, `impl`, `Library`, and what goes with them."""

import numpy
import pytest

import facula
from facula import Tensor, library


@library.custom_op("custom::numpy_sin", mutates_args=())
def numpy_sin(x: Tensor) -> Tensor:
    """The sine, by NumPy."""
    return facula.from_numpy(numpy.sin(x.numpy()))


def test_without_a_gradient_and_a_fake_function():
    assert facula.equal(numpy_sin(facula.zeros(2)), facula.zeros(2))
    assert facula.ops.custom.numpy_sin.default(facula.zeros(1)).item() == 0
    x = facula.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="no autograd formula was registered"):
        numpy_sin(x).sum().backward()
    with pytest.raises(NotImplementedError, match="no fake impl registered"):
        numpy_sin(facula.ones(2, device="meta"))


@library.custom_op("custom::cube", mutates_args=())
def cube(x: Tensor, scale: float = 1.0) -> Tensor:
    return facula.from_numpy(scale * x.numpy() ** 3)


@cube.register_fake
def _(x, scale=1.0):
    return facula.empty_like(x)


def _cube_backward(ctx, grad):
    (x,) = ctx.saved_tensors
    return grad * 3 * ctx.scale * x * x, None


def _cube_context(ctx, inputs, output):
    x, ctx.scale = inputs
    ctx.save_for_backward(x)


cube.register_autograd(_cube_backward, setup_context=_cube_context)


def test_registered_parts():
    x = facula.randn(3, dtype=facula.float64, requires_grad=True)
    function = lambda t: cube(t, scale=2.0)  # noqa: E731
    assert facula.autograd.gradcheck(function, (x,)) and facula.autograd.gradgradcheck(
        function, (x,)
    )
    assert cube(facula.ones(2, device="meta")).shape == (2,)
    assert cube(x).grad_fn.name() == "custom_cubeBackward"
    assert set(library.opcheck(cube, (x,)).values()) == {"SUCCESS"}


def test_opcheck_finds_what_is_wrong():
    @library.custom_op("custom::sneaky", mutates_args=())
    def sneaky(x: Tensor) -> Tensor:
        x.add_(1)
        return x.clone()

    sneaky.register_fake(lambda x: x.new_empty(1))
    with pytest.raises(Exception, match="writes to 'x'"):
        library.opcheck(sneaky, (facula.ones(2),))
    with pytest.raises(Exception, match="the fake function gives"):
        library.opcheck(sneaky, (facula.ones(2),), test_utils="test_faketensor")


def test_writing_operator():
    @library.custom_op("custom::scale_into", mutates_args={"out"})
    def scale_into(x: Tensor, out: Tensor, factor: float = 2.0) -> None:
        out.numpy()[...] = x.numpy() * factor

    out = facula.zeros(2)
    before = out._version
    assert scale_into(facula.ones(2), out) is None
    assert out.tolist() == [2, 2] and out._version == before + 1
    with pytest.raises(RuntimeError, match="gradients would be lost"):
        scale_into(facula.ones(2, requires_grad=True), out)
    with pytest.raises(RuntimeError, match="must be functional"):
        scale_into.register_autograd(lambda ctx, grad: None)


def test_library_define_and_impl():
    lib = library.Library("custom2", "DEF")
    lib.define("muladd(Tensor a, Tensor b, float c, *, Scalar? alpha=None) -> Tensor")
    lib.impl("muladd", lambda a, b, c, alpha=None: a * b + c, "CompositeExplicitAutograd")
    lib.define("square(Tensor a) -> Tensor")
    lib.impl("square", lambda a: a * a)
    one = facula.ones(2)
    assert facula.ops.custom2.muladd(one, one, 3).tolist() == [4, 4]
    x = facula.tensor([3.0], requires_grad=True)
    facula.ops.custom2.square(x).backward()
    assert x.grad.item() == 6
    with pytest.raises(RuntimeError, match="DEF or FRAGMENT"):
        library.Library("custom2", "IMPL").define("f(Tensor a) -> Tensor")
    with pytest.raises(ValueError, match="reserved namespace"):
        library.Library("aten", "DEF")
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        facula.ops.custom2.nothing  # noqa: B018
    lib._destroy()
    with pytest.raises(AttributeError):
        facula.ops.custom2.square  # noqa: B018


def test_lists_of_tensors():
    library.define("custom3::split_at", "(Tensor x, int n) -> Tensor[]")
    library.define("custom3::total", "(Tensor[] xs, *, bool negate=False) -> Tensor")

    @library.impl("custom3::split_at", "cpu")
    def _(x, n):
        return [x[:n].clone(), x[n:].clone()]

    @library.impl("custom3::total", "default")
    def _(xs, *, negate=False):
        assert isinstance(xs, list)
        return sum(x.sum() for x in xs) * (-1 if negate else 1)

    def keep_shapes(ctx, inputs, keyword_only_inputs, output):
        ctx.shapes = [t.shape for t in inputs[0]]
        ctx.sign = -1 if keyword_only_inputs["negate"] else 1

    library.register_autograd("custom3::split_at", lambda ctx, grads: (facula.cat(grads), None))
    library.register_autograd(
        "custom3::total",
        lambda ctx, grad: [grad.expand(s) * ctx.sign for s in ctx.shapes],
        setup_context=keep_shapes,
    )
    x = facula.tensor([1.0, 2.0, 3.0], requires_grad=True)
    first, rest = facula.ops.custom3.split_at(x, 1)
    (first.sum() + 2 * rest.sum()).backward()
    assert x.grad.tolist() == [1, 2, 2]
    x.grad = None
    facula.ops.custom3.total([x, x * 2], negate=True).backward()
    assert x.grad.tolist() == [-3, -3, -3]


def test_schemas_from_annotations():
    def function(
        x: Tensor, xs: list[Tensor], y: Tensor | None, n: int, sizes: list[int], *,
        f: float = 0.5, b: bool = True, s: str = "sum",
    ) -> tuple[Tensor, Tensor]: ...  # fmt: skip

    assert library.infer_schema(function, mutates_args={"x"}) == (
        "(Tensor(a0!) x, Tensor[] xs, Tensor? y, SymInt n, SymInt[] sizes, *, float f=0.5, "
        'bool b=True, str s="sum") -> (Tensor, Tensor)'
    )


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda x: x, "must have a type annotation"),
        (lambda *x: x, "no \\*args"),
    ],
)
def test_what_annotations_cannot_tell(function, message):
    with pytest.raises(ValueError, match=message):
        library.infer_schema(function, mutates_args=())


def test_wrong_names():
    with pytest.raises(ValueError, match="namespace::name"):
        library.custom_op("plain", cube.__wrapped__, mutates_args=())
    with pytest.raises(ValueError, match="defined once"):
        library.define("custom::cube", "(Tensor x) -> Tensor")
    with pytest.raises(RuntimeError, match="an operator that is defined"):
        library.register_fake("custom::never", lambda x: x)
    with pytest.raises(RuntimeError, match="already a kernel"):
        cube.register_fake(lambda x, scale: x)


def test_dispatch_modes_see_one_operator():
    from facula.utils._python_dispatch import TorchDispatchMode

    seen = []

    class Recorder(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append(func)
            return func(*args, **(kwargs or {}))

    x = facula.ones(2, requires_grad=True)
    with Recorder():
        cube(x)
    assert seen[0] is facula.ops.custom.cube.default
    assert (
        seen[0].overloadpacket is facula.ops.custom.cube and seen[0]._schema.name == "custom::cube"
    )


def test_kernels_for_a_device_of_a_package():
    facula.backends.register("libdevice", {"add": numpy.add})
    cube.register_kernel("libdevice", lambda x, scale=1.0: cube(x.cpu(), scale).to("libdevice"))
    assert cube(facula.ones(2, device="libdevice")).tolist() == [1, 1]


def test_the_device_that_pytorch_calls_privateuse1():
    facula.utils.rename_privateuse1_backend("ownchip")
    lib = library.Library("aten", "IMPL")
    lib.impl("add.Tensor", lambda a, b: (a.cpu() + b.cpu()).to("ownchip"), "PrivateUse1")
    facula.utils.generate_methods_for_privateuse1_backend()
    x = facula.ones(2).ownchip()
    assert x.is_ownchip and (x + x).tolist() == [2, 2]
    assert facula.nn.Linear(2, 2).ownchip().weight.device.type == "ownchip"
    with pytest.raises(RuntimeError, match="which was given before"):
        facula.utils.rename_privateuse1_backend("otherchip")
    with pytest.raises(NotImplementedError, match="TorchDispatchMode"):
        lib.impl("mul.Tensor", lambda a, b: a, "CPU")


@library.custom_op("custom::scaled", mutates_args=())
def scaled(x: Tensor, others: list[Tensor], k: float = 1.0, *, power: int = 1) -> Tensor:
    return facula.from_numpy(k * x.numpy() ** power) + sum(others)


def test_a_registered_rule_maps():
    seen = []

    @scaled.register_vmap
    def _(info, in_dims, x, others, k=1.0, *, power=1):
        seen.append((info.batch_size, info.randomness, in_dims, k, power))
        x = x.movedim(in_dims[0], 0)
        assert isinstance(others, list)
        return scaled(x, others, k, power=power), 0

    x, y = facula.arange(6.0).reshape(3, 2), facula.ones(3)
    mapped = facula.vmap(lambda row: scaled(row, [y]), in_dims=1)(x)
    assert facula.equal(mapped, x.T + 1)
    assert seen.pop() == (2, "error", (1, [None]), 1.0, 1)
    mapped = facula.vmap(lambda row: scaled(row, [y], 2.0, power=2), in_dims=1)(x)
    assert facula.equal(mapped, 2 * x.T**2 + 1)
    assert seen == [(2, "error", (1, [None], None), 2.0, 2)]

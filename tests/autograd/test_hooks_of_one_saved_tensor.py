"""`grad_fn._raw_saved_x.register_hooks`, and what nodes of reductions tell."""

import numpy as np
import pytest

import facula


def leaf(*values):
    return facula.tensor(values, dtype=facula.float64, requires_grad=True)


CALLS = {
    "_raw_saved_self": lambda x: x * leaf(3.0, 4.0),
    "_raw_saved_result": lambda x: x.exp(),
    "_raw_saved_weight": lambda x: facula.lerp(leaf(1.0, 2.0), leaf(4.0, 5.0), x),
}


@pytest.mark.parametrize("name", ["_raw_saved_result", "_raw_saved_self"])
@pytest.mark.parametrize("operator", ["exp", "softmax", "square", "mul"])
def test_hooks_pack_and_unpack_one_tensor(operator, name):
    x = leaf(0.5, -1.5)
    calls = {
        "exp": lambda: x.exp(),
        "softmax": lambda: x.softmax(0),
        "square": lambda: x.square(),
        "mul": lambda: x * leaf(3.0, 4.0).detach() * x,
    }
    out = calls[operator]()
    if not hasattr(out.grad_fn, name):
        with pytest.raises(AttributeError, match=name):
            getattr(out.grad_fn, name)
        return
    kept = getattr(out.grad_fn, name)
    seen = []

    def pack(t):
        seen.append(("pack", t.detach().clone()))
        return t.detach().numpy() * 2

    def unpack(array):
        seen.append(("unpack", None))
        return facula.from_numpy(array / 2)

    try:
        kept.register_hooks(pack, unpack)
    except RuntimeError as error:
        assert "value None" in str(error)
        return
    weights = facula.tensor([1.0, 2.0], dtype=facula.float64)
    (found,) = facula.autograd.grad((out * weights).sum(), x)
    plain = calls[operator]()
    (wanted,) = facula.autograd.grad((plain * weights).sum(), x)
    assert np.allclose(found.numpy(), wanted.numpy())
    assert [word for word, _ in seen] == ["pack", "unpack"]
    which = out if name.endswith("result") else None
    if which is not None:
        assert facula.equal(seen[0][1], which.detach())


def test_some_of_these_pairs_have_hooks():
    """The test above passes over names that a node lacks: these it has."""
    x = leaf(1.0, 2.0)
    for out, name in (
        (x.exp(), "result"),
        (x.softmax(0), "result"),
        (x * x, "self"),
        (x.square(), "self"),
    ):
        assert type(getattr(out.grad_fn, f"_raw_saved_{name}")).__name__ == "RawSavedTensor"


def test_wide_calls_and_second_derivatives():
    x = leaf(2.0, 3.0)
    cube = x * x * x
    cube.grad_fn._raw_saved_self.register_hooks(lambda t: t * 2, lambda t: t / 2)
    (first,) = facula.autograd.grad(cube.sum(), x, create_graph=True)
    (second,) = facula.autograd.grad(first.sum(), x)
    assert np.allclose(first.detach().numpy(), 3 * np.array([4.0, 9.0]))
    assert np.allclose(second.numpy(), 6 * np.array([2.0, 3.0]))


def test_what_is_refused():
    x = leaf(1.0, 2.0)
    out = x.exp()
    kept = out.grad_fn._raw_saved_result
    with pytest.raises(TypeError, match="incompatible function arguments"):
        kept.register_hooks(1, 2)
    kept.register_hooks(lambda t: t, lambda t: t)
    with pytest.raises(RuntimeError, match="already been set"):
        kept.register_hooks(lambda t: t, lambda t: t)
    other = x.softmax(0)
    kept = other.grad_fn._raw_saved_result
    other.sum().backward()
    with pytest.raises(RuntimeError, match="after it has been freed"):
        kept.register_hooks(lambda t: t, lambda t: t)
    with pytest.raises(AttributeError, match="_raw_saved_nothing"):
        out.grad_fn._raw_saved_nothing  # noqa: B018


def test_functions_of_programs_have_them_too():
    class Square(facula.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return 2 * x * g

    x = leaf(1.0, 2.0)
    out = Square.apply(x)
    (kept,) = out.grad_fn._raw_saved_tensors
    kept.register_hooks(lambda t: t * 4, lambda t: t / 4)
    out.sum().backward()
    assert x.grad.tolist() == [2.0, 4.0]


def test_calls_with_many_tensors_are_freed():
    a, b, w = leaf(1.0), leaf(2.0), leaf(0.5)
    out = facula.lerp(a, b, w)
    out.grad_fn._raw_saved_weight.register_hooks(lambda t: t, lambda t: t)
    out.sum().backward()
    with pytest.raises(RuntimeError, match="a second time"):
        out.sum().backward()


def test_reductions_tell_of_their_call():
    x = facula.ones(2, 3, requires_grad=True)
    node = x.sum(1).grad_fn
    assert (node._saved_dim, node._saved_keepdim, node._saved_self_sym_sizes) == (
        (1,),
        False,
        (2, 3),
    )
    assert x.mean(0, keepdim=True).grad_fn._saved_keepdim is True
    assert {"_saved_dim", "_saved_keepdim"} <= set(dir(node))
    with pytest.raises(AttributeError):
        x.sum().grad_fn._saved_dim  # noqa: B018


def test_tensors_made_in_inference_mode_are_inference_tensors():
    array = np.ones(3)
    with facula.inference_mode():
        made = {
            "tensor": facula.tensor([1.0]),
            "as_tensor": facula.as_tensor([1.0]),
            "from_numpy": facula.from_numpy(array),
            "asarray": facula.asarray(array),
            "frombuffer": facula.frombuffer(bytearray(8), dtype=facula.float32),
        }
    assert {name for name, t in made.items() if not t.is_inference()} == set()
    assert not facula.from_numpy(array).is_inference()


def test_duals_of_duals_are_refused():
    import facula.autograd.forward_ad as forward

    with forward.dual_level():
        x = forward.make_dual(facula.ones(2), facula.ones(2))
        for arguments in ((x, facula.ones(2)), (facula.ones(2), x)):
            with pytest.raises(RuntimeError, match="has a forward gradient at the same level"):
                forward.make_dual(*arguments)
        assert (
            forward.unpack_dual(
                forward.make_dual(forward.unpack_dual(x).primal, facula.zeros(2))
            ).tangent
            is not None
        )

"""What `grad_fn._saved_...` shows, and what hooks may give back: against values written down by hand."""

from __future__ import annotations

import pytest

import facula


def test_arguments_results_and_sizes_of_a_node_have_names():
    x = facula.arange(12.0).reshape(3, 4).requires_grad_()
    picked = x.gather(1, facula.tensor([[0], [1], [2]])).grad_fn
    assert picked._saved_dim == 1 and picked._saved_index.tolist() == [[0], [1], [2]]
    joined = facula.cat([x, x], 1).grad_fn
    assert joined._saved_dim == 1
    product = facula.addmm(facula.zeros(3, 2), x, facula.ones(4, 2), beta=2, alpha=3).grad_fn
    assert (product._saved_alpha, product._saved_beta) == (3, 2)
    assert "_saved_alpha" in dir(product) and "_saved_dim" in dir(joined)
    soft = x.softmax(1)
    assert soft.grad_fn._saved_dim == 1
    assert soft.grad_fn._saved_result.tolist() == soft.tolist()


def test_a_saved_result_has_its_history():
    x = facula.tensor([1.0, 2.0], requires_grad=True)
    y = x.exp()
    saved = y.grad_fn._saved_result
    assert saved.grad_fn is y.grad_fn and saved.tolist() == y.tolist()
    assert "_saved_result" in dir(y.grad_fn)
    with pytest.raises(AttributeError, match="_saved_nothing"):
        _ = y.grad_fn._saved_nothing
    y.sum().backward()
    with pytest.raises(RuntimeError, match="after they have already been freed"):
        _ = y.grad_fn._saved_result


def test_a_hook_may_not_change_dtype_size_or_kind():
    for given, error, text in (
        (lambda g: "text", TypeError, "expected Variable, but hook returned 'str'"),
        (lambda g: facula.ones(4), RuntimeError, "has changed the size of value"),
        (lambda g: g.double(), RuntimeError, "has changed the type of value"),
    ):
        x = facula.ones(3, requires_grad=True)
        x.register_hook(given)
        with pytest.raises(error, match=text):
            (x * 3).sum().backward()


def test_hooks_of_nodes_give_a_tuple_of_as_many():
    for given, error, text in (
        (
            lambda inputs, outputs: inputs[0],
            TypeError,
            "expected tuple, but hook returned 'Tensor'",
        ),
        (lambda inputs, outputs: (inputs[0],), RuntimeError, r"got 1, but expected 2"),
    ):
        x = facula.ones(3, requires_grad=True)
        y = x * 2
        y.grad_fn.register_hook(given)
        with pytest.raises(error, match=text):
            y.sum().backward()
    x = facula.ones(3, requires_grad=True)
    y = x * 2
    y.grad_fn.register_prehook(lambda outputs: (outputs[0], outputs[0]))
    with pytest.raises(RuntimeError, match="got 2, but expected 1"):
        y.sum().backward()
    x = facula.ones(3, requires_grad=True)
    y = x * 2
    y.grad_fn.register_hook(lambda inputs, outputs: (inputs[0] * 5, None))
    y.sum().backward()
    assert x.grad.tolist() == [10.0] * 3


def test_a_kept_gradient_is_that_of_what_was_written_last():
    x = facula.ones(3, requires_grad=True)
    y = x * 2
    y.retain_grad()
    y.mul_(5)
    (y * 3).sum().backward()
    assert y.grad.tolist() == [3.0] * 3 and x.grad.tolist() == [30.0] * 3
    x = facula.ones(4, requires_grad=True)
    y = x * 2
    y.retain_grad()
    y[:2].mul_(5)
    (y * 3).sum().backward()
    assert y.grad.tolist() == [3.0] * 4 and x.grad.tolist() == [30.0, 30.0, 6.0, 6.0]


def test_a_cycle_through_gradients_is_told():
    x = facula.ones(2, requires_grad=True)
    with pytest.warns(UserWarning, match=r"Using backward\(\) with create_graph=True"):
        (x**3).sum().backward(create_graph=True)
    assert x.grad.requires_grad


def test_no_inputs_are_refused():
    x = facula.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match=r"`inputs` argument to `grad\(\)` cannot be empty"):
        facula.autograd.grad((x * 2).sum(), [])
    with pytest.raises(RuntimeError, match="Set allow_unused=True if this is the desired behavior"):
        facula.autograd.grad((x * 2).sum(), facula.ones(1, requires_grad=True))


@pytest.mark.parametrize("dims", [[0], [3], [0, 3]])
def test_a_list_of_dimensions_is_kept_as_numbers(dims):
    x = facula.ones(1, 2, 3, 1, requires_grad=True)
    (x.squeeze(dims) * 2).sum().backward()
    assert x.grad.tolist() == [[[[2.0]] * 3] * 2]

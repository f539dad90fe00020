"""Hooks on tensors, nodes and modules: when they run, in which order, what they may change."""

import gc
import weakref

import pytest

import facula


def test_tensor_hooks_run_in_order_and_replace():
    x = facula.ones(2, requires_grad=True)
    seen = []
    x.register_hook(lambda g: seen.append(("first", g.clone())))
    x.register_hook(lambda g: g * 2)
    handle = x.register_hook(lambda g: seen.append(("third", g.clone())))
    (x * 3).sum().backward()
    assert [name for name, _ in seen] == ["first", "third"]
    assert seen[0][1].tolist() == [3, 3] and seen[1][1].tolist() == [6, 6]
    assert x.grad.tolist() == [6, 6]
    handle.remove()
    (x * 3).sum().backward()
    assert len(seen) == 3 and x.grad.tolist() == [12, 12]


def test_hook_of_an_intermediate_sees_the_whole_gradient_once():
    x = facula.ones(2, requires_grad=True)
    y = x * 2
    seen = []
    y.register_hook(lambda g: seen.append(g.tolist()))
    (y.sum() + (y * y).sum()).backward()
    assert seen == [[5, 5]] and x.grad.tolist() == [10, 10]


def test_hook_removes_itself_and_with_statement():
    x = facula.ones(1, requires_grad=True)
    count = []

    def once(gradient):
        count.append(1)
        handle.remove()

    handle = x.register_hook(once)
    (x * 1).sum().backward()
    (x * 1).sum().backward()
    assert len(count) == 1
    with x.register_hook(lambda g: count.append(2)):
        (x * 1).sum().backward()
    (x * 1).sum().backward()
    assert count == [1, 2]


def test_hooks_need_gradients():
    with pytest.raises(RuntimeError, match="require"):
        facula.ones(1).register_hook(lambda g: g)
    with pytest.raises(RuntimeError):
        (facula.ones(1, requires_grad=True) * 1).register_post_accumulate_grad_hook(lambda p: None)


def test_a_hook_may_not_change_the_kind_of_a_gradient():
    x = facula.ones(2, requires_grad=True)
    y = x * 1
    y.register_hook(lambda g: "text")
    with pytest.raises((TypeError, RuntimeError)):
        y.sum().backward()


def test_an_error_in_a_hook_reaches_the_caller():
    x = facula.ones(2, requires_grad=True)
    y = x * 1

    def broken(gradient):
        raise ValueError("from the hook")

    y.register_hook(broken)
    with pytest.raises(ValueError, match="from the hook"):
        y.sum().backward()
    assert x.grad is None
    (x * 2).sum().backward()
    assert x.grad.tolist() == [2, 2]


def test_post_accumulate_hooks():
    x = facula.ones(2, requires_grad=True)
    seen = []
    handle = x.register_post_accumulate_grad_hook(lambda p: seen.append((p is x, p.grad.tolist())))
    (x * 3).sum().backward()
    (x * 3).sum().backward()
    assert seen == [(True, [3, 3]), (True, [6, 6])]
    handle.remove()
    (x * 3).sum().backward()
    assert len(seen) == 2


def test_post_accumulate_hook_may_step_and_drop_the_gradient():
    x = facula.ones(2, requires_grad=True)

    def step(p):
        with facula.no_grad():
            p.sub_(p.grad, alpha=0.5)
        p.grad = None

    x.register_post_accumulate_grad_hook(step)
    (x * 2).sum().backward()
    assert x.tolist() == [0, 0] and x.grad is None


def test_retain_grad():
    x = facula.ones(2, requires_grad=True)
    y = x * 2
    assert not y.retains_grad
    y.retain_grad()
    y.retain_grad()
    (y * y).sum().backward()
    assert y.retains_grad and y.grad.tolist() == [4, 4]
    x.retain_grad()  # nothing to do for a leaf
    with pytest.raises(RuntimeError):
        facula.ones(1).retain_grad()


def test_node_hooks():
    x = facula.ones(2, requires_grad=True)
    y = x * 2
    seen = []

    def before(grads):
        seen.append(("before", grads[0].tolist()))
        return (grads[0] * 10,)

    def after(inputs, outputs):
        seen.append(("after", inputs[0].tolist(), outputs[0].tolist()))

    first = y.grad_fn.register_prehook(before)
    second = y.grad_fn.register_hook(after)
    y.sum().backward()
    assert seen == [("before", [1, 1]), ("after", [20, 20], [10, 10])]
    assert x.grad.tolist() == [20, 20]
    first.remove()
    second.remove()
    x.grad = None
    y2 = x * 2
    y2.grad_fn.register_hook(lambda inputs, outputs: (inputs[0] * 5, None))
    y2.sum().backward()
    assert x.grad.tolist() == [10, 10]


def test_node_graph_is_readable():
    x = facula.ones(2, requires_grad=True)
    y = (x * 2).sum()
    assert "Sum" in y.grad_fn.name()
    node, number = y.grad_fn.next_functions[0]
    assert "Mul" in node.name() and number == 0
    accumulate = node.next_functions[0][0]
    assert "AccumulateGrad" in accumulate.name() and accumulate.variable is x
    assert isinstance(y.grad_fn.metadata, dict)
    y.grad_fn.metadata["note"] = 1
    assert y.grad_fn.metadata == {"note": 1}


def test_accumulator_is_kept_while_it_is_held():
    x = facula.ones(2, requires_grad=True)
    accumulate = x.view_as(x).grad_fn.next_functions[0][0]
    seen = []
    accumulate.register_hook(lambda inputs, outputs: seen.append(1))
    (x * 2).sum().backward()
    assert seen == [1]


def test_module_hooks():
    linear = facula.nn.Linear(2, 2)
    seen = []
    handles = [
        linear.register_forward_pre_hook(lambda m, args: seen.append("pre") or (args[0] * 2,)),
        linear.register_forward_hook(lambda m, args, out: seen.append("forward") or out + 1),
        linear.register_full_backward_pre_hook(lambda m, grads: seen.append("backward pre")),
        linear.register_full_backward_hook(lambda m, gi, go: seen.append("backward")),
    ]
    x = facula.ones(1, 2, requires_grad=True)
    out = linear(x)
    expected = facula.nn.functional.linear(x * 2, linear.weight, linear.bias) + 1
    assert facula.allclose(out, expected)
    out.sum().backward()
    assert seen == ["pre", "forward", "backward pre", "backward"]
    for handle in handles:
        handle.remove()
    linear(x).sum().backward()
    assert len(seen) == 4


def test_hooks_do_not_keep_the_tensor_alive():
    x = facula.ones(2, requires_grad=True)
    y = x * 2
    y.register_hook(lambda g: None)
    gone = weakref.ref(y)
    del y
    gc.collect()
    assert gone() is None


def test_a_cycle_through_a_hook_is_collected():
    def hooked():
        y = facula.ones(2, requires_grad=True) * 2

        def hook(gradient):
            return gradient * y.numel()

        y.register_hook(hook)
        return weakref.ref(hook)

    gone = hooked()
    gc.collect()
    assert gone() is None


def test_hooks_after_in_place():
    """A hook belongs to the value that it was registered on."""
    x = facula.ones(2, requires_grad=True)
    y = x * 2
    seen = []
    y.register_hook(lambda g: seen.append(("old", g.tolist())))
    y.mul_(3)
    y.register_hook(lambda g: seen.append(("new", g.tolist())))
    y.sum().backward()
    assert seen == [("new", [1, 1]), ("old", [3, 3])]

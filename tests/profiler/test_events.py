"""What profiles record: operators, nodes, ranges, shapes, memory, stacks; and that they change nothing."""

import threading

import pytest

import facula
from facula import core
from facula.autograd import profiler as block
from facula.profiler import profile, record_function


def names(events):
    return [event.name for event in events]


def test_operators_are_recorded_once_with_their_nesting():
    x, y = facula.randn(3), facula.randn(3)
    with profile() as p:
        x + y
        x.add_(y, alpha=2)
        facula.nn.functional.scaled_dot_product_attention(*(facula.randn(1, 1, 4, 8),) * 3)
    found = names(p.events())
    assert found.count("aten::add") == 1 and found.count("aten::add_") == 1
    attention = next(e for e in p.events() if e.name == "aten::scaled_dot_product_attention")
    assert "aten::_scaled_dot_product_flash_attention" in names(attention.cpu_children)
    assert attention.cpu_children[0].cpu_parent is attention


def test_methods_and_numbers_on_either_side():
    x = facula.ones(3)
    with profile() as p:
        result = 2 - x
        x.clone()
        x.to(facula.float64)
        x.detach()
        x.copy_(result)
    assert result.tolist() == [1, 1, 1]
    assert names(p.events()) == [f"aten::{n}" for n in ("sub", "clone", "to", "detach", "copy_")]


def test_nothing_is_recorded_outside_or_after_an_error():
    x = facula.ones(3)
    with pytest.raises(RuntimeError, match="matri"), profile() as p:
        facula.mm(x, x)
    assert names(p.events()) == ["aten::mm"]
    assert core.PROFILER[0] is None and not core.is_profiling()
    x + x
    assert len(p.events()) == 1


def test_results_errors_and_gradients_are_those_without_a_profiler():
    def run():
        facula.manual_seed(0)
        w = facula.randn(4, 4, requires_grad=True)
        loss = facula.nn.functional.gelu(facula.randn(2, 4) @ w).softmax(-1).square().sum()
        loss.backward()
        return loss.item(), w.grad.tolist()

    plain = run()
    with profile(record_shapes=True, profile_memory=True, with_flops=True, with_stack=True):
        assert run() == plain
        with pytest.raises(TypeError):
            facula.maximum(facula.ones(2), 2)


def test_backward_nodes_enclose_what_they_run():
    x = facula.randn(3, requires_grad=True)
    with profile() as p:
        (x * x).sum().backward()
    found = names(p.events())
    evaluate = "autograd::engine::evaluate_function: "
    for node in ("MulBackward0", "SumBackward0", "torch::autograd::AccumulateGrad"):
        assert found.count(node) == 1 and found.count(evaluate + node) == 1
    outer = next(e for e in p.events() if e.name == evaluate + "MulBackward0")
    assert names(outer.cpu_children) == ["MulBackward0"]
    forward = next(e for e in p.events() if e.name == "aten::mul")
    assert forward.sequence_nr == outer.sequence_nr >= 0
    assert outer.fwd_thread == forward.thread


def test_recording_in_double_backward():
    x = facula.tensor([2.0], requires_grad=True)
    with profile() as p:
        (g,) = facula.autograd.grad((x**3).sum(), x, create_graph=True)
        g.sum().backward()
    assert x.grad.item() == 12
    assert any(e.scope == 0 and e.cpu_parent is not None for e in p.events())


def test_times_and_memory_add_up():
    with profile(profile_memory=True) as p, record_function("outer"):
        kept = [facula.randn(1000) for _ in range(3)]
    outer = p.events()[0]
    assert outer.cpu_memory_usage >= 12000 and outer.name == "outer" and len(kept) == 3
    inner = outer.cpu_children
    assert outer.cpu_time_total == pytest.approx(
        outer.self_cpu_time_total + sum(e.cpu_time_total for e in inner)
    )
    assert outer.cpu_memory_usage == outer.self_cpu_memory_usage + sum(
        e.cpu_memory_usage for e in inner
    )


def test_memory_freed_between_operators_is_an_event():
    with profile(profile_memory=True) as p:
        x = facula.ones(1000) + 1
        del x
        facula.ones(1)
    freed = [e for e in p.events() if e.name == "[memory]"]
    assert any(e.cpu_memory_usage <= -4000 for e in freed)


def test_shapes_flops_and_stacks():
    a, b = facula.ones(2, 3), facula.ones(3, 5)
    with profile(record_shapes=True, with_flops=True, with_stack=True) as p:
        facula.mm(a, b)
        facula.cat([a, a])
        a + a
    product, joined, added = p.events()
    assert product.input_shapes == [[2, 3], [3, 5]] and product.flops == 60
    assert joined.input_shapes[0] == [[2, 3], [2, 3]]
    assert added.flops == 6
    assert __file__ in product.stack[0] and "test_shapes_flops_and_stacks" in product.stack[0]


@pytest.mark.parametrize(
    ("left", "right", "count"),
    [((3, 1), (1, 4), 12), ((4,), (2, 3, 1), 24), ((), (5,), 5), ((0, 1), (1, 4), 0), ((), (), 1)],
)
def test_an_elementwise_operator_counts_its_result(left, right, count):
    with profile(with_flops=True) as p:
        facula.zeros(left) + facula.zeros(right)
    assert (p.events()[-1].flops or 0) == count


def test_ranges_as_context_and_decorator():
    @record_function("decorated")
    def work():
        return facula.ones(1) + 1

    with profile() as p:
        work()
        with record_function("block", "note"):
            work()
    assert names(p.events())[:2] == ["decorated", "aten::ones"] and work().item() == 2
    assert p.key_averages()[0].count == 2


def test_functions_of_the_user_have_their_name():
    class Twice(facula.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            return grad * 2

    x = facula.ones(2, requires_grad=True)
    with profile() as p:
        Twice.apply(x).sum().backward()
    called = next(e for e in p.events() if e.name == "Twice")
    assert names(called.cpu_children)[-1] == "aten::mul"
    node = next(e for e in p.events() if e.name == "TwiceBackward")
    assert "aten::mul" in names(node.cpu_children) and node.sequence_nr == called.sequence_nr


def test_optimizers_name_their_steps():
    w = facula.ones(2, requires_grad=True)
    optimizer = facula.optim.SGD([w], lr=0.5)
    with profile() as p:
        w.sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    assert "Optimizer.step#SGD.step" in names(p.events())
    assert "Optimizer.zero_grad#SGD.zero_grad" in names(p.events())
    assert w.tolist() == [0.5, 0.5] and w.grad is None


def test_other_threads_are_not_recorded_and_another_profiler_is_an_error():
    with profile() as p:
        thread = threading.Thread(target=lambda: facula.ones(1) + 1)
        thread.start()
        thread.join()
        with pytest.raises(RuntimeError, match="already enabled"), profile():
            pass
        facula.empty(1)
    assert names(p.events()) == ["aten::empty"]


def test_function_modes_see_a_call_before_the_profiler():
    from facula.overrides import TorchFunctionMode

    class Double(TorchFunctionMode):
        def __torch_function__(self, function, types, args=(), kwargs=None):
            return function(*args, **(kwargs or {})) * 2

    x = facula.ones(2)
    with profile() as p, Double():
        y = facula.add(x, 1)
    assert y.tolist() == [4, 4]
    assert names(p.events()) == ["aten::add", "aten::mul"]


def test_autocast_runs_inside_of_the_operator():
    x = facula.ones(2, 2)
    with profile() as p, facula.autocast("cpu", dtype=facula.bfloat16):
        y = facula.mm(x, x)
    assert y.dtype is facula.bfloat16
    assert p.events()[0].name == "aten::mm" and "aten::to" in names(p.events())


def test_block_profiler_is_taken_once():
    profiler = block.profile(record_shapes=True)
    assert str(profiler) == "<unfinished profile>"
    with pytest.raises(RuntimeError, match="didn't finish"):
        profiler.table()
    with profiler:
        facula.empty(2) + 1
    assert len(profiler.function_events) == 2 and "aten::add" in str(profiler)
    with pytest.raises(RuntimeError, match="not reentrant"), profiler:
        pass
    with block.profile(enabled=False) as nothing:
        assert nothing is None and not core.is_profiling()


def test_ranges_are_operators_that_graphs_hold():
    enter = facula.ops.profiler._record_function_enter
    leave = facula.ops.profiler._record_function_exit
    graph = facula.fx.Graph()
    x = graph.placeholder("x")
    handle = graph.call_function(enter, ("mine",))
    y = graph.call_function(facula.sin, (x,))
    graph.call_function(leave, (handle,))
    graph.output(graph.call_function(facula.cos, (y,)))
    module = facula.fx.GraphModule(facula.nn.Module(), graph)
    with profile() as recorded:
        assert module(facula.zeros(2)).tolist() == [1.0, 1.0]
    events = {event.name: event for event in recorded.events()}
    mine = events["mine"].time_range
    sin, cos = events["aten::sin"].time_range, events["aten::cos"].time_range
    assert mine.start <= sin.start and sin.end <= mine.end <= cos.start
    handle = enter("again")
    leave(handle)
    with pytest.raises(
        RuntimeError, match=f"a range that is open was required: got {handle.item()}"
    ):
        leave(handle)

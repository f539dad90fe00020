"""Operators whose results have sizes that depend on elements: what `get_ctx().new_dynamic_size()` gives in traces."""

import numpy as np
import pytest

import facula
from facula.fx.experimental.proxy_tensor import make_fx
from facula.fx.fake_tensor import FakeTensorMode


@facula.library.custom_op("sizes_of_fakes::places", mutates_args=())
def places(x: facula.Tensor) -> facula.Tensor:
    return facula.from_numpy(np.stack(np.nonzero(x.numpy()), 1))


@places.register_fake
def _(x):
    count = facula.library.get_ctx().new_dynamic_size()
    return x.new_empty([count, x.dim()], dtype=facula.int64)


@facula.library.custom_op("sizes_of_fakes::halves", mutates_args=())
def halves(x: facula.Tensor) -> tuple[facula.Tensor, facula.Tensor]:
    return x[x < 0], x[x >= 0]


@halves.register_fake
def _(x):
    ctx = facula.library.get_ctx()
    return x.new_empty(ctx.new_dynamic_size()), x.new_empty(ctx.new_dynamic_size(min=0, max=100))


INPUTS = ([1.0, 0, 2], [0.0, 0, 0, 3], [1.0, 2])


def test_a_trace_keeps_the_size():
    module = make_fx(lambda x: places(x) + 1, tracing_mode="symbolic")(facula.tensor(INPUTS[0]))
    for values in INPUTS:
        wanted = np.stack(np.nonzero(values), 1) + 1
        assert np.array_equal(module(facula.tensor(values)).numpy(), wanted)


def test_several_sizes():
    module = make_fx(lambda x: [part * 2 for part in halves(x)], tracing_mode="symbolic")(
        facula.tensor([-1.0, 2, 3])
    )
    low, high = module(facula.tensor([-1.0, -2, 5, 6, -7]))
    assert low.tolist() == [-2, -4, -14]
    assert high.tolist() == [10, 12]


def test_compiled_and_exported_programs_have_them_too():
    class Module(facula.nn.Module):
        def forward(self, x):
            return places(x * 2).sum(0) + 1

    run = facula.compile(Module(), fullgraph=True)
    for values in INPUTS:
        wanted = np.stack(np.nonzero(values), 1).sum(0) + 1
        assert np.array_equal(run(facula.tensor(values)).numpy(), wanted)
    program = facula.export.export(Module(), (facula.tensor(INPUTS[0]),)).module()
    found = program(facula.tensor([0.0, 5, 6]))
    assert found.tolist() == [4]


def test_modes_without_symbols_say_what_is_missing():
    mode = FakeTensorMode()
    with pytest.raises(RuntimeError, match="depends on the elements"), mode:
        places(mode.from_tensor(facula.tensor([1.0])))


def test_traces_with_fixed_sizes_have_them_too():
    traced = make_fx(places, tracing_mode="fake")(facula.tensor(INPUTS[0]))
    for values in (INPUTS[0], [0.0, 4, 5], [0.0, 0, 0]):
        wanted = np.stack(np.nonzero(values), 1)
        assert np.array_equal(traced(facula.tensor(values)).numpy(), wanted)

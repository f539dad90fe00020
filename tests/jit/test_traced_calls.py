"""What traces keep of calls: exported methods, scripts by name, results that are written into tensors."""

import io

import pytest

import facula
from facula import Tensor, nn


class Kept(nn.Module):
    """A module with a state of its own."""

    def __init__(self):
        super().__init__()
        self.added = 3

    @facula.jit.export
    def __getstate__(self):
        return (self.added, self.training)

    @facula.jit.export
    def __setstate__(self, state: tuple[int, bool]):
        self.added = state[0]
        self.training = state[1]

    @facula.jit.export
    def twice(self, x):
        return self.forward(x) + self.added

    def forward(self, x):
        return x + self.added


def test_exported_methods_of_a_traced_module_are_compiled():
    traced = facula.jit.trace(Kept(), (facula.zeros(2),))
    file = io.BytesIO()
    facula.jit.save(traced, file)
    loaded = facula.jit.load(io.BytesIO(file.getvalue()))
    for each in (traced, loaded):
        assert each(facula.zeros(2)).tolist() == [3, 3]
        assert each.twice(facula.zeros(2)).tolist() == [6, 6]
        assert {"__getstate__", "__setstate__"} <= set(each._c._method_names())


@facula.jit.script
def counted(x: Tensor, n: int):
    if n > 1:
        x = x + n
    return x


def test_graphs_name_the_functions_that_they_call():
    graph = str(facula.jit.trace(lambda x: counted(x, 2) * 2, (facula.zeros(2),)).graph)
    lines = [line.strip() for line in graph.splitlines()]
    (at,) = (k for k, line in enumerate(lines) if 'prim::Constant[name="counted"]' in line)
    name = lines[at].split(" ")[0]
    assert f"prim::CallFunction({name}, %x, " in lines[at + 1]
    assert " object at 0x" not in graph


def test_several_results_written_into_tensors_are_traced():
    def greatest(x, values, places):
        one, two = facula.cummax(x, 1, out=(values, places))
        return one, two

    x = facula.tensor([[1.0, 3.0, 2.0]])
    room = facula.empty(1, 3), facula.empty(1, 3, dtype=facula.int64)
    traced = facula.jit.trace(greatest, (x, *room))
    given = facula.empty(1, 3), facula.empty(1, 3, dtype=facula.int64)
    values, places = traced(facula.tensor([[5.0, 4.0, 6.0]]), *given)
    assert values.tolist() == given[0].tolist() == [[5, 5, 6]]
    assert places.tolist() == given[1].tolist() == [[0, 0, 2]]


def test_a_number_in_a_dictionary_of_results_is_refused():
    with pytest.raises(RuntimeError, match="cannot be understood by the tracer"):
        facula.jit.trace(lambda x: {"a": (x, 1)}, (facula.zeros(2),), strict=False)


def test_one_method_of_a_module_is_for_trace_module():
    with pytest.raises(AttributeError, match="doesn't support compiling individual module's"):
        facula.jit.trace(Kept().twice, (facula.zeros(2),))


def test_a_text_that_is_no_number_is_an_error_when_it_runs():
    @facula.jit.script
    def parsed(x: Tensor, wanted: bool):
        if wanted:
            return float("0.5 metres")
        return float("0.5")

    assert parsed(facula.zeros(1), False) == 0.5
    with pytest.raises(RuntimeError, match="could not convert string to float"):
        parsed(facula.zeros(1), True)

"""Values that are computed later, types and graphs as programs look at them, code of graph modules as scripts."""

import io
from typing import Any, NamedTuple, Optional

import pytest

import facula
from facula import Tensor, fx, jit, nn
from facula._awaits import _Await as Await
from facula.nn.utils.rnn import PackedSequence
from facula.torch_api import _C


def reread(program):
    file = io.BytesIO()
    jit.save(program, file)
    file.seek(0)
    return jit.load(file)


class Pair:
    def __init__(self, a: Tensor, b: Tensor):
        self.a, self.b = a, b

    def both(self) -> Tensor:
        return self.a + self.b


def doubled(p: Pair) -> Pair:
    return Pair(p.a * 2, p.b * 3)


def twice(x: Tensor) -> Tensor:
    return x * 2


def nested(x: Tensor) -> Await[Tensor]:
    return jit._awaitable_nowait(3 * x)


def waits(x: Tensor):
    later = jit._awaitable(twice, x)
    return x + jit._awaitable_wait(later)


def attributes(x: Tensor):
    later = jit._awaitable(doubled, Pair(x, x))
    return later.a + later.both()


def inside(x: Tensor):
    later = jit._awaitable(nested, x)
    return jit._awaitable_wait(jit._awaitable_wait(later))


def takes(later: Await[Tensor]) -> Tensor:
    return jit._awaitable_wait(later)


def given(x: Tensor):
    return takes(jit._awaitable(twice, x)) + 1


def asked(x: Tensor):
    later = jit._awaitable(twice, x)
    assert isinstance(later, jit._Await)
    return jit._awaitable_wait(later)


@pytest.mark.parametrize(
    ("function", "factor", "more"),
    [(waits, 3, 0), (attributes, 7, 0), (inside, 3, 0), (given, 2, 1), (asked, 2, 0)],
)
def test_what_is_computed_later_is_the_same_scripted_and_in_files(function, factor, more):
    x = facula.tensor([1.0, 2.0])
    wanted = [v * factor + more for v in (1.0, 2.0)]
    program = jit.script(function)
    runs = [function, program] if function is attributes else [function, program, reread(program)]
    assert all(run(x).tolist() == wanted for run in runs)


def test_a_function_runs_once_and_only_when_it_is_asked_for():
    seen = []

    def record(x):
        seen.append(x)
        return facula.full((2,), float(x))

    later = jit._awaitable(record, 3)
    assert seen == [] and later.args() == (3,) and later.fn() is record
    assert later.shape == (2,) and later.wait().tolist() == [3.0, 3.0] and seen == [3]


def test_what_is_no_such_value_cannot_be_waited_for():
    def wrong(x: Tensor):
        return jit._awaitable_wait(x)

    with pytest.raises(RuntimeError, match="computed later"):
        jit.script(wrong)


# ------------------------------------------------------------------ types and graphs


class Point(NamedTuple):
    x: Optional[int] = None  # noqa: UP045
    y: int = 3


def branches(
    x: Tensor, flag: bool, names: list[str], point: Point, parts: tuple[int, dict[str, float]]
) -> Any:
    if flag:
        x = x + 1
    return x, names, point.y, parts[0]


def test_types_of_a_graph_are_those_of_the_extension_module():
    graph = jit.script(branches).graph
    tensor, flag, names, point, parts = (v.type() for v in graph.inputs())
    assert tensor == _C.TensorType.get() and flag == _C.BoolType.get()
    assert names == _C.ListType(_C.StringType.get())
    of_floats = _C.DictType(_C.StringType.get(), _C.FloatType.get())
    assert parts == _C.TupleType([_C.IntType.get(), of_floats])
    assert (
        parts.str() == "(int, Dict(str, float))"
        and str(parts) == parts.annotation_str
        and parts.annotation_str == "Tuple[int, Dict[str, float]]"
    )
    assert point.str() == "NamedTuple(x : int? = None, y : int = 3)"
    assert _C.OptionalType(_C.IntType.get()).annotation_str == "Optional[int]"
    assert str(_C.NoneType.get()) == "NoneType"


def test_blocks_of_a_graph_are_walked():
    graph = jit.script(branches).graph
    assert isinstance(graph, _C.Graph)
    (branch,) = graph.findAllNodes("prim::If")
    kinds = [[node.kind() for node in block.nodes()] for block in branch.blocks()]
    assert "aten::add" in kinds[0] and "aten::add" not in kinds[1]


def test_lists_are_taken_for_tuples():
    @jit.script
    def total(pair: tuple[Tensor, Tensor]) -> Tensor:
        return pair[0] + 2 * pair[1]

    one = facula.ones(2)
    assert total([one, one]).tolist() == total((one, one)).tolist() == [3.0, 3.0]
    with pytest.raises(RuntimeError, match="Tuple\\[Tensor, Tensor\\]"):
        total([one])
    assert not _C._is_tracing()


def test_the_root_has_the_class_of_objects_of_files():
    """Libraries ask `isinstance(value, torch.ScriptObject)` of whatever they are given."""
    assert facula.ScriptObject is _C.ScriptObject
    assert not isinstance(facula.ones(1), facula.ScriptObject)


def test_names_that_the_extension_module_lacks_are_errors():
    with pytest.raises(AttributeError, match="no_such_type"):
        _ = _C.no_such_type


class Layers(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(3, 4), nn.Linear(4, 2)

    def forward(self, x):
        return self.second(self.first(x).relu()) + 1


def test_code_of_a_graph_lets_go_of_its_values():
    """Such code says `x = None` behind the last use of a tensor."""
    model, x = Layers(), facula.randn(2, 3)
    program = jit.script(fx.symbolic_trace(model))
    assert facula.equal(program(x), model(x)) and facula.equal(reread(program)(x), model(x))


class Counter:
    def __init__(self, start: int, names: list[str]):
        self.count, self.names, self.scale = start, names, facula.ones(2)

    def step(self, by: int) -> int:
        self.count += by
        return self.count


class Counts(nn.Module):
    def __init__(self):
        super().__init__()
        self.counter = Counter(3, ["a", "b"])
        self.same = self.counter

    def forward(self, x):
        return x * self.counter.scale * self.counter.step(2), self.same.count, self.counter.names


def test_objects_of_classes_are_kept_with_their_modules():
    x = facula.ones(2)
    again = reread(jit.script(Counts()))
    made, count, names = again(x)
    assert made.tolist() == [5.0, 5.0] and (count, names) == (5, ["a", "b"])
    assert again(x)[1] == 7


def test_constants_that_nobody_reads_are_not_in_graphs():
    def early(x: int):
        return x + 1

    nodes = list(jit.script(early).graph.nodes())
    assert [n.kind() for n in nodes] == ["prim::Constant", "aten::add"]


# ------------------------------------------------------------------ packed sequences

LAYERS = {
    "lstm": lambda: nn.LSTM(3, 4, 2, bidirectional=True), "gru": lambda: nn.GRU(3, 4),
    "rnn": lambda: nn.RNN(3, 4, nonlinearity="relu"), "projected": lambda: nn.LSTM(3, 4, proj_size=2),
}  # fmt: skip


class OfSequences(nn.Module):
    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, x: PackedSequence):
        out, state = self.layer(x)
        again, _ = self.layer(x, state)
        return out.data, again.data, out.batch_sizes, state


def flat(value):
    return [t for v in value for t in flat(v)] if isinstance(value, tuple) else [value]


@pytest.mark.parametrize("name", LAYERS)
def test_recurrent_layers_take_packed_sequences_in_scripts(name):
    model = OfSequences(LAYERS[name]())
    parts = [facula.randn(n, 3) for n in (2, 5, 1)]
    x = nn.utils.rnn.pack_sequence(parts, enforce_sorted=False)
    wanted, program = flat(model(x)), jit.script(model)
    for run in (program, reread(program)):
        assert all(map(facula.equal, flat(run(x)), wanted))


# ------------------------------------------------------------------ what files and comments say


class First(nn.Module):
    @staticmethod
    def shared(x):
        return x + 100

    def forward(self, x):
        return x + First.shared(x)


class Second(nn.Module):
    @staticmethod
    def shared(x):
        return x * 100

    def forward(self, x):
        return x - First.shared(x) + Second.shared(x)


class Choice(nn.Module):
    def forward(self) -> Any:
        return "text" if self.training else {}


@jit.ignore
def noted(x: int) -> None:
    return x  # what Python gives is not asked for


def of_comments(x, n):
    # type: (Tensor, int)
    noted(n)
    return torch_mul(x, True) * n


torch_mul = facula.mul


def test_functions_of_classes_are_in_files():
    x = facula.ones(2)
    assert reread(jit.script(First()))(x).tolist() == [102.0, 102.0]
    assert reread(jit.script(Second()))(x).tolist() == [0.0, 0.0]


def test_branches_of_two_types_are_in_files():
    assert reread(jit.script(Choice()))() == "text"
    assert reread(jit.script(Choice().eval()))() == {}


def test_a_comment_may_leave_the_result_out():
    program = jit.script(of_comments)
    assert program(facula.ones(2), 3).tolist() == [3.0, 3.0]

"""What goes between Python and scripts: copies of containers, types of names, parameters in lists, hooks."""

import io
from collections import OrderedDict

import pytest

import facula
from facula import nn


def through_file(module):
    file = io.BytesIO()
    facula.jit.save(module, file)
    file.seek(0)
    return facula.jit.load(file)


class Grows(nn.Module):
    def __init__(self):
        super().__init__()
        self.seen = [1, 2]

    def forward(self, x: int) -> list[int]:
        self.seen.append(x)
        return self.seen


def test_lists_that_come_out_are_copies():
    module = facula.jit.script(Grows())
    first = module(3)
    first.append(9)
    module.seen.append(8)
    assert module.seen == [1, 2, 3] and module(4) == [1, 2, 3, 4] and first == [1, 2, 3, 9]


def test_dictionaries_and_what_they_hold_are_copies():
    @facula.jit.script
    def both(x: dict[str, int]) -> tuple[dict[str, int], list[dict[str, int]]]:
        x["a"] = 1
        return x, [x]

    given = {"b": 2}
    made, (inner,) = both(given)
    made["c"] = 3
    assert given == {"b": 2} and inner == {"b": 2, "a": 1}


def test_frozen_modules_write_to_the_attributes_that_they_keep():
    frozen = facula.jit.freeze(facula.jit.script(Grows()).eval())
    assert [frozen(3), frozen(4)] == [[1, 2, 3], [1, 2, 3, 4]]


def test_ordered_dictionaries_of_pairs():
    def pairs() -> dict[int, int]:
        return OrderedDict([(1, 2), (2, 3), (1, 4)])

    assert facula.jit.script(pairs)() == {1: 4, 2: 3}


def test_a_name_may_get_another_type_where_it_has_its_own():
    def text(x: int):
        x = str(x)
        return x + "!"

    def sizes(x):
        x = x.size()
        total = 0
        for i in x:
            total += i
        return total

    def annotated(x: int):
        y: int = x
        y = "a"
        return y

    assert facula.jit.script(text)(3) == "3!"
    assert facula.jit.script(sizes)(facula.ones(2, 3)) == 5
    assert facula.jit.script(annotated)(3) == "a"

    def inside(x: int):
        if x > 0:
            x = "a"
        return x

    with pytest.raises(RuntimeError, match="previously had type int"):
        facula.jit.script(inside)


class Parameters(nn.Module):
    def __init__(self):
        super().__init__()
        self.listed = nn.ParameterList(
            [nn.Parameter(facula.full((2,), float(i))) for i in range(3)]
        )
        self.named = nn.ParameterDict({"a": nn.Parameter(facula.ones(2) * 5)})

    def forward(self, x):
        for i, p in enumerate(self.listed):
            x = x + p * i
        return x * self.listed[1] + self.named["a"]


def test_parameters_in_lists_and_dictionaries():
    module, x = Parameters(), facula.zeros(2)
    scripted = facula.jit.script(module)
    assert scripted(x).equal(module(x)) and module(x).tolist() == [10.0, 10.0]
    assert through_file(scripted)(x).equal(module(x))


@facula.jit.script
def with_default(x=facula.ones(2)):  # noqa: B008 - the tensor is what is tested
    return x


class CallsDefault(nn.Module):
    def forward(self, x):
        return with_default() + x


def test_tensors_as_defaults_go_through_files():
    scripted = facula.jit.script(CallsDefault())
    assert through_file(scripted)(facula.zeros(2)).tolist() == [1.0, 1.0]


def test_hooks_of_a_traced_module_run_once():
    class Doubles(nn.Module):
        def forward(self, x):
            return x + x

    def hook(module, given, made):
        given[0].add_(1)
        made.sub_(1)

    module = Doubles()
    module.register_forward_hook(hook)
    traced = facula.jit.trace(module, (facula.tensor(1.0),))
    first, second = facula.tensor(1.0), facula.tensor(1.0)
    assert traced(first).item() == module(second).item() == 1.0
    assert first.item() == second.item() == 2.0


def test_errors_name_who_calls():
    def number(x: int) -> int:
        return x + 10

    def inner(x):
        return number("hello")

    def outer(x):
        return inner(x)

    with pytest.raises(RuntimeError) as found:
        facula.jit.script(outer)
    text = str(found.value)
    assert "Expected a value of type 'int'" in text
    assert "'inner' is being compiled since it was called from 'outer'" in text
    assert text.index("def inner(x)") < text.index("def outer(x)")


def test_the_type_of_a_tensor():
    def convert(x, t: facula.dtype):
        return x.type(t)

    assert facula.jit.script(convert)(facula.ones(2), facula.int8).dtype is facula.int8


def test_power_means_take_whole_numbers():
    module, x = nn.LPPool1d(2, 3), facula.rand(1, 2, 7)
    assert facula.jit.script(module)(x).equal(module(x))


def test_interpolation_by_a_word_that_is_an_argument_is_saved_with_all_words():
    class Grown(nn.Module):
        def forward(self, x, mode: str = "bilinear"):
            return nn.functional.interpolate(x, [4, 4], mode=mode)

    file = io.BytesIO()
    facula.jit.save(facula.jit.script(Grown()), file)
    file.seek(0)
    loaded = facula.jit.load(file)
    x = facula.tensor([[[[0.0, 4.0], [8.0, 12.0]]]])
    assert loaded(x, "nearest")[0, 0, 0].tolist() == [0.0, 0.0, 4.0, 4.0]
    assert loaded(x)[0, 0, 0].tolist() == [0.0, 1.0, 3.0, 4.0]


def test_nothing_is_traced_while_scripting_is_off():
    def double(x):
        return x + x

    from facula.jit import _state

    _state.disable()
    try:
        layer = nn.ReLU()
        assert facula.jit.trace(double, (facula.ones(2),)) is double
        assert facula.jit.trace_module(layer, {"forward": facula.ones(2)}) is layer
        assert facula.jit.script(double) is double
    finally:
        _state.enable()


def test_scripted_functions_are_no_part_of_pickles():
    import pickle

    with pytest.raises(pickle.PickleError, match="ScriptFunction cannot be pickled"):
        pickle.dumps(with_default)


def test_a_tensor_may_take_the_place_of_a_parameter():
    class Holds(facula.jit.ScriptModule):
        def __init__(self):
            super().__init__()
            self.held = nn.Parameter(facula.rand(3))

        @facula.jit.script_method
        def forward(self, x):
            self.held = x
            return self.held

    module, x = Holds(), facula.rand(3)
    assert module(x).equal(x) and module.held.equal(x)


def test_the_type_of_a_value_or_why_there_is_none() -> None:
    infer = facula._C._jit_try_infer_type
    known = {1: "int", 1.5: "float", "a": "str", (1, "b"): "Tuple[int, str]"}
    for value, text in known.items():
        found = infer(value)
        assert found.success() and found.type().annotation_str == text and found.reason() == ""
    for value, said in (
        ([], "must have elements"),
        (facula.nn.Linear(1, 1), "Cannot infer"),
        ([1, "a"], ""),
    ):
        found = infer(value)
        assert not found.success() and said in found.reason() != ""
        with pytest.raises(RuntimeError, match="the type is null"):
            found.type()

"""Older ways to script: subclasses of ScriptModule, functions as text, lists and dictionaries that are shared."""

from __future__ import annotations

import copy
import io
import typing

import pytest

import facula
from facula import jit, nn


class Scaled(jit.ScriptModule):
    """A constant, a parameter, a layer, a method of its own, and one that stays Python's."""

    __constants__ = ["factor"]

    def __init__(self, count):  # type: ignore[no-untyped-def]
        super().__init__()
        self.weight = nn.Parameter(facula.full((count,), 2.0))
        self.layer = nn.Linear(count, 2)
        self.factor = 3
        self.numbers = jit.Attribute([1, 2], list[int])

    @jit.script_method
    def scaled(self, x):  # type: ignore[no-untyped-def]
        return x * self.factor * self.numbers[1]

    @jit.script_method
    def forward(self, x):  # type: ignore[no-untyped-def]
        if bool(x.sum() > 0):
            x = self.scaled(x)
        return self.layer(x * self.weight)

    def name(self):  # type: ignore[no-untyped-def]
        return "Python"


def test_a_subclass_of_script_module_is_scripted_when_it_is_made():
    module = Scaled(3)
    x = facula.ones(4, 3)
    assert facula.allclose(module(x), module.layer(x * 12))
    assert facula.allclose(module(-x), module.layer(x * -2))
    assert module.scaled(x).unique().tolist() == [6] and module.name() == "Python"
    assert isinstance(module, Scaled) and "self.weight" in module.code
    assert list(module.state_dict()) == ["weight", "layer.weight", "layer.bias"]
    buffer = io.BytesIO()
    module.save(buffer)
    buffer.seek(0)
    assert facula.equal(jit.load(buffer)(x), module(x))
    assert facula.equal(copy.deepcopy(module)(x), module(x))


def test_it_can_be_derived_from_and_stand_in_other_modules():
    class More(Scaled):
        def __init__(self) -> None:
            super().__init__(3)
            self.register_buffer("shift", facula.ones(()))

        @jit.script_method
        def shifted(self, x):  # type: ignore[no-untyped-def]
            return self.forward(x) + self.shift

    class Outer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = More()

        def forward(self, x):  # type: ignore[no-untyped-def]
            return self.inner.shifted(x)

    outer = Outer()
    x = facula.ones(1, 3)
    assert facula.allclose(jit.script(outer)(x), outer.inner(x) + 1)


def test_a_method_that_is_no_script_is_refused_with_its_line():
    class Wrong(jit.ScriptModule):
        @jit.script_method
        def forward(self, x):  # type: ignore[no-untyped-def]
            return x.no_such_method()

    with pytest.raises(RuntimeError, match="no_such_method"):
        Wrong()


def test_functions_given_as_text():
    unit = jit.CompilationUnit(
        """
def double(x, times: int = 2):
    return inner(x) * times

def inner(x: Tensor) -> Tensor:
    if x.sum() > 0:
        return torch.sin(x)
    return x
"""
    )
    x = facula.tensor([1.0, 2.0])
    assert facula.allclose(unit.double(x, 3), x.sin() * 3)
    assert facula.equal(unit.double(-x), -x * 2)
    assert {f.name for f in unit.get_functions()} == {"double", "inner"}
    assert unit.find_function("missing") is None
    with pytest.raises(AttributeError, match="missing"):
        unit.missing(x)


@pytest.mark.parametrize(
    "text", ["def f(x:", "x = 1", "def f(x, y=g()):\n    return x", "def f(x):\n    return z"]
)
def test_text_that_is_no_function_is_refused(text: str):
    with pytest.raises((RuntimeError, KeyError)):
        jit.CompilationUnit(text)


def test_scripts_change_lists_and_dictionaries_that_were_scripted():
    @jit.script
    def add(ages: dict[str, int], names: list[str]):  # type: ignore[no-untyped-def]
        ages["alan"] = 41
        names.append("alan")

    ages, names = jit.script({"ada": 36}), jit.script(["ada"])
    add(ages, names)
    assert ages == {"ada": 36, "alan": 41} and names == ["ada", "alan"]
    plain: list[str] = ["ada"]
    add({"ada": 1}, plain)
    assert plain == ["ada"]
    assert jit.script(names) is names and repr(names) == "['ada', 'alan']"


def test_items_keep_their_type():
    numbers, ages = jit.script([1, 2]), jit.script({1: 2})
    for wrong in (
        lambda: numbers.append("a"), lambda: numbers.insert(0, "a"), lambda: numbers.extend(["a"]),
        lambda: numbers.__setitem__(0, "a"), lambda: "a" in numbers, lambda: numbers.count("a"),
        lambda: ages.__setitem__("a", 1), lambda: ages.__setitem__(1, "a"),
        lambda: ages.__delitem__("a"), lambda: jit.script([1, "a"]),
    ):  # fmt: skip
        with pytest.raises((TypeError, RuntimeError)):
            wrong()
    with pytest.raises(KeyError):
        "a" in ages  # noqa: B015
    assert numbers == [1, 2] and ages == {1: 2}


@pytest.mark.parametrize(
    ("text", "given", "said"),
    [
        ("%s in %", ("a",), "Incomplete format specifier"),
        ("%a", ("a",), "specifier %a is not supported"),
        ("%d", ("1",), "%d requires a number for formatting, but got String"),
        ("%c", ("foo",), "%c requires an int or char"),
        ("%s %s", ("a",), "Too few arguments"),
        ("%s", ("a", "b"), "Too many arguments"),
    ],
)
def test_texts_that_values_do_not_fit(text, given, said):
    def one(form: str, a: str) -> str:
        return form % a

    def two(form: str, a: str, b: str) -> str:
        return form % (a, b)

    with pytest.raises(RuntimeError, match=said):
        jit.script(one if len(given) == 1 else two)(text, *given)


def test_texts_that_values_fit():
    def form(a: int, b: float, c: str) -> str:
        return "%d %i %.2f %s %c %x %5d%% %s" % (a, a, b, c, 97, 255, a, [a])  # noqa: UP031

    assert jit.script(form)(3, 2.5, "z") == "3 3 2.50 z a ff     3% [3]"


def test_a_value_that_must_not_be_none():
    def plus_one(a: typing.Optional[int]) -> int:  # noqa: UP045 - a form
        return jit._unwrap_optional(a) + 1

    scripted = jit.script(plus_one)
    assert scripted(3) == plus_one(3) == 4
    for function in (scripted, plus_one):
        with pytest.raises(RuntimeError, match="Unwrapping null optional"):
            function(None)


def sliced(x):
    y = x.clone()
    y[slice(0, 1)] = 5.0
    return x[slice(1, None, None)], x[:, slice(0, 2)], x[(slice(None, None, 2), slice(2))], y


def test_slices_may_be_written_as_calls_as_traced_graphs_write_them():
    x = facula.arange(12.0).reshape(3, 4)
    for made, right in zip(facula.jit.script(sliced)(x), sliced(x), strict=True):
        assert facula.equal(made, right)

    class Rest(facula.nn.Module):
        def forward(self, x):
            return facula.nn.functional.layer_norm(x, x.shape[1:])

    graph = facula.fx.symbolic_trace(Rest())
    assert "slice(1" in graph.code
    assert facula.equal(facula.jit.script(graph)(x), graph(x))

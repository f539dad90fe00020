"""Programs as people write them, captured in one graph: classes of containers, copies, the library."""

from __future__ import annotations

import collections
import contextvars
import copy
import dataclasses
import enum
import functools
import inspect
import itertools
import logging
import random
import re
import warnings
import weakref
from collections.abc import Callable
from typing import Any

import pytest

import facula
from facula import nn
from facula.utils import _pytree as pytree

X = facula.arange(6.0).reshape(2, 3)


def outcome(function: Callable[..., Any], *args: Any) -> str:
    """A result as text, or the error."""
    try:
        return repr(function(*args))
    except (ValueError, KeyError, AttributeError) as error:
        return repr(error)


def same(function: Callable[..., Any], *args: Any) -> None:
    """Compiled, a function gives what eager gives, in one graph."""
    call = facula.compile(function, backend="eager", fullgraph=True)
    for _ in range(3):
        assert outcome(call, *args) == outcome(function, *args)


def same_made(make: Callable[[], Callable[..., Any]], *args: Any) -> None:
    """The same of programs that change what they hold: each is made anew."""
    call, function = facula.compile(make(), backend="eager", fullgraph=True), make()
    for _ in range(3):
        assert outcome(call, *args) == outcome(function, *args)


class Output(collections.OrderedDict):
    """A dictionary of what was computed, its fields attributes too; missing ones are None."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()

    def __post_init__(self) -> None:
        names = [field.name for field in dataclasses.fields(self)]
        assert all(field.default is None for field in dataclasses.fields(self)[1:])
        for name in names:
            value = self.__dict__.get(name)
            if value is not None:
                self[name] = value

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, str):
            return dict(self.items())[key]
        return self.to_tuple()[key]

    def __setattr__(self, name: str, value: Any) -> None:
        if name in {field.name for field in dataclasses.fields(self)} and value is not None:
            super().__setitem__(name, value)
        super().__setattr__(name, value)

    def __setitem__(self, key: str, value: Any) -> None:
        super().__setitem__(key, value)
        super().__setattr__(key, value)

    def __delitem__(self, *args: Any) -> None:
        raise ValueError("items stay")

    def pop(self, *args: Any) -> Any:
        """Nothing can be taken out."""
        raise ValueError("items stay")

    def to_tuple(self) -> tuple:
        """The values that are there."""
        return tuple(self[key] for key in self.keys())


@dataclasses.dataclass
class ModelOutput(Output):
    """What a model gives."""

    logits: Any = None
    loss: Any = None
    states: Any = None


class Model(nn.Module):
    """Gives an `Output`, from an inner model that gives one."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(3, 3), nn.Linear(3, 2)

    def inner(self, x: Any) -> Any:
        """The first half."""
        y = self.first(x)
        return ModelOutput(logits=y, states=(x, y))

    def forward(self, x: Any, return_dict: bool = True) -> Any:
        """All of it."""
        found = self.inner(x)
        logits = self.second(found.logits) + found[0].sum()
        made = ModelOutput(logits=logits, states=found.states)
        made.loss = logits.square().mean()
        made["extra"] = found["states"][1] * 2
        return made if return_dict else made.to_tuple()


@pytest.mark.parametrize("backend", ["eager", "inductor"])
def test_outputs_of_models(backend):
    model = Model()
    call = facula.compile(model, backend=backend, fullgraph=True)
    wanted, found = model(X), call(X)
    assert type(found) is ModelOutput and list(found) == list(wanted)
    assert list(vars(found)) == list(vars(wanted))
    assert found.loss is found["loss"] and found.extra is found["extra"]
    for one, other in zip(found["states"], wanted["states"], strict=True):
        assert facula.allclose(one, other)
    gradients = []
    for result in (wanted, found):
        model.zero_grad()
        result.loss.backward()
        gradients.append([p.grad.clone() for p in model.parameters()])
    assert all(facula.allclose(a, b, atol=1e-6) for a, b in zip(*gradients, strict=True))
    plain = call(X, return_dict=False)
    assert type(plain) is tuple and len(plain) == 4


def test_outputs_of_models_as_arguments():
    def f(given: Any) -> Any:
        given.loss = given.logits * 2
        given["more"] = given[0] + 1
        with_error = "none"
        try:
            given.pop("loss")
        except ValueError as error:
            with_error = str(error)
        return given.loss, given["more"], len(given), with_error, given.states

    call = facula.compile(f, backend="eager", fullgraph=True)
    for _ in range(2):
        one, other = ModelOutput(logits=X), ModelOutput(logits=X)
        assert repr(call(one)) == repr(f(other))
        assert repr(one) == repr(other) and vars(one).keys() == vars(other).keys()


class Lower(dict):
    """A dictionary whose keys have no case."""

    def __getitem__(self, key: str) -> Any:
        return super().__getitem__(key.lower())

    def __setitem__(self, key: str, value: Any) -> None:
        super().__setitem__(key.lower(), value)

    def __delitem__(self, key: str) -> None:
        super().__delitem__(key.lower())

    def get(self, key: str, default: Any = None) -> Any:
        """The item, or another thing."""
        return super().get(key.lower(), default)


def test_dictionaries_with_methods_of_their_own():
    def make() -> Any:
        kept = Lower()
        kept["A"] = 1

        def f(x: Any) -> Any:
            made = Lower(Q=1)
            made["B"] = x * kept["A"]
            kept["A"] = kept.get("a") + 1
            del made["b"]
            made["C"] = x
            return made, made["c"], made.get("NONE"), dict.get(made, "Q"), list(kept.items())

        return f

    same_made(make, X)


@pytest.mark.breaks("data-dependent-value")
def test_a_method_of_the_base_on_the_stack_of_a_break():
    class Table(dict):
        def get(self, name: str) -> Any:
            return super().get(str(facula.randn(()).item() > 9) + name) or 5

    table = Table(Falsex=3)
    call = facula.compile(lambda x: x * table.get("x") + table.get("y"), backend="eager")
    assert facula.equal(call(X), X * 3 + 5)


def test_order_of_dictionaries():
    kept: dict[str, int] = {"a": 1, "b": 2}

    def f(x: Any) -> Any:
        kept["a"] = kept.pop("a") + 1
        made = collections.OrderedDict(a=x, b=1, c=2)
        made.move_to_end("a")
        first = made.popitem(last=False)
        made.move_to_end("a", last=False)
        return list(kept), made, first, list(reversed(made))

    same(f, X)
    outside = collections.OrderedDict(a=1, b=2)

    def g(x: Any) -> Any:
        outside.move_to_end("a")
        return x * outside["a"]

    facula.compile(g, backend="eager", fullgraph=True)(X)
    assert list(outside) == ["b", "a"]


def test_counters_and_factories():
    calls: Any = collections.Counter()

    class Groups(collections.defaultdict):
        def total(self) -> int:
            return sum(len(group) for group in self.values())

    def f(x: Any) -> Any:
        calls["f"] += 1
        counted = collections.Counter("abca")
        counted.update({"b": 3})
        groups = Groups(list)
        groups["q"].append(x)
        joined = counted + collections.Counter(a=1)
        return counted, joined, counted["none"], groups.total(), groups, joined == counted

    same(f, X)
    assert calls == {"f": 6}


class Row(list):
    """A list that doubles what it takes."""

    kind = "row"

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.taken = 0

    def append(self, value: Any) -> None:
        """Take twice the value."""
        self.taken += 1
        super().append(value * 2)

    @property
    def last(self) -> Any:
        """The last item."""
        return self[-1]


class Pair(tuple):
    """A tuple that is made of two things."""

    tag = 3

    def __new__(cls, first: Any, second: Any) -> Pair:
        return super().__new__(cls, (first, second))

    @property
    def first(self) -> Any:
        """The first thing."""
        return self[0]


def test_classes_of_lists_and_tuples():
    def make() -> Any:
        kept = Row([1])

        def f(x: Any) -> Any:
            row = Row([x])
            row.append(x)
            kept.append(2)
            pair = Pair(x, 2)
            return (
                row, vars(row), row.last, row.kind, row[:1], row + [1], row.copy(), type(row + []),
                pair, pair.first, pair.tag, type(pair[:1]), pair + (1,), kept, vars(kept),
            )  # fmt: skip

        return f

    same_made(make, X)
    found = facula.compile(make(), backend="eager", fullgraph=True)(X)
    assert type(found[0]) is Row and type(found[8]) is Pair


def test_properties_are_deleted_by_their_class():
    class Level:
        def __init__(self) -> None:
            self.now = 1

        @property
        def level(self) -> int:
            return self.now

        @level.deleter
        def level(self) -> None:
            self.now = 0

    def f(x: Any) -> Any:
        level = Level()
        del level.level
        return x + level.level

    same(f, X)


def test_metaclasses_that_make_instances():
    class Tagged(type):
        def __call__(cls, *args: Any) -> Any:
            made = super().__call__(*args)
            made.tag = 2
            return made

    class Thing(metaclass=Tagged):
        def __init__(self, x: Any) -> None:
            self.x = x

    def f(x: Any) -> Any:
        thing = Thing(x)
        return thing.x * thing.tag

    same(f, X)


class Scale(enum.IntEnum):
    """Numbers by name."""

    TWO = 2


def test_members_of_enumerations_are_numbers():
    same(lambda x: (x * Scale.TWO, Scale.TWO - x, x.sum(Scale.TWO - 1), x.unsqueeze(Scale.TWO)), X)


def test_iterators_of_the_library():
    def f(x: Any) -> Any:
        once, again = itertools.tee([1, 2])
        return (
            list(itertools.takewhile(lambda n: n < 3, [1, 3, 1])),
            list(itertools.dropwhile(lambda n: n < 3, [1, 3, 1])),
            list(itertools.compress([x, 1, 2], [1, 0, 1])),
            list(itertools.filterfalse(None, [0, 1])),
            list(itertools.islice(itertools.cycle([1, x]), 3)),
            [*once, *again],
            sorted([1, 3, 2], key=functools.cmp_to_key(lambda a, b: b - a)),
        )

    same(f, X)


@pytest.mark.parametrize("parts", [([1], [1, 2]), ([1, 2], [1]), ([1], [1], [1, 2]), ([1], [2])])
def test_zip_says_which_part_is_longer(parts):
    same(lambda x: (x, list(zip(*parts, strict=True))), X)


NAME = re.compile(r"layer(\d+)")
PRECISION: contextvars.ContextVar = contextvars.ContextVar("precision", default=2)


def test_texts_and_context_variables():
    def f(x: Any) -> Any:
        found = NAME.match("layer12")
        assert found is not None
        return x * int(found.group(1)), re.sub("a", "b", "aab"), x + PRECISION.get()

    same(f, X)
    call = facula.compile(lambda x: x + PRECISION.get(), backend="eager", fullgraph=True)
    assert facula.equal(call(X), X + 2)
    token = PRECISION.set(5)
    assert facula.equal(call(X), X + 5)
    PRECISION.reset(token)
    assert facula.equal(call(X), X + 2)


def test_loggers_that_say_nothing_do_not_break():
    log = logging.getLogger("facula.test.everyday")

    def f(x: Any) -> Any:
        log.debug("shape %s", x.shape)
        return x * 2

    same(f, X)


def test_weak_references():
    class Owner:
        scale = 3

    owner = Owner()
    table = weakref.WeakKeyDictionary({owner: 4})

    def f(x: Any) -> Any:
        return x * weakref.ref(owner)().scale * table[owner], owner in table

    same(f, X)
    made = facula.compile(lambda x: (x * 2, weakref.ref(owner)), backend="eager", fullgraph=True)(X)
    assert made[1]() is owner


@dataclasses.dataclass
class Settings:
    """Settings with a list."""

    width: int = 2
    names: list = dataclasses.field(default_factory=list)


def test_deep_copies():
    settings = Settings(names=["a"])

    def f(x: Any) -> Any:
        own = copy.deepcopy(settings)
        own.names.append("b")
        shared = [x]
        both = copy.deepcopy({"one": shared, "two": shared, "three": (1, "q")})
        both["one"][0].add_(1)
        return own, both, both["one"] is both["two"], x * own.width

    same(f, X)
    assert settings.names == ["a"]


def test_signatures():
    def given(a: int, b: int = 2, *, c: int = 3) -> int:
        return a + b + c

    class Layer(nn.Module):
        def forward(self, x: Any, mask: Any = None) -> Any:
            return x * len(inspect.signature(given).parameters)

    layer = Layer()
    same(lambda x: (layer(x), list(inspect.signature(layer.forward).parameters)), X)


def test_trees():
    def f(x: Any) -> Any:
        leaves, spec = pytree.tree_flatten({"a": [x, 1], "b": (x,)})
        return pytree.tree_unflatten([leaf * 2 for leaf in leaves], spec), len(leaves)

    same(f, X)


def test_compiled_modules_inside_of_compiled_programs():
    inner = facula.compile(nn.Linear(3, 3), backend="eager")
    copied = copy.deepcopy(inner)

    class Outer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.part = inner

        def forward(self, x: Any) -> Any:
            return self.part(x) + copied.weight.sum() + hasattr(copied, "nothing")

    outer = Outer()
    call = facula.compile(outer, backend="eager", fullgraph=True)
    assert facula.equal(call(X), outer(X))


class Called(nn.Module):
    """A module with a call of its own."""

    def __call__(self, x: Any) -> Any:
        return super().__call__(x) + 1

    def forward(self, x: Any) -> Any:
        """Twice as much."""
        return x * 2


def test_calls_of_modules_through_super():
    module = Called()
    same(lambda x: module(x), X)


def test_random_numbers_of_python():
    def f(x: Any) -> Any:
        return x * random.random() + random.uniform(2, 5), [random.random() for _ in range(2)]

    call = facula.compile(f, backend="eager", fullgraph=True)
    results = []
    for function in (call, f):
        random.seed(3)
        results.append([repr(function(X)) for _ in range(3)] + [random.random()])
    assert results[0] == results[1]
    assert len(set(results[0])) == 4


@pytest.mark.breaks("data-dependent-branch")
def test_layers_that_are_dropped_by_chance():
    layers = [lambda x: x * 2, lambda x: x + 3, lambda x: x - 1]

    def f(x: Any) -> Any:
        for layer in layers:
            if random.random() < 0.5:
                continue
            x = layer(x)
        return x

    call = facula.compile(f, backend="eager")
    results = []
    for function in (call, f):
        random.seed(3)
        results.append([function(X).tolist() for _ in range(8)])
    assert results[0] == results[1]


def test_warnings_are_said_where_they_stand():
    def inner(x: Any) -> Any:
        warnings.warn("careful", stacklevel=2)
        return x * 2

    def f(x: Any) -> Any:
        y = inner(x)
        warnings.warn("old", DeprecationWarning, stacklevel=1)
        return y

    heard = []
    for function in (f, facula.compile(f, backend="eager", fullgraph=True)):
        with warnings.catch_warnings(record=True) as kept:
            warnings.simplefilter("always")
            for _ in range(2):
                function(X)
        heard.append([(str(w.message), w.category, w.filename, w.lineno) for w in kept])
    assert heard[0] == heard[1] and len(heard[0]) == 4


def test_attributes_of_functions_are_written():
    def make() -> Any:
        def count(x: Any) -> Any:
            count.calls += 1
            return x * count.calls

        count.calls = 0
        return lambda x: (count(x), count(x), count.calls)

    same_made(make, X)


@pytest.mark.breaks("explicit")
def test_functions_that_are_compiled_inside():
    def f(x: Any) -> Any:
        @facula.compile(backend="eager")
        def inner(y: Any) -> Any:
            return y * 2

        return inner(x) + facula.compile(lambda y: y + 1)(x)

    same(f, X)
    module = nn.Linear(3, 3)
    call = facula.compile(lambda x: facula.compile(module, backend="eager"), backend="eager")
    assert list(call(X).state_dict()) == ["_orig_mod.weight", "_orig_mod.bias"]

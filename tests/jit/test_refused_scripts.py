"""What TorchScript does not have is refused when it is scripted, with the reason; what fails when it runs "
"names the line."""

import enum
import math
from typing import Any, NamedTuple, Optional

import pytest

import facula
from facula import Tensor, jit, nn


class Mixed(enum.Enum):
    ONE = 1
    TEXT = "text"


class Tensors(enum.Enum):
    ZERO = facula.tensor(0)


class Pair(NamedTuple):
    x: Tensor = facula.zeros(1)
    y: int = 3


def one_side(flag: bool):
    if flag:
        a = 1
    return a


def two_types(flag: bool):
    if flag:
        a = 1
    else:
        a = 1.0
    return a


def lists_of_two_types(flag: bool):
    if flag:
        a = [1]
    else:
        a = [None]
    return a


def falls_through(x: Tensor) -> int:
    if bool(x.sum() > 0):
        return 1


def nothing_at_the_end() -> Optional[int]:  # noqa: UP045
    pass


def constants_are_compared(x: Tensor):
    if 1 == 2:  # noqa: PLR0133
        a = 1
    else:
        a = "text"
    return a


def prints(x):
    print(x, flush=True)


def shared(x: tuple[int, list[int]] = (1, [2])):
    return x


def unpacks(x):
    a, b = x + x
    return a + b


def unpacks_a_function(x):
    a, b = one_side
    return a


def breaks(x: int):
    for a in (1, "2"):  # noqa: B007
        if x == 1:
            break
    return a


def method_of_a_number(x: int):
    return x.add(1)


def method_of_anything(x: Any):
    return x.t


def subscript_of_a_number(x: int):
    return x[0]


def raises_a_number():
    raise 3 + 4


def exception_as_value():
    a = ValueError("x")
    return a


def mixed(x: Mixed):
    return x.name


def tensors(x: Tensors):
    return x.name


def pair(x: Pair):
    return x.y


def builtin(x: float):
    return math.nextafter(x, 2.0)


def annotated(x: int):
    return jit.annotate(int, [i for i in [1, 2]])


def attribute_of_a_tuple(x: tuple[str, int]):
    return getattr(x, "a", 2)


def positions(x, dim):
    return x.sum(dim)


def commented(x, y):
    # type: (Tensor) -> Tensor
    return x


def test_a_comment_of_types_begins_as_pytorch_has_it():
    with pytest.raises(RuntimeError, match="annotation prefix in line"):
        jit.CompilationUnit("def f(x):\n    #type: (Tensor) -> Tensor\n    return x")


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (one_side, "a is not defined in the false branch"),
        (two_types, "a is set to type int in the true branch and type float in the false branch"),
        (lists_of_two_types, r"List\[int\] in the true branch"),
        (falls_through, "does not return along all paths"),
        (nothing_at_the_end, "does not return along all paths"),
        (constants_are_compared, "a is set to type int in the true branch and type str"),
        (prints, "print doesn't accept any keyword arguments"),
        (shared, "Mutable default parameters"),
        (unpacks, "cannot be used as a tuple"),
        (unpacks_a_function, "cannot be used as a tuple"),
        (breaks, "do not support break or continue inside"),
        (method_of_a_number, "object has no attribute or method 'add'"),
        (method_of_anything, "object has no attribute or method 't'"),
        (subscript_of_a_number, "'int' object is not subscriptable"),
        (raises_a_number, "must derive from BaseException"),
        (exception_as_value, "cannot be used as a value"),
        (mixed, "Could not unify type list"),
        (tensors, "Cannot create Enum with value type 'Tensor'"),
        (pair, "Tensors are not supported as default NamedTuple fields"),
        (builtin, "Python builtin <built-in function nextafter> is currently not supported"),
        (annotated, "Expected an annotation of type List"),
        (attribute_of_a_tuple, "but got a normal Tuple"),
        (positions, "Inferred the value for argument 'dim' to be of type 'Tensor'"),
        (commented, "did not match the number of function parameters"),
    ],
)
def test_a_program_is_refused_with_the_reason(function, text):
    with pytest.raises(RuntimeError, match=text):
        jit.script(function)


class Conditional:
    def __init__(self, x: int):
        if x > 1:
            self.x = x


class Base:
    def __init__(self):
        self.x = 1


class Derived(Base):
    def __init__(self):
        self.x = 2


class Lacking:
    shared = 3

    def __init__(self):
        self.x = 1

    def own(self):
        return self.shared


class Setting:
    def __init__(self):
        self.x = 1

    def own(self):
        self.y = 1


class Retyping:
    def __init__(self):
        self.x = 1
        self.x = "text"


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (Conditional, "assignment cannot be in a control-flow block"),
        (Derived, "does not support inheritance"),
        (Lacking, "no attribute or method 'shared'.*is defined as a class attribute"),
        (Setting, "Tried to set nonexistent attribute"),
        (Retyping, "Wrong type for attribute assignment"),
    ],
)
def test_a_class_is_refused_with_the_reason(kind, text):
    with pytest.raises(RuntimeError, match=text):
        jit.script(kind)


class Guarded:
    """The first assignment stands behind a branch that leaves: that is the top of the method all the same."""

    def __init__(self, x: int):
        if x < 0:
            raise ValueError("negative")
        self.x = x


def test_an_assignment_behind_a_check_is_at_the_top():
    jit.script(Guarded)


def test_overloads_are_declarations():
    with pytest.raises(RuntimeError, match="Only `pass` statement or `...` can be the body"):

        @jit._overload
        def wrong(x: str) -> str:
            return x + "0"

    @jit._overload
    def alone(x: int) -> int: ...

    def calls():
        return alone(0)

    with pytest.raises(RuntimeError, match="Implementation for the function .* is missing"):
        jit.script(calls)


class Holder(nn.Module):
    __constants__ = ["count"]

    def __init__(self, layers):
        super().__init__()
        self.count, self.layers, self.first = 3, layers, nn.Linear(2, 2)

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return self.first(x) * self.count


def test_lists_of_modules_are_no_attributes():
    with pytest.raises(RuntimeError, match="has no attribute 'layers'.*ModuleList"):
        jit.script(Holder([nn.Linear(2, 2)]))


def test_constants_and_modules_of_scripts_stay():
    module = jit.script(Holder(nn.ModuleList([nn.Linear(2, 2)])))
    with pytest.raises(RuntimeError, match="Cannot mutate TorchScript constant"):
        module.count = 4
    with pytest.raises(RuntimeError, match="Cannot re-assign"):
        module.first = nn.Linear(2, 2)
    with pytest.raises(RuntimeError, match="a module of type"):
        module.first = jit.script(nn.ReLU())  # whose forward would not run
    module.first = jit.script(nn.Linear(2, 2))


def test_modules_and_ranges_do_not_go_together():
    class Zipped(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList([nn.ReLU()])

        def forward(self, x):
            for i, layer in zip(range(int(x)), self.layers):  # noqa: B905
                x = layer(x) * i
            return x

    with pytest.raises(RuntimeError, match="does not have a statically determinable length"):
        jit.script(Zipped())


@jit.ignore
def of_python(x):
    # type: (Tensor) -> Tensor
    return (x, x)


def test_results_of_python_have_their_types():
    @jit.script
    def calls(x):
        return of_python(x)

    with pytest.raises(RuntimeError, match="instead got value of type tuple"):
        calls(facula.ones(1))


# ------------------------------------------------------------------ errors while a script runs


def inner(a, b):
    return a + b


def outer(a, b):
    return inner(a, b) * 2


def test_an_error_names_the_lines_under_way():
    with pytest.raises(RuntimeError) as raised:
        jit.script(outer)(facula.ones(3), facula.ones(4))
    text = str(raised.value)
    places = [text.index(part) for part in ("failed in the TorchScript interpreter", "Traceback of TorchScript",
              ", in outer", "inner(a, b)", ", in inner", "a + b", "RuntimeError: ")]  # fmt: skip
    assert places == sorted(places)
    assert text.count("<--- HERE") == 2 and __file__ in text


class Known(KeyError):
    pass


def raising(x: int):
    if x == 1:
        raise Known("of mine")
    if x == 2:
        raise RuntimeError("hello", "goodbye")
    raise ValueError


@pytest.mark.parametrize(
    ("x", "text", "kind"),
    [
        (1, r"test_refused_scripts\.Known: of mine$", KeyError),
        (2, r"builtins\.RuntimeError: hello, goodbye$", RuntimeError),
        (3, r"builtins\.ValueError: $", ValueError),
    ],
)
def test_an_exception_of_a_script_says_its_class(x, text, kind):
    with pytest.raises(jit.Error, match=text) as raised:
        jit.script(raising)(x)
    assert isinstance(raised.value, kind)


def test_an_error_of_a_task_names_where_it_was_begun():
    @jit.script
    def forks(a, b):
        task = jit.fork(inner, a, b)
        return jit.wait(task)

    with pytest.raises(RuntimeError, match="jit.fork"):
        forks(facula.ones(3), facula.ones(4))

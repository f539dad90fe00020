"""Sources as people write them: texts, comments, types in comments, defaults, names of the caller."""

import enum
import io
import math
from typing import Final, List  # noqa: UP035, F401 - a comment names it

import pytest

import facula
from facula import jit


class Described(jit.ScriptModule):
    def __init__(self, scale):
        super().__init__()
        self.weight = facula.nn.Parameter(facula.full((2, 3), scale))
        self.define("""
            def scaled(self, x):
                return self.weight.mm(x)
        """)

    @jit.script_method
    def forward(self, x):
        return self.scaled(x) + 1


def test_methods_are_defined_by_texts():
    for scale in (1.0, 2.0):
        module = Described(scale)
        assert module(facula.ones(3, 1)).tolist() == [[3 * scale + 1]] * 2
        assert module.scaled(facula.ones(3, 1)).tolist() == [[3 * scale]] * 2


def test_names_in_a_text_are_those_of_the_caller():
    offset = 4
    unit = jit.CompilationUnit("""
        def shifted(x: float):
            return math.floor(x) + offset
    """)
    assert unit.shifted(2.5) == math.floor(2.5) + offset


class Commented(facula.nn.Module):
    def forward(self, x):
        y = -x
        # a comment that stands further left
        text = """
words
"""
        return y, len(text)


def test_comments_and_texts_may_stand_further_left():
    y, length = jit.script(Commented())(facula.ones(1))
    assert (y.item(), length) == (-1.0, 7)


def lines(
    a,  # type: int
    b,  # type: List[int]
):
    # type: (...) -> int
    return a + len(b)


def test_each_argument_may_have_its_type_in_a_comment():
    assert jit.script(lines)(1, [5, 6]) == 3
    assert str(jit.script(lines).schema) == "lines(int a, int[] b) -> int"


def pair(x) -> tuple[facula.Tensor, int]:
    return x, 1


def test_a_tuple_has_brackets_of_its_own_in_a_schema():
    assert str(jit.script(pair).schema) == "pair(Tensor x) -> ((Tensor, int))"


def untyped(x, count=2):
    return x * count


def shared(x, items: list[int] = []):  # noqa: B006
    return x


def optional(x, size: float = 1, dims: list[int] = (0, 1)):
    return x.sum(dims) * size


def test_defaults_have_the_type_of_their_argument():
    with pytest.raises(RuntimeError, match="Expected a default value of type Tensor"):
        jit.script(untyped)
    with pytest.raises(RuntimeError, match="Mutable default parameters"):
        jit.script(shared)
    assert jit.script(optional)(facula.ones(2, 2)).item() == 4.0


def asked(d: facula.device, flag: bool, x: float):
    return d.type, flag, x is x, hash("a") == hash("a")


def test_values_from_python_become_what_the_script_wants():
    assert jit.script(asked)("cpu", 1, 1.5) == ("cpu", True, True, True)


class Counted(facula.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = facula.nn.Linear(2, 3)
        self.second = facula.nn.BatchNorm1d(3)

    def forward(self, x):
        total, words = 0, ""
        for name, parameter in self.named_parameters():
            total += parameter.numel()
            words = words + name + " "
        for buffer in self.buffers():
            total += buffer.numel()
        for name, _ in self.named_modules():
            words = words + name + ";"
        return total, words


def test_loops_go_over_parameters_buffers_and_modules():
    module = Counted()
    names = " ".join(n for n, _ in module.named_parameters()) + " "
    assert jit.script(module)(facula.ones(1)) == (
        sum(p.numel() for p in module.parameters()) + sum(b.numel() for b in module.buffers()),
        names + ";".join(n for n, _ in module.named_modules()) + ";",
    )


class Stateful(jit.ScriptModule):
    def __init__(self):
        super().__init__()
        self.buffer = facula.nn.Buffer(facula.ones(2))

    @jit.script_method
    def __getstate__(self):
        return (self.buffer, [1, 2], self.training)

    @jit.script_method
    def __setstate__(self, state):
        self.buffer = state[0] + len(state[1])
        self.training = state[2]


def test_a_module_writes_and_reads_its_own_state():
    file = io.BytesIO()
    Stateful().save(file)
    file.seek(0)
    assert jit.load(file).buffer.tolist() == [3.0, 3.0]


def test_what_the_language_lacks_has_pytorchs_classes():
    def otherwise(x: int):
        for _ in range(x):
            x += 1
        else:
            x += 2
        return x

    def tried(x: int):
        try:
            return x
        finally:
            x += 1

    with pytest.raises(jit.frontend.NotSupportedError, match="else branches of for loops"):
        jit.script(otherwise)
    with pytest.raises(jit.frontend.UnsupportedNodeError, match="try"):
        jit.script(tried)


def test_graphs_say_who_reads_a_value():
    def doubled(x):
        y = x + 1
        return y * y

    graph = jit.script(doubled).graph
    (added,) = (n for n in graph.nodes() if n.kind() == "aten::add")
    reads = [(use.user.kind(), use.offset) for use in added.output().uses()]
    assert reads == [("aten::mul", 0), ("aten::mul", 1)]


def test_operators_of_a_module_are_listed():
    layers = facula.nn.Sequential(facula.nn.Linear(2, 2), facula.nn.Tanh())
    assert jit.export_opnames(jit.script(layers)) == ["aten::linear", "aten::tanh"]
    with jit.optimized_execution(False), jit.strict_fusion(), jit.fuser("fuser1"):
        assert jit.script(layers)(facula.ones(1, 2)).shape == (1, 2)
    with pytest.raises(RuntimeError, match="unrecognized fuser option"), jit.fuser("none"):
        pass


class Tone(enum.Enum):
    LOW = 1
    HIGH = 2


class Kept(facula.nn.Module):
    width: Final[int]

    def __init__(self):
        super().__init__()
        self.width, self.tone, self.turn, self._size = 3, Tone.HIGH, 2 + 3j, 1

    @property
    def size(self) -> int:
        return self._size

    @size.setter
    def size(self, value: int):
        self._size = value * 2

    def forward(self, x):
        self.size = 5
        later = jit.fork(facula.neg, x)
        same = self.tone == Tone.HIGH
        return (
            self.size + self.width,
            same,
            self.tone.name,
            self.tone.value,
            jit.wait(later),
            self.turn * 1j,
        )


def test_enumerations_complex_numbers_constants_and_properties_are_kept_in_files():
    expected = (13, True, "HIGH", 2, -1.0, (2 + 3j) * 1j)
    scripted = jit.script(Kept())
    file = io.BytesIO()
    jit.save(scripted, file)
    file.seek(0)
    loaded = jit.load(file)
    assert loaded.width == 3
    for module in (scripted, loaded):
        found = module(facula.ones(1))
        assert (*found[:4], found[4].item(), found[5]) == expected


def test_a_class_names_itself_while_it_is_made():
    @jit.script
    class Step:
        def __init__(self, value: int):
            self.value = value

        def following(self):
            return Step(self.value + 1)

        def difference(self, other: "Step") -> int:
            return other.value - self.value

    def steps(value: int):
        first = Step(value)
        return first.following().value, first.difference(first.following())

    assert jit.script(steps)(3) == (4, 1)

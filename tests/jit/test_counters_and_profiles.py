"""What programs can see of scripts that run: counters, times of lines; and units that are made of graphs."""

from __future__ import annotations

from typing import Dict, List, Tuple  # noqa: UP035

import pytest

import facula
from facula import Tensor, jit, nn
from facula.nn.common_types import _size_2_t


def counted(x: Tensor, times: int) -> Tensor:
    for _ in range(times):
        jit._logging.add_stat_value("turns", 2)
        x = x + 1
    return x


@pytest.fixture
def logger():
    made = jit._logging.LockingLogger()
    before = jit._logging.set_logger(made)
    yield made
    assert jit._logging.set_logger(before) is made


def test_scripts_and_traces_count(logger) -> None:
    assert jit.script(counted)(facula.ones(1), 3).item() == 4
    assert logger.get_counter_val("turns") == 6 and logger.get_counter_val("others") == 0
    traced = jit.trace(lambda x: counted(x, 2), facula.ones(1), check_trace=False)
    so_far = logger.get_counter_val("turns")
    traced(facula.ones(1))
    assert logger.get_counter_val("turns") == so_far + 4
    logger.set_aggregation_type("turns", jit._logging.AggregationType.AVG)
    assert logger.get_counter_val("turns") == 2
    with pytest.raises(TypeError, match="AggregationType was required"):
        logger.set_aggregation_type("turns", 1)


def test_a_logger_that_is_not_set_hears_nothing() -> None:
    jit.script(counted)(facula.ones(1), 3)
    assert jit._logging.get_logger().get_counter_val("turns") == 0


def timed(x: Tensor) -> int:
    start = jit._logging.time_point()
    x.sum()
    return jit._logging.time_point() - start


def test_scripts_ask_for_the_time() -> None:
    assert jit.script(timed)(facula.ones(4)) > 0


def test_a_profile_lists_lines_while_it_is_enabled() -> None:
    scripted = jit.script(counted)
    profile = jit._ScriptProfile()
    scripted(facula.ones(1), 2)
    assert profile.dump_string() == ""
    profile.enable()
    scripted(facula.ones(1), 3)
    profile.disable()
    text = profile.dump_string()
    scripted(facula.ones(1), 3)
    assert profile.dump_string() == text
    (line,) = [t for t in text.splitlines() if "aten::add" in t]
    assert line.split()[0] == "3" and "test_counters_and_profiles.py" in line


# ------------------------------------------------------------------ graphs as functions


def doubled(x: Tensor) -> Tensor:
    return x * 2


def test_a_unit_takes_graphs() -> None:
    unit = facula._C.CompilationUnit()
    unit.create_function("own", jit.script(doubled).graph)
    assert unit.own(facula.ones(1)).item() == unit.find_function("own")(facula.ones(1)).item() == 2
    assert unit.find_function("other") is None
    with pytest.raises(AttributeError, match="function of the unit"):
        unit.other(facula.ones(1))


def test_scripted_functions_are_found_while_somebody_has_them() -> None:
    scripted = jit.script(doubled)
    unit = jit._state._python_cu
    assert scripted in unit.get_functions() and unit.find_function("doubled") is not None
    assert unit.find_function("never_written") is None


def test_values_keep_their_names_in_a_canonical_graph() -> None:
    graph = facula._C.parse_ir(
        "graph(%named : Tensor):\n  %14 : Tensor = aten::relu(%named)\n  return (%14)"
    )
    kept = str(facula._C._jit_pass_canonicalize(graph, True))
    assert "%named" in kept and "%14" not in kept
    assert "%named" not in str(facula._C._jit_pass_canonicalize(graph, False))


def test_nodes_take_values_only() -> None:
    with pytest.raises(ValueError, match="values as inputs"):
        facula._C.Graph().create("prim::Constant", [None])


def test_who_shares_memory_is_written_as_a_graph() -> None:
    aliases = jit.script(doubled).graph.alias_db()
    assert "WILDCARD" in str(aliases) and "digraph alias_db" in aliases.to_graphviz_str()


@pytest.mark.parametrize("number", [-17, 4])
def test_a_constant_of_one_number_has_the_shape_that_its_type_says(number: int) -> None:
    text = (
        f"graph():\n  %7 : Long(1, strides=[1], requires_grad=0, device=cpu) = prim::Constant[value={{{number}}}]()\n"
        "  return (%7)"
    )
    made = facula._C._create_function_from_graph("f", facula._C.parse_ir(text, True))()
    assert made.shape == (1,) and made.item() == number


# ------------------------------------------------------------------ what scripts take and refuse


def added(sides: _size_2_t) -> int:
    return sides[0] + sides[1]


def test_sizes_are_one_number_or_several() -> None:
    scripted = jit.script(added)
    assert scripted(4) == 8 and scripted([1, 2]) == 3


def hashed(x: Tuple[int, List[int]]) -> int:  # noqa: UP006
    return hash(x)


def hashed_pair(x: Tuple[int, str]) -> int:  # noqa: UP006
    return hash(x)


def test_hashes_of_tuples() -> None:
    assert jit.script(hashed_pair)((1, "a")) == hash((1, "a"))
    with pytest.raises(RuntimeError, match="unhashable"):
        jit.script(hashed)((1, [1]))


class Outer(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.flip(0) + 1


_outside = Outer()


class Named:
    @jit.ignore
    def __call__(self, x: Tensor) -> str:
        return f"{x.dim()} dimensions"


_named = Named()


def calls_python(x: Tensor) -> Tuple[Tensor, str]:  # noqa: UP006
    return _outside(x), _named(x)


def test_objects_outside_of_a_script_are_called_in_python() -> None:
    scripted = jit.script(calls_python)
    result, text = scripted(facula.zeros(2))
    assert result.tolist() == [1, 1] and text == "1 dimensions"
    with pytest.raises(RuntimeError, match="without parts that run in Python"):
        scripted.save("never.pt")


def store_in_tuple(a: Tuple[int, int]) -> None:  # noqa: UP006
    a[0] = a[1]  # type: ignore[index]


def add_in_tuple(a: Tuple[int, int]) -> None:  # noqa: UP006
    a[0] += a[1]  # type: ignore[index]


def named_bounds(x: List[int]) -> List[int]:  # noqa: UP006
    return x[slice(1, stop=2)]  # type: ignore[call-overload]


def no_index(x: Tensor) -> Tensor:
    return x.__getitem__()  # type: ignore[call-arg]


def pairs_of_two_types(values: List[str]) -> Dict[str, str]:  # noqa: UP006
    keys = [1, "a"]
    return dict(zip(keys, values))  # type: ignore[arg-type]  # noqa: B905


@pytest.mark.filterwarnings("ignore:.*of several types")
@pytest.mark.parametrize(
    ("function", "said"),
    [
        (store_in_tuple, "subscripted assignment"),
        (add_in_tuple, "augmented assignment"),
        (named_bounds, "Slice does not accept any keyword arguments"),
        (no_index, "expected exactly 1 argument"),
        (pairs_of_two_types, "Dicts may only contain homogeneous keys"),
    ],
)
def test_what_is_refused(function, said: str) -> None:
    with pytest.raises(RuntimeError, match=said):
        jit.script(function)


def test_a_trace_keeps_no_tensor_with_a_gradient_as_a_constant() -> None:
    weight = facula.ones(2, requires_grad=True)
    with pytest.raises(
        RuntimeError, match="Cannot insert a Tensor that requires grad as a constant"
    ):
        jit.trace(lambda x: x * weight, facula.ones(2))
    constant = weight.detach()
    traced = jit.trace(lambda x: x * constant, facula.ones(2))
    assert traced(facula.ones(2)).tolist() == [1, 1]


def test_futures_within_dictionaries_print_as_in_pytorch() -> None:
    def waits(x: Dict[int, jit.Future[int]], y: int) -> jit.Future[int]:  # noqa: UP006
        return x[y]

    text = str(jit.script(waits).graph)
    assert "Dict(int, Future(int))" in text and "Future[int]" in text


def test_a_highlight_may_stand_behind_other_places_of_the_text() -> None:
    text = "add here\n  x = add(y)\n      ~~~~~~ <--- HERE\n"
    facula.testing.FileCheck().check_source_highlighted("add").run(text)
    with pytest.raises(RuntimeError, match="highlighted"):
        facula.testing.FileCheck().check_source_highlighted("here").run(text)

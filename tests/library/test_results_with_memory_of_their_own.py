"""Results of custom operators have memory of their own; schemas say what is written to."""

import pytest

import facula
from facula import Tensor
from facula.library import custom_op


def test_a_result_that_is_an_argument_is_refused():
    @custom_op("own_memory::same", mutates_args=())
    def same(x: Tensor) -> Tensor:
        return x

    with pytest.raises(RuntimeError, match="may not alias"):
        same(facula.ones(2))


def test_results_that_share_memory_are_refused():
    @custom_op("own_memory::twice", mutates_args=())
    def twice(x: Tensor) -> tuple[Tensor, Tensor]:
        made = x + 1
        return made, made[:1]

    with pytest.raises(RuntimeError, match="may not alias"):
        twice(facula.ones(2))


def test_copies_are_fine():
    @custom_op("own_memory::copies", mutates_args=())
    def copies(x: Tensor) -> tuple[Tensor, Tensor]:
        return x.clone(), x[:1].clone()

    first, second = copies(facula.arange(3.0))
    assert first.tolist() == [0.0, 1.0, 2.0]
    assert second.tolist() == [0.0]


def test_schemas_say_what_is_written_to_and_the_defaults():
    @custom_op("own_memory::write", mutates_args={"x"})
    def write(x: Tensor, y: Tensor, *, k: float = 2.0, way: str = "a") -> None:
        x.add_(y)

    schema = facula.ops.own_memory.write.default._schema
    assert (
        str(schema)
        == 'own_memory::write(Tensor(a0!) x, Tensor y, *, float k=2., str way="a") -> ()'
    )
    assert [a.is_write for a in schema.arguments] == [True, False, False, False]
    assert write._opoverload._schema is schema


def test_each_written_argument_has_a_name_of_its_own():
    def function(x: Tensor, y: list[Tensor], z: list[Tensor]) -> None: ...

    text = facula.library.infer_schema(function, mutates_args={"x", "z"})
    assert text == "(Tensor(a0!) x, Tensor[] y, Tensor(a2!)[] z) -> ()"


def test_results_may_not_be_tuples_of_any_length():
    def function(x: Tensor) -> tuple[Tensor, ...]: ...

    with pytest.raises(ValueError, match="unsupported"):
        facula.library.infer_schema(function, mutates_args=())

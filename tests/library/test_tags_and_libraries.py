"""Tags of operators, libraries of a block, and what a second definition of a name does."""

import pytest

import facula
from facula import library

Tag = facula.Tag


def test_tags_follow_from_the_definition():
    aten = facula.ops.aten
    assert Tag.pt2_compliant_tag in aten.sin.default.tags
    assert Tag.pointwise in aten.sin.default.tags
    assert Tag.inplace in aten.add_.Tensor.tags
    assert Tag.dynamic_output_shape in aten.nonzero.default.tags
    assert Tag.pointwise not in aten.mm.default.tags


def test_tags_that_are_given():
    with library._scoped_library("tagged", "FRAGMENT") as lib:
        lib.define("one(Tensor x) -> Tensor", tags=Tag.core)
        library.define("tagged::two", "(Tensor x) -> Tensor", lib=lib, tags=(Tag.generated,))
        assert facula.ops.tagged.one.default.tags == [Tag.core]
        assert facula.ops.tagged.two.default.tags == [Tag.generated]
        library.impl(lib, "one", "CPU")(lambda x: x + 1)
        assert facula.ops.tagged.one(facula.ones(1)).item() == 2
    assert not hasattr(facula.ops.tagged, "one")
    assert not hasattr(facula.ops.tagged, "two")


def test_a_second_custom_op_takes_the_place_of_the_first():
    for factor in (2, 3):

        @library.custom_op("replaced::scale", mutates_args=())
        def scale(x: facula.Tensor, factor: int = factor) -> facula.Tensor:
            return x * factor

        assert facula.ops.replaced.scale(facula.ones(1)).item() == factor
        assert Tag.pt2_compliant_tag in facula.ops.replaced.scale.default.tags
    library.define("replaced::other", "(Tensor x) -> Tensor")
    with pytest.raises(ValueError, match="defined once"):
        library.define("replaced::other", "(Tensor x) -> Tensor")


def test_writes_to_lists_with_gaps_are_counted():
    @library.custom_op("gaps::write", mutates_args={"values"})
    def write(x: facula.Tensor, values: list[facula.Tensor | None]) -> None:
        return None

    first, last = facula.ones(2), facula.ones(2)
    write(facula.ones(1), [first, None, last])
    assert first._version == last._version == 1
    with pytest.raises(TypeError):
        facula.core.increment_version([1])


def test_a_library_that_is_gone_makes_room():
    lib = library.Library("gone", "FRAGMENT")
    lib.define("f(Tensor x) -> Tensor")
    with pytest.raises(ValueError, match="defined once"):
        library.Library("gone", "FRAGMENT").define("f(Tensor x) -> Tensor")
    del lib
    again = library.Library("gone", "FRAGMENT")
    assert again.define("f(Tensor x) -> Tensor") == "f"
    again._destroy()

"""Defaults of custom operators that are dtypes and devices."""

import facula
from facula.library import Library, custom_op, infer_schema

CPU = facula.device("cpu")


def test_they_reach_the_function():
    seen = []

    @custom_op("default_dtypes::cast", mutates_args=())
    def cast(
        x: facula.Tensor, kind: facula.dtype = facula.bfloat16, other: facula.dtype = facula.bool
    ) -> facula.Tensor:
        seen.append((kind, other))
        return x.to(kind, copy=True)

    assert cast(facula.ones(2)).dtype is facula.bfloat16
    assert facula.ops.default_dtypes.cast(facula.ones(2), facula.int8).dtype is facula.int8
    assert seen == [(facula.bfloat16, facula.bool), (facula.int8, facula.bool)]


def test_they_stand_in_schemas():
    def f(
        x: facula.Tensor,
        kind: facula.dtype = facula.uint4,
        place: facula.device = CPU,
    ) -> facula.Tensor:
        return x.to(place, copy=True)

    schema = infer_schema(f, mutates_args=())
    assert schema == '(Tensor x, ScalarType kind=uint4, Device place="cpu") -> Tensor'
    library = Library("default_dtypes", "FRAGMENT")
    library.define("place" + schema)
    library.impl("place", f, "CPU")
    assert facula.ops.default_dtypes.place(facula.ones(2)).device == facula.device("cpu")

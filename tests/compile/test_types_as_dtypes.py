"""Python's number types as dtypes inside of one graph. The oracle is the dtype that each name stands for."""

import pytest

import facula

TYPES = [
    (bool, facula.bool),
    (int, facula.int64),
    (float, facula.float64),
    (complex, facula.complex128),
]


@pytest.mark.parametrize("backend", ["eager", "inductor"])
@pytest.mark.parametrize(("kind", "dtype"), TYPES)
def test_types_as_dtypes(kind, dtype, backend):
    def program(x):
        return x.to(kind), x.to(dtype=kind), facula.ones(2, dtype=kind), x.type(kind)

    compiled = facula.compile(program, backend=backend, fullgraph=True)
    for result in compiled(facula.ones(2)):
        assert result.dtype is dtype
        assert result.tolist() == [1, 1]

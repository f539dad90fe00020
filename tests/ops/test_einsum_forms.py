"""`einsum`: one operand or many, as arguments or as a list, with an equation or with numbers."""

import numpy
import pytest

import facula

A, B = facula.randn(3, 3), facula.randn(3, 4)
ARRAYS = A.numpy(), B.numpy()
FORMS = {
    "diagonal": (("ii->i", A), "ii->i"),
    "trace": (("ii", A), "ii"),
    "ellipsis": (("...ij->...ji", B), "ij->ji"),
    "several": (("ij,jk", A, B), "ij,jk"),
    "list": (("ij,jk->k", [A, B]), "ij,jk->k"),
    "tuple": (("ij,jk->k", (A, B)), "ij,jk->k"),
    "numbers of one": ((A, [0, 0]), "ii"),
    "numbers in a tuple": ((A, (0, 0)), "ii"),
    "numbers and result": ((A, [0, 0], [0]), "ii->i"),
    "numbers of several": ((A, [0, 1], B, [1, 2], [0, 2]), "ij,jk->ik"),
    "numbers and ellipsis": ((A, [..., 0], [0, ...]), "ij->ji"),
}


@pytest.mark.parametrize("name", FORMS)
def test_forms(name):
    arguments, equation = FORMS[name]
    expected = numpy.einsum(
        equation, *ARRAYS[: equation.count(",") + 1] if name != "ellipsis" else ARRAYS[1:]
    )
    facula.testing.assert_close(facula.einsum(*arguments), facula.tensor(expected))

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


EQUATIONS = (
    "ij,jk->ik", "ij,jk->ki", "ij,kj->ik", "bij,bjk->bik", "bij,bjk->kbi", "bij,jk->bik", "ij,ij->i", "i,i->",
    "abc,cde->abde", "abc,bcd->ad", "abcd,cdab->", "ij,kl->ijkl", "...ij,jk->...ik", "ij,jk->",
)  # fmt: skip


@pytest.mark.parametrize("equation", EQUATIONS)
def test_products_of_two(equation):
    """The same equation at several sizes, twice each: the second call goes by what the first found out."""
    generator = numpy.random.default_rng(0)
    for sizes in ((2, 3, 4, 5), (3, 3, 3, 3), (1, 2, 1, 2), (2, 0, 3, 1)):
        letters = dict(zip(sorted({*equation} - {*",.->"}), sizes * 2, strict=False))
        left, right = equation.partition("->")[0].split(",")
        for leading in ((), (2,)) if "..." in equation else ((),):
            shapes = [(*leading, *[letters[k] for k in side if k != "."]) for side in (left, right)]
            if not left.startswith("..."):
                shapes = [[letters[k] for k in side] for side in (left, right)]
            elif leading:
                shapes[1] = shapes[1][1:]
            arrays = [generator.integers(-3, 4, shape).astype("float64") for shape in shapes]
            tensors = [facula.tensor(array, requires_grad=True) for array in arrays]
            for _ in range(2):
                found = facula.einsum(equation, *tensors)
                numpy.testing.assert_array_equal(
                    found.detach().numpy(), numpy.einsum(equation, *arrays)
                )
            if 0 not in sizes:
                facula.autograd.gradcheck(lambda a, b: facula.einsum(equation, a, b), tensors)

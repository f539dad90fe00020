"""What a hint says works, when it is done."""

import pytest

import facula
from facula import ones, tensor

F = facula.nn.functional


def hint_of(call):
    """The hint of the error that a call raises."""
    with pytest.raises(Exception, match="hint: ") as caught:
        call()
    return str(caught.value).rpartition("hint: ")[2]


@pytest.mark.parametrize(
    ("left", "right"), [((3, 4), (6, 4)), ((3, 4), (3, 5)), ((2, 3, 4), (2, 5, 4))]
)
def test_a_transpose_that_is_named_fits(left, right):
    mat1, mat2 = ones(left), ones(right)
    hint = hint_of(lambda: mat1 @ mat2)
    name, _, shape = hint.removesuffix(", which would fit").partition(".mT has shape ")
    turned = {"mat1": mat1, "mat2": mat2}[name].mT
    assert str(list(turned.shape)) == shape
    product = turned @ mat2 if name == "mat1" else mat1 @ turned
    assert product.dim() == len(left)


@pytest.mark.parametrize("shape", [(3, 4), (1, 4), (5, 3, 4)])
def test_no_transpose_is_named_where_none_fits(shape):
    assert ".mT" not in hint_of(lambda: ones(shape) @ ones(2, 7))
    assert ".mT" not in hint_of(lambda: ones(4) @ ones(1, 7))


CALLS = {
    "flatten": (
        "flatten(0, 2)",
        lambda: ones(2, 3, 4).flatten(2, 0),
        lambda: ones(2, 3, 4).flatten(0, 2),
    ),
    "narrow": ("at most 2", lambda: ones(5).narrow(0, 3, 4), lambda: ones(5).narrow(0, 3, 2)),
    "mask": ("shape [3]", lambda: ones(3, 4)[ones(4) > 0], lambda: ones(3, 4)[ones(3) > 0]),
    "index_add": (
        "shape [3, 2]",
        lambda: ones(3, 4).index_add(1, tensor([0, 2]), ones(3, 3)),
        lambda: ones(3, 4).index_add(1, tensor([0, 2]), ones(3, 2)),
    ),
    "gather": (
        "index.narrow(1, 0, 3)",
        lambda: ones(2, 3).gather(0, facula.zeros(2, 5).long()),
        lambda: ones(2, 3).gather(0, facula.zeros(2, 5).long().narrow(1, 0, 3)),
    ),
    "one_hot": (
        "num_classes=5",
        lambda: F.one_hot(tensor([0, 4]), 3),
        lambda: F.one_hot(tensor([0, 4]), 5),
    ),
    "arange": ("step=-1", lambda: facula.arange(5, 0), lambda: facula.arange(5, 0, -1)),
    "topk": ("k=3", lambda: ones(3).topk(4), lambda: ones(3).topk(3)),
    "layer_norm": (
        "normalized_shape=[3]",
        lambda: F.layer_norm(ones(2, 3), (4,)),
        lambda: F.layer_norm(ones(2, 3), [3]),
    ),
    "convolution in channels last": (
        "input.movedim(-1, -3)",
        lambda: F.conv2d(ones(1, 8, 8, 3), ones(4, 3, 3, 3)),
        lambda: F.conv2d(ones(1, 8, 8, 3).movedim(-1, -3), ones(4, 3, 3, 3)),
    ),
    "pooling": (
        "at most 1",
        lambda: F.max_pool1d(ones(1, 1, 4), 2, padding=2),
        lambda: F.max_pool1d(ones(1, 1, 4), 2, padding=1),
    ),
    "randint": (
        "from=5, to=6",
        lambda: facula.randint(5, 5, (2,)),
        lambda: facula.randint(5, 6, (2,)),
    ),
    "sparse size": (
        "6 or more",
        lambda: facula.sparse_coo_tensor(tensor([[0, 5]]), ones(2), (4,), check_invariants=True),
        lambda: facula.sparse_coo_tensor(tensor([[0, 5]]), ones(2), (6,), check_invariants=True),
    ),
    "tensor_split": (
        "facula.tensor_split(x, n, dim=0)",
        lambda: facula.vsplit(ones(3, 2), 2),
        lambda: facula.tensor_split(ones(3, 2), 2, dim=0),
    ),
    "view as another dtype": (
        "contiguous_format",
        lambda: ones(4, 6).mT.view(facula.complex64),
        lambda: ones(4, 6).mT.clone(memory_format=facula.contiguous_format).view(facula.complex64),
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_the_call_that_is_named_works(name):
    named, wrong, right = CALLS[name]
    assert named in hint_of(wrong)
    right()

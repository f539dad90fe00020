"""What autocast does with operators of the user's: nothing, until a dtype is registered."""

import pytest

import facula

SEEN = []


@facula.library.custom_op("autocast_of_operators::product", mutates_args=())
def product(x: facula.Tensor, y: facula.Tensor, n: facula.Tensor) -> facula.Tensor:
    halves = facula.ones(1, 1) @ facula.ones(1, 1)  # of a lower dtype where autocast is on
    SEEN.append((x.dtype, y.dtype, n.dtype, halves.dtype != facula.float32))
    return x * y * n


@product.register_fake
def _(x, y, n):
    return x * y * n


def test_without_a_dtype_inputs_stay_and_autocast_is_on_inside() -> None:
    x, n = facula.ones(2), facula.tensor(3)
    SEEN.clear()
    with facula.autocast("cpu"):
        assert product(x, x, n).dtype == facula.float32
    assert SEEN == [(facula.float32, facula.float32, facula.int64, True)]


def test_a_registered_dtype_is_that_of_floating_inputs_while_autocast_is_on() -> None:
    product.register_autocast("cpu", facula.float16)
    x, y, n = facula.full((2,), 1.5), facula.ones(2, dtype=facula.float64), facula.tensor(2)
    SEEN.clear()
    assert product(x, x, n).dtype == facula.float32
    with facula.autocast("cpu", dtype=facula.bfloat16):
        z = product(x, x, n)
        product(x, y, n)
    assert z.dtype == facula.float16 and z.tolist() == [4.5, 4.5]
    assert SEEN[1:] == [
        (facula.float16, facula.float16, facula.int64, False),
        (facula.float16, facula.float64, facula.int64, False),
    ]
    facula.library.register_autocast("autocast_of_operators::product", "cpu", facula.bfloat16)
    with facula.autocast("cpu"):
        assert product(x, x, n).dtype == facula.bfloat16


@pytest.mark.parametrize(
    ("device", "dtype", "said"),
    [
        ("toaster", facula.float16, "Unknown device type"),
        ("cpu", facula.int32, "a floating-point dtype"),
    ],
)
def test_what_is_wrong_is_said(device, dtype, said) -> None:
    with pytest.raises(ValueError, match=said):
        facula.library.register_autocast(product, device, dtype)

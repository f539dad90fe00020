"""What batch norm requires of its parameters and statistics; sizes of `interpolate`; `nll_loss` without classes."""

import pytest

import facula
import facula.nn.functional as F


def test_parameters_have_the_dtype_of_the_input_or_are_all_float32():
    x, one, zero = facula.rand(2, 3, 4), facula.ones(3), facula.zeros(3)
    for narrow in (facula.float16, facula.bfloat16):
        assert F.batch_norm(x.to(narrow), zero, one, one, zero, True).dtype is narrow
        own = [t.to(narrow) for t in (zero, one, one, zero)]
        assert F.batch_norm(x.to(narrow), *own, True).dtype is narrow
        with pytest.raises(RuntimeError, match="mixed dtype"):
            F.batch_norm(x, zero.to(narrow), one.to(narrow))
        with pytest.raises(RuntimeError, match="expect parameter to have scalar type of Float"):
            F.batch_norm(x, zero, one, one.to(narrow), zero.to(narrow), True)
    with pytest.raises(RuntimeError, match="scalar type of Double"):
        F.batch_norm(x.double(), zero, one)


def test_statistics_take_no_gradients():
    x, zero = facula.rand(2, 3, 4), facula.zeros(3)
    asks = facula.ones(3).requires_grad_()
    with pytest.raises(RuntimeError, match="with respect to argument 'running_var'"):
        F.batch_norm(x, zero, asks)
    with facula.no_grad():
        assert F.batch_norm(x, zero, asks).shape == x.shape


@pytest.mark.parametrize("size", [2.5, (2.0, 3), "ab", [None, 2]])
def test_sizes_are_whole_numbers(size):
    with pytest.raises(TypeError, match="expected size to be one of int"):
        F.interpolate(facula.rand(1, 1, 4, 4), size=size)


def test_a_loss_needs_a_dimension_of_classes():
    with pytest.raises(ValueError, match="Expected 1 or more dimensions"):
        F.nll_loss(facula.tensor(1.0), facula.tensor(0), reduction="none")


def test_instance_norm_takes_parameters_of_one_dtype():
    x, one, zero = facula.rand(2, 3, 4), facula.ones(3), facula.zeros(3)
    assert F.instance_norm(x.half(), weight=one, bias=zero).dtype is facula.float16
    with pytest.raises(RuntimeError, match="mixed dtype"):
        F.instance_norm(x, weight=one.half(), bias=zero.half())


def test_windows_and_factors_that_overflow_are_named():
    with pytest.raises(RuntimeError, match="product of kernel_width and kernel_height overflowed"):
        F.unfold(facula.rand(1, 1, 5, 5), 2**40)
    with pytest.raises(RuntimeError, match="upscale factor is too large"):
        F.pixel_shuffle(facula.rand(2, 16, 9, 3), 545460846592)


def test_a_grid_without_a_word_on_corners_warns():
    theta, x = facula.eye(2, 3).unsqueeze(0), facula.rand(1, 1, 4, 4)
    with pytest.warns(UserWarning, match="documentation of affine_grid") as heard:
        grid = F.affine_grid(theta, (1, 1, 4, 4))
    assert heard[0].filename == __file__
    assert facula.equal(grid, F.affine_grid(theta, (1, 1, 4, 4), align_corners=False))
    for _ in range(2):
        with pytest.warns(UserWarning, match="documentation of grid_sample"):
            assert facula.allclose(F.grid_sample(x, grid), x)


def test_places_of_affine_grid_are_rounded_as_in_pytorch():
    """The identity puts places on samples, where the last bit decides which side's gradient a program sees."""
    identity = facula.tensor([[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]])
    places = F.affine_grid(identity, (1, 1, 28, 28), align_corners=False)[0, 0, :, 0]
    assert places[[2, 4, 6]].tolist() == [
        -0.8214285969734192,
        -0.6785714030265808,
        -0.535714328289032,
    ]
    assert facula.equal(places, -places.flip(0))

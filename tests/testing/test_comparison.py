"""`facula.testing`: rules and messages of `torch.testing`."""

import numpy
import pytest

import facula
from facula.testing import assert_close, make_tensor

t = facula.tensor

SAME = [
    (t([1.0, 2.0]), t([1.0, 2.0 + 1e-6]), {}),
    (t([1, 2]), t([1, 2]), {}),
    (1.0, 1.0 + 1e-8, {}),
    (None, None, {}),
    (True, True, {}),
    ([t(1.0), {"a": 2}], [t(1.0), {"a": 2}], {}),
    (t([float("nan")]), t([float("nan")]), {"equal_nan": True}),
    (t([1.0]), t([1.0], dtype=facula.float64), {"check_dtype": False}),
    (t([1.0, 2.0]), t([1.1, 2.1]), {"rtol": 0, "atol": 0.2}),
    (numpy.ones(3), numpy.ones(3), {}),
    (facula.empty(0), facula.empty(0), {}),
    (float("inf"), float("inf"), {}),
]

DIFFERENT = [
    (
        t([1.0, 2.0, 3.0]),
        t([1.0, 2.0, 4.0]),
        {},
        "Tensor-likes are not close!\n\nMismatched elements: 1 / 3 (33.3%)\n"
        "Greatest absolute difference: 1.0 at index (2,) (up to 1e-05 allowed)\n"
        "Greatest relative difference: 0.25 at index (2,) (up to 1.3e-06 allowed)",
    ),
    (
        t([1, 2]),
        t([1, 4]),
        {},
        "Tensor-likes are not equal!\n\nMismatched elements: 1 / 2 (50.0%)\n"
        "Greatest absolute difference: 2 at index (1,)\n"
        "Greatest relative difference: 0.5 at index (1,)",
    ),
    (
        t([[1.0, 2.0], [3.0, 4.0]]),
        t([[1.0, 2.0], [5.0, 4.0]]),
        {"rtol": 0, "atol": 0.5},
        "Tensor-likes are not close!\n\nMismatched elements: 1 / 4 (25.0%)\n"
        "Greatest absolute difference: 2.0 at index (1, 0) (up to 0.5 allowed)\n"
        "Greatest relative difference: 0.4000000059604645 at index (1, 0) (up to 0 allowed)",
    ),
    (
        1.0,
        2.0,
        {},
        "Scalars are not close!\n\nExpected 2.0 but got 1.0.\n"
        "Absolute difference: 1.0 (up to 1e-07 allowed)\n"
        "Relative difference: 0.5 (up to 1e-07 allowed)",
    ),
    (None, 1, {}, "None mismatch: None is not 1"),
    (True, False, {}, "Booleans mismatch: True is not False"),
    ([1], [1, 2], {}, "The length of the sequences mismatch: 1 != 2"),
    (
        {"a": 1},
        {"b": 1},
        {},
        "The keys of the mappings do not match:\nMissing keys in the actual mapping: ['b']\n"
        "Additional keys in the actual mapping: ['a']",
    ),
    (
        [1, {"k": t(1)}],
        [1, {"k": t(2)}],
        {},
        "Scalars are not equal!\n\nExpected 2 but got 1.\nAbsolute difference: 1\n"
        "Relative difference: 0.5\n\nThe failure occurred for item [1]['k']",
    ),
    (
        t([1.0]),
        t([1.0], dtype=facula.float64),
        {},
        "The values for attribute 'dtype' do not match: facula.float32 != facula.float64.",
    ),
    (
        t([1.0]),
        t([1.0, 2.0]),
        {},
        "The values for attribute 'shape' do not match: facula.Size([1]) != facula.Size([2]).",
    ),
    (
        facula.ones(2, 3),
        facula.ones(3, 2).t(),
        {"check_stride": True},
        "The values for attribute 'stride()' do not match: (3, 1) != (1, 2).",
    ),
    (t([1.0]), t([2.0]), {"msg": "mine"}, "mine"),
]


@pytest.mark.parametrize(("actual", "expected", "options"), SAME)
def test_same(actual, expected, options):
    assert_close(actual, expected, **options)


@pytest.mark.parametrize(("actual", "expected", "options", "text"), DIFFERENT)
def test_different(actual, expected, options, text):
    with pytest.raises(AssertionError) as caught:
        assert_close(actual, expected, **options)
    assert str(caught.value) == text


def test_message_function():
    with pytest.raises(AssertionError, match="^seen: None mismatch"):
        assert_close(None, 1, msg=lambda text: "seen: " + text)


def test_one_tolerance_alone():
    with pytest.raises(ValueError, match="got no atol"):
        assert_close(1.0, 1.0, rtol=0.1)


@pytest.mark.parametrize("pair", [(1.0, t(1.0)), ("a", "a"), (True, 1)])
def test_values_that_cannot_be_compared(pair):
    with pytest.raises(TypeError, match="No comparison pair"):
        assert_close(*pair)


DTYPES = "float32 float64 float16 bfloat16 int64 int32 int8 uint8 bool complex64 complex128".split()


@pytest.mark.parametrize("name", DTYPES)
@pytest.mark.parametrize("noncontiguous", [False, True])
def test_made_tensors(name, noncontiguous):
    dtype = getattr(facula, name)
    made = make_tensor(3, 5, dtype=dtype, noncontiguous=noncontiguous, exclude_zero=True)
    assert made.shape == (3, 5) and made.dtype == dtype
    assert made.is_contiguous() is not noncontiguous
    assert bool((made != 0).all())


def test_bounds():
    made = make_tensor((1000,), dtype=facula.float32, low=-1, high=2)
    assert -1 <= made.min().item() and made.max().item() < 2
    whole = make_tensor((1000,), dtype=facula.int64, low=3, high=5)
    assert set(whole.tolist()) == {3, 4}
    with pytest.raises(ValueError, match="less than"):
        make_tensor(3, dtype=facula.float32, low=2, high=1)
    with pytest.raises(ValueError, match="requires_grad"):
        make_tensor(3, dtype=facula.int64, requires_grad=True)

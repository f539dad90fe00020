"""Quantized tensors: integers against NumPy, what operators do with them, files, and every error."""

import copy
import io
import pickle

import numpy as np
import pytest

import facula

RANGES = {"quint8": (0, 255), "qint8": (-128, 127)}


def levels(x, scale, zero, low, high):
    inverse = np.float32(1) / np.float32(scale)
    return np.clip(np.rint(x * inverse) + zero, low, high).astype("int64")


@pytest.fixture
def numbers():
    return np.random.default_rng(5)


@pytest.mark.parametrize("name", RANGES)
def test_integers_are_the_nearest_levels(numbers, name):
    low, high = RANGES[name]
    x = (numbers.standard_normal((37, 65)) * 3).astype("float32")
    q = facula.quantize_per_tensor(facula.from_numpy(x), 0.037, 11, getattr(facula, name))
    want = levels(x, 0.037, 11, low, high)
    assert (q.int_repr().numpy() == want).all()
    back = (want - 11).astype("float32") * np.float32(0.037)
    assert (q.dequantize().numpy() == back).all()
    assert q.q_scale() == 0.037 and q.q_zero_point() == 11
    assert q.qscheme() is facula.per_tensor_affine and q.is_quantized


@pytest.mark.parametrize("axis", (0, 1, 2))
def test_channels_have_scales_of_their_own(numbers, axis):
    x = numbers.standard_normal((4, 5, 6)).astype("float32")
    count = x.shape[axis]
    scales, zeros = numbers.uniform(0.01, 0.1, count), numbers.integers(-5, 5, count)
    parameters = facula.from_numpy(scales), facula.from_numpy(zeros)
    q = facula.quantize_per_channel(facula.from_numpy(x), *parameters, axis, facula.qint8)
    shape = [1, 1, 1]
    shape[axis] = count
    inverse = np.float32(1) / scales.astype("float32").reshape(shape)
    want = np.clip(np.rint(x * inverse) + zeros.reshape(shape), -128, 127)
    assert (q.int_repr().numpy() == want).all()
    assert q.q_per_channel_axis() == axis
    assert (q.q_per_channel_scales().numpy() == scales).all()
    assert (q.q_per_channel_zero_points().numpy() == zeros).all()


def test_ties_are_even_after_the_zero_point_was_added():
    """PyTorch 2.13 gives these: 0.5 + 3 lies between 3 and 4, 0.5 + 2 between 2 and 3."""
    x = facula.tensor([0.5, 1.5, 2.5, -0.5])
    for dtype in (facula.quint8, facula.qint8, facula.qint32):
        assert facula.quantize_per_tensor(x, 1.0, 3, dtype).int_repr().tolist() == [4, 4, 6, 2]
        rows, zeros = x.repeat(2, 1), facula.tensor([3, 2])
        found = facula.quantize_per_channel(rows, facula.ones(2), zeros, 0, dtype).int_repr()
        assert found.tolist() == [[4, 4, 6, 2], [2, 4, 4, 2]]


def test_nan_becomes_the_lowest_level_and_infinities_the_ends():
    x = facula.tensor([float("nan"), float("inf"), -float("inf")])
    q = facula.quantize_per_tensor(x, 0.1, 3, facula.quint8)
    assert q.int_repr().tolist() == [0, 255, 0]


def test_the_range_of_the_numbers_decides_dynamic_parameters(numbers):
    x = numbers.uniform(-1, 3, 100).astype("float32")
    q = facula.quantize_per_tensor_dynamic(facula.from_numpy(x), facula.quint8, False)
    scale = (float(x.max()) - float(x.min())) / 255
    assert abs(q.q_scale() - scale) < 1e-12
    assert q.q_zero_point() == round(-float(x.min()) / scale)
    half = facula.quantize_per_tensor_dynamic(facula.from_numpy(x), facula.quint8, True)
    assert half.int_repr().max() <= 127


def test_lists_are_quantized_each_by_its_parameters():
    x = facula.ones(3)
    scales, zeros = facula.tensor([0.1, 0.5]), facula.tensor([1, 2])
    a, b = facula.quantize_per_tensor([x, x], scales, zeros, facula.quint8)
    assert a.int_repr().tolist() == [11] * 3 and b.int_repr().tolist() == [4] * 3


def test_half_bytes_share_a_byte():
    x = facula.ones(2, 4)
    q = facula.quantize_per_channel(
        x, facula.tensor([0.1, 0.2]), facula.tensor([0.0, 1.0]), 0, facula.quint4x2
    )
    assert q.int_repr().tolist() == [170, 170, 102, 102]
    assert q.qscheme() is facula.per_channel_affine_float_qparams


@pytest.fixture
def small():
    x = facula.tensor([[1.0, 2.0], [3.0, -1.0]])
    return facula.quantize_per_tensor(x, 0.1, 10, facula.quint8)


def test_printing(small):
    assert repr(small) == (
        "tensor([[ 1.,  2.],\n        [ 3., -1.]], size=(2, 2), dtype=facula.quint8,\n"
        "       quantization_scheme=facula.per_tensor_affine, scale=0.1, zero_point=10)"
    )


VIEWS = {
    "t": lambda x: x.t(),
    "view": lambda x: x.view(-1),
    "select": lambda x: x[1],
    "slice": lambda x: x[:, ::2],
    "unsqueeze": lambda x: x.unsqueeze(0),
    "flatten": lambda x: x.flatten(),
    "sort": lambda x: x.sort(1)[0],
    "max": lambda x: x.max(),
    "flip": lambda x: x.flip(0),
    "cat": lambda x: facula.cat([x, x]),
    "stack": lambda x: facula.stack([x, x]),
    "clone": lambda x: x.clone(),
    "relu": lambda x: x.relu(),
    "clamp": lambda x: x.clamp(0, 1),
    "chunk": lambda x: x.chunk(2)[1],
    "split": lambda x: x.split(1)[0],
    "repeat": lambda x: x.repeat(2, 2),
    "pool": lambda x: facula.nn.functional.max_pool2d(x[None], 2),
    "index": lambda x: x[facula.tensor([1, 0])],
}


@pytest.mark.parametrize("name", VIEWS)
def test_moving_elements_keeps_scale_and_zero_point(small, name):
    made, want = VIEWS[name](small), VIEWS[name](small.dequantize())
    assert made.is_quantized and made.q_scale() == 0.1 and made.q_zero_point() == 10
    assert made.dequantize().tolist() == want.tolist()


def test_views_share_memory(small):
    row = small[0]
    row[1] = 5.0
    assert small.int_repr().tolist() == [[20, 60], [40, 0]]


def test_questions_are_asked_of_the_numbers(small):
    assert (small == small).all() and small.ge(1.0).tolist() == [[True, True], [True, False]]
    assert facula.equal(small, small.clone())
    other = facula.quantize_per_tensor(small.dequantize(), 0.1, 11, facula.quint8)
    assert not facula.equal(small, other)


@pytest.mark.parametrize("name", ("sigmoid", "tanh", "hardsigmoid"))
def test_functions_with_a_range_of_their_own(small, name):
    function = getattr(facula, name, None) or getattr(facula.nn.functional, name)
    made = function(small)
    want = levels(function(small.dequantize()).numpy(), made.q_scale(), made.q_zero_point(), 0, 255)
    assert (made.int_repr().numpy() == want).all()


def test_parts_of_channels():
    x, scales = facula.ones(3, 2), facula.tensor([0.1, 0.2, 0.5])
    q = facula.quantize_per_channel(x, scales, facula.tensor([0, 1, 2]), 0, facula.qint8)
    assert q[1].q_scale() == pytest.approx(0.2) and q[1].q_zero_point() == 1
    assert q[1:].q_per_channel_zero_points().tolist() == [1, 2]
    assert q[:, 0].q_per_channel_axis() == 0
    with pytest.raises(RuntimeError, match="Setting strides is possible only on uniformly"):
        q.t()


def test_copies_and_files(small):
    x, scales = facula.ones(3, 2), facula.tensor([0.1, 0.2, 0.5])
    channels = facula.quantize_per_channel(x, scales, facula.tensor([0, 1, 2]), 0, facula.qint8)
    four = facula.quantize_per_channel(x, scales, facula.tensor([0.0, 1, 2]), 0, facula.quint4x2)
    for q in (small, small.t(), channels, four):
        stream = io.BytesIO()
        facula.save({"q": q, "dtype": q.dtype, "scheme": q.qscheme()}, stream)
        stream.seek(0)
        found = facula.load(stream)
        assert found["dtype"] is q.dtype and found["scheme"] is q.qscheme()
        for other in (copy.deepcopy(q), pickle.loads(pickle.dumps(q)), found["q"]):
            assert facula.equal(q, other) and other.qscheme() is q.qscheme()


def test_a_cut_file_is_refused(small):
    stream = io.BytesIO()
    facula.save(small, stream)
    with pytest.raises(RuntimeError):
        facula.load(io.BytesIO(stream.getvalue()[:-200]))


ONES = facula.ones(2, 3)
ERRORS = {
    "scale 0": (lambda: facula.quantize_per_tensor(ONES, 0.0, 0, facula.quint8), "finite scale"),
    "scale nan": (
        lambda: facula.quantize_per_tensor(ONES, float("nan"), 0, facula.quint8),
        "finite scale",
    ),
    "scale inf": (
        lambda: facula.quantize_per_tensor(ONES, float("inf"), 0, facula.quint8),
        "finite scale",
    ),
    "below": (
        lambda: facula.quantize_per_tensor(ONES, 0.1, -1, facula.quint8),
        "zero_point -1 is below lower bound",
    ),
    "above": (
        lambda: facula.quantize_per_tensor(ONES, 0.1, 256, facula.quint8),
        "zero_point 256 is above upper bound",
    ),
    "dtype": (
        lambda: facula.quantize_per_tensor(ONES, 0.1, 0, facula.uint8),
        "ScalarType Byte is not supported",
    ),
    "double": (
        lambda: facula.quantize_per_tensor(ONES.double(), 0.1, 0, facula.quint8),
        "only works on Float Tensor, got Double",
    ),
    "channels": (
        lambda: facula.quantize_per_channel(
            ONES, facula.ones(3), facula.zeros(3, dtype=facula.int64), 0, facula.quint8
        ),
        "length of scales must equal to channel, expected 2",
    ),
    "axis": (
        lambda: facula.quantize_per_channel(
            ONES, facula.ones(3), facula.zeros(3, dtype=facula.int64), 2, facula.quint8
        ),
        "axis out of range",
    ),
    "not finite": (
        lambda: facula.quantize_per_tensor_dynamic(ONES / 0, facula.quint8, False),
        "finite numbers were required",
    ),
    "no numbers": (lambda: facula.zeros(2, dtype=facula.quint8), "plain tensors"),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors(name):
    call, text = ERRORS[name]
    with pytest.raises(RuntimeError, match=text):
        call()


def test_what_quantized_tensors_do_not_have(small):
    with pytest.raises(NotImplementedError, match="Could not run 'aten::add'.*QuantizedCPU"):
        small + small
    with pytest.raises(NotImplementedError, match="'aten::int_repr' with arguments from the 'CPU'"):
        facula.ones(2).int_repr()
    with pytest.raises(RuntimeError, match="quantized by channels was required"):
        small.q_per_channel_axis()
    with pytest.raises(RuntimeError, match="please use dequantize"):
        facula.ones(2, 2).copy_(small)
    assert facula.ones(2).dequantize().tolist() == [1.0, 1.0]


def test_places_that_are_chosen_by_tensors_are_written():
    x = np.zeros((3, 3), dtype="float32")
    q = facula.quantize_per_tensor(facula.tensor(x), 0.5, 10, facula.quint8)
    rows, columns = [0, 2], [1, 2]
    q[facula.tensor(rows), facula.tensor(columns)] = facula.tensor([2.5, 1000.0])
    x[rows, columns] = [2.5, (255 - 10) * 0.5]
    np.testing.assert_array_equal(q.dequantize().numpy(), x)
    q[q.dequantize() > 3] = 1.0
    q[1] = facula.tensor([3.0])
    x[x > 3], x[1] = 1.0, 3.0
    np.testing.assert_array_equal(q.dequantize().numpy(), x)
    q.masked_fill_(facula.tensor([True, False, False]), -1.0)
    x[:, 0] = -1.0
    np.testing.assert_array_equal(q.dequantize().numpy(), x)
    other = facula.quantize_per_tensor(facula.tensor([2.0, 4.0, 6.0]), 2.0, 0, facula.quint8)
    q[0] = other  # by the numbers, not by the integers
    assert q[0].dequantize().tolist() == [2.0, 4.0, 6.0]


def test_sums_and_joined_tensors_into_others():
    a = facula.quantize_per_tensor(facula.tensor([1.0, -2.0]), 0.5, 20, facula.quint8)
    out = facula._empty_affine_quantized([2], scale=0.25, zero_point=30, dtype=facula.quint8)
    facula.ops.quantized.add(a, a, out=out)
    assert out.dequantize().tolist() == [2.0, -4.0] and out.q_scale() == 0.25
    out = facula._empty_affine_quantized([4], scale=0.25, zero_point=30, dtype=facula.quint8)
    facula.ops.quantized.cat_relu_out([a, a], 0, out)
    assert out.dequantize().tolist() == [1.0, 0.0, 1.0, 0.0]


@pytest.mark.parametrize(
    "dtype, packed", [(facula.quint4x2, [51, 51, 3]), (facula.quint2x4, [255, 3])]
)
def test_integers_of_few_bits_share_bytes(dtype, packed):
    q = facula.quantize_per_tensor(facula.ones(1, 5), 1.0, 2, dtype)
    assert q.int_repr().flatten().tolist() == packed
    assert q.dequantize().tolist() == [[1.0] * 5]


def test_channels_move_when_a_dimension_goes():
    scales, zeros = facula.tensor([1.0, 0.5]), facula.tensor([0, 1])
    q = facula.quantize_per_channel(facula.ones(3, 1, 2), scales, zeros, 2, facula.quint8)
    assert q.squeeze(1).q_per_channel_axis() == 1 and q.squeeze().shape == (3, 2)
    one = facula.quantize_per_channel(facula.ones(1, 2), scales[:1], zeros[:1], 0, facula.quint8)
    with pytest.raises(RuntimeError, match="non-axis dimension"):
        one.squeeze(0)


@pytest.mark.parametrize("name", ["gelu", "std"])
def test_functions_keep_the_range(name):
    x = facula.linspace(0.0, 3.0, 12)
    q = facula.quantize_per_tensor(x, 0.1, 5, facula.quint8)
    function = facula.nn.functional.gelu if name == "gelu" else facula.std
    made, wanted = function(q), function(q.dequantize()).numpy()
    np.testing.assert_allclose(made.dequantize().numpy(), np.rint(wanted / 0.1) * 0.1, atol=1e-5)
    assert not facula.equal(q, x)


def test_rows_and_groups_have_parameters_of_their_own():
    ops = facula.ops.quantized_decomposed
    x = facula.tensor([[0.0, 2.55], [-1.0, 0.275]])
    scales, zeros = ops.choose_qparams_per_token_asymmetric(x, facula.int8)
    np.testing.assert_allclose(scales.numpy()[:, 0], [0.01, 0.005], rtol=1e-6)
    assert zeros.flatten().tolist() == [-128, 72]
    q = ops.quantize_per_token(x, scales, zeros, -128, 127, facula.int8)
    assert q.tolist() == [[-128, 127], [-128, 127]]
    numbers = ops.dequantize_per_token(q, scales, zeros, -128, 127, facula.int8, facula.float32)
    np.testing.assert_allclose(numbers.numpy(), x.numpy(), atol=1e-6)
    steps, zeros = facula.tensor([[0.5, 0.25]]), facula.zeros(1, 2, dtype=facula.int32)
    x = facula.tensor([[1.0, 9.0, 1.0, -9.0]])
    q = ops.quantize_per_channel_group(x, steps, zeros, -8, 7, facula.int8, 2)
    assert q.tolist() == [[2, 7, 4, -8]]
    with pytest.raises(AssertionError, match="groups of 3"):
        ops.quantize_per_channel_group(x, steps, zeros, -8, 7, facula.int8, 3)
    with pytest.raises(AssertionError, match="for each of 1 rows"):
        ops.quantize_per_token(x, steps, zeros, -8, 7, facula.int8)


@pytest.mark.parametrize(
    "piece",
    [
        (...,),
        (..., slice(None, None, 2)),
        (slice(None), slice(1, None)),
        (slice(None), slice(None), slice(1, None)),
    ],
)
@pytest.mark.parametrize("dtype", [facula.quint8, facula.qint32])
def test_pieces_of_images_that_lie_channels_last(piece, dtype):
    numbers = np.random.default_rng(0).normal(size=(2, 4, 6, 5)).astype("float32")
    images = facula.tensor(numbers).contiguous(memory_format=facula.channels_last)[piece]
    made = facula.quantize_per_tensor(images, 0.5, 100, dtype)
    wanted = np.round(numbers[piece] / 0.5) + 100
    assert np.array_equal(made.int_repr().numpy(), wanted)
    assert np.array_equal(made.flip(3).dequantize().numpy(), (wanted[..., ::-1] - 100) * 0.5)

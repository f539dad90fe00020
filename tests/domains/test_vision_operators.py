"""Operators on boxes and regions: values against loops, gradients against differences, batches, meta, compiled."""

import itertools
import math

import numpy
import pytest

import facula
from facula.domains.vision import images
from facula.vision import definitions

OPS = facula.ops.torchvision
RNG = numpy.random.default_rng(3)


def tensor(values, dtype="float64"):
    return facula.tensor(numpy.asarray(values, dtype=dtype))


def boxes(count, side=40.0):
    corner = RNG.uniform(0, side, (count, 2))
    return numpy.concatenate([corner, corner + RNG.uniform(1, 20, (count, 2))], 1)


def share(a, b):
    w = max(min(a[2], b[2]) - max(a[0], b[0]), 0)
    h = max(min(a[3], b[3]) - max(a[1], b[1]), 0)
    areas = [(x[2] - x[0]) * (x[3] - x[1]) for x in (a, b)]
    return w * h / (sum(areas) - w * h)


def best_boxes(given, scores, threshold):
    left, kept = list(numpy.argsort(-scores, kind="stable")), []
    while left:
        first = left.pop(0)
        kept.append(int(first))
        left = [i for i in left if not share(given[first], given[i]) > threshold]
    return kept


@pytest.mark.parametrize("count", [0, 1, 17, 130])
@pytest.mark.parametrize("threshold", [0.0, 0.3, 0.7])
def test_boxes_that_better_ones_overlap_are_left_out(count, threshold):
    given, scores = boxes(count), RNG.permutation(count) / max(count, 1)
    assert OPS.nms(tensor(given), tensor(scores), threshold).tolist() == best_boxes(
        given, scores, threshold
    )


def test_equal_scores_keep_their_order_and_a_box_on_the_threshold_stays():
    given = [[0, 0, 2, 2], [0, 0, 2, 1], [5, 5, 6, 6]]
    assert OPS.nms(tensor(given), tensor([1, 1, 1]), 0.5).tolist() == [0, 1, 2]
    assert OPS.nms(tensor(given), tensor([1, 1, 1]), 0.49).tolist() == [0, 2]


def pixel(plane, y, x):
    """A bilinear sample of [C, H, W]; zeros beyond one pixel outside."""
    height, width = plane.shape[1:]
    if y < -1 or y > height or x < -1 or x > width:
        return numpy.zeros(len(plane))
    y, x = min(max(y, 0), height - 1), min(max(x, 0), width - 1)
    top, left = int(y), int(x)
    low, right = min(top + 1, height - 1), min(left + 1, width - 1)
    dy, dx = y - top, x - left
    up = plane[:, top, left] * (1 - dx) + plane[:, top, right] * dx
    down = plane[:, low, left] * (1 - dx) + plane[:, low, right] * dx
    return up * (1 - dy) + down * dy


def aligned_bin(plane, region, bins, at, samples, shift, least):
    sizes, starts = [], []
    for axis in (0, 1):
        begin, end = region[2 - axis] - shift, region[4 - axis] - shift
        sizes.append(max(end - begin, least) / bins[axis])
        starts.append(begin + at[axis] * sizes[axis])
    count = [samples or math.ceil(size) for size in sizes]
    values = [
        pixel(
            plane,
            starts[0] + (i + 0.5) * sizes[0] / count[0],
            starts[1] + (j + 0.5) * sizes[1] / count[1],
        )
        for i in range(count[0])
        for j in range(count[1])
    ]
    return sum(values) / len(values)


MAPS = RNG.standard_normal((2, 8, 9, 11))
REGIONS = numpy.array(
    [[0, 0.3, 1.2, 7.7, 8.1], [1, -3, -2, 14, 12], [1, 4.5, 3.5, 5.0, 4.0], [0, 2, 2, 2.2, 2.1]]
)


@pytest.mark.parametrize("aligned", [False, True])
@pytest.mark.parametrize("samples", [0, 1, 3])
def test_roi_align_is_the_mean_of_samples(aligned, samples):
    scale, size = 0.75, (2, 3)
    found = OPS.roi_align(tensor(MAPS), tensor(REGIONS), scale, *size, samples, aligned).numpy()
    for k, region in enumerate(REGIONS):
        scaled = [region[0], *(region[1:] * scale)]
        for at in itertools.product(range(2), range(3)):
            settings = (0.5 if aligned else 0, 0 if aligned else 1)
            wanted = aligned_bin(MAPS[int(region[0])], scaled, size, at, samples, *settings)
            numpy.testing.assert_allclose(found[k, :, at[0], at[1]], wanted, rtol=1e-9, atol=1e-12)


def test_ps_roi_align_takes_each_bin_from_its_own_channel():
    found, sources = OPS.ps_roi_align(tensor(MAPS), tensor(REGIONS[:3]), 1.0, 2, 2, 2)
    for k, region in enumerate(REGIONS[:3]):
        for at in itertools.product(range(2), range(2)):
            wanted = aligned_bin(MAPS[int(region[0])], region, (2, 2), at, 2, 0.5, -math.inf)
            for c in range(2):
                source = (c * 2 + at[0]) * 2 + at[1]
                assert sources[k, c, at[0], at[1]] == source
                numpy.testing.assert_allclose(found[k, c, at[0], at[1]], wanted[source], rtol=1e-9)


def test_roi_pool_is_the_largest_of_whole_pixels():
    region = numpy.array([[1.0, 1.2, 2.6, 8.9, 7.4], [0, 3, 3, 3, 3], [0, 50, 50, 60, 60]])
    found, where = OPS.roi_pool(tensor(MAPS), tensor(region), 1.0, 2, 3)
    part = MAPS[1][:, 3:8, 1:10]  # rounded corners, the last pixel with them
    for i, (top, low) in enumerate([(0, 3), (2, 5)]):
        for j, (left, right) in enumerate([(0, 3), (3, 6), (6, 9)]):
            wanted = part[:, top:low, left:right].max((1, 2))
            numpy.testing.assert_array_equal(found[0, :, i, j], wanted)
            flat = MAPS[1].reshape(8, -1)
            places = where[0, :, i, j].numpy()
            numpy.testing.assert_array_equal(flat[numpy.arange(8), places], wanted)
    assert found[2].abs().sum() == 0 and (where[2] == -1).all()


def test_ps_roi_pool_is_the_mean_of_each_bins_own_plane():
    region = numpy.array([[0.0, 1, 2, 5, 6]])
    found = OPS.ps_roi_pool(tensor(MAPS), tensor(region), 1.0, 2, 2)[0].numpy()
    for c, i, j in itertools.product(range(2), range(2), range(2)):
        plane = MAPS[0, (c * 2 + i) * 2 + j]
        wanted = plane[2 + 2 * i : 4 + 2 * i, 1 + 2 * j : 3 + 2 * j].mean()
        numpy.testing.assert_allclose(found[0, c, i, j], wanted, rtol=1e-12)


def deformed(x, weight, offset, mask, bias, stride, padding, dilation, groups, offset_groups):
    """A deformable convolution, place by place."""
    images, channels, height, width = x.shape
    outputs, deep, kh, kw = weight.shape
    oh, ow = offset.shape[2:]
    out = numpy.zeros((images, outputs, oh, ow))

    def at(plane, y, xx):
        total, top, left = 0.0, math.floor(y), math.floor(xx)
        for yy, xxx in itertools.product((top, top + 1), (left, left + 1)):
            if 0 <= yy < height and 0 <= xxx < width:
                total += plane[yy, xxx] * (1 - abs(y - yy)) * (1 - abs(xx - xxx))
        return total

    for n, o, i, j in itertools.product(range(images), range(outputs), range(oh), range(ow)):
        out[n, o, i, j] = bias[o]
        for c, k, m in itertools.product(range(deep), range(kh), range(kw)):
            channel, tap = o // (outputs // groups) * deep + c, k * kw + m
            group = channel // (channels // offset_groups)
            shift = offset[n, (group * kh * kw + tap) * 2 :, i, j]
            y = i * stride[0] - padding[0] + k * dilation[0] + shift[0]
            xx = j * stride[1] - padding[1] + m * dilation[1] + shift[1]
            factor = 1 if mask is None else mask[n, group * kh * kw + tap, i, j]
            out[n, o, i, j] += weight[o, c, k, m] * factor * at(x[n, channel], y, xx)
    return out


SETTINGS = [
    ((1, 1), (1, 1), (1, 1), 1, 1, True),
    ((2, 1), (1, 0), (1, 2), 2, 2, True),
    ((1, 2), (0, 2), (2, 1), 2, 4, False),
]


def deform_arguments(stride, padding, dilation, groups, offset_groups, masked):
    shape = [
        (s + 2 * p - d * (k - 1) - 1) // t + 1
        for s, p, d, k, t in zip((6, 7), padding, dilation, (3, 2), stride, strict=True)
    ]
    x, weight = RNG.standard_normal((2, 4, 6, 7)), RNG.standard_normal((4, 4 // groups, 3, 2))
    offset = RNG.standard_normal((2, 12 * offset_groups, *shape)) * 1.5
    mask = RNG.random((2, 6 * offset_groups, *shape)) if masked else None
    return x, weight, offset, mask, RNG.standard_normal(4)


@pytest.mark.parametrize("settings", SETTINGS)
def test_deform_conv2d_is_a_sum_of_displaced_samples(settings):
    x, weight, offset, mask, bias = deform_arguments(*settings)
    stride, padding, dilation, groups, offset_groups, masked = settings
    given = tensor(mask) if masked else tensor([[0.0]] * 2)
    numbers = (*stride, *padding, *dilation, groups, offset_groups, masked)
    found = OPS.deform_conv2d(
        tensor(x), tensor(weight), tensor(offset), given, tensor(bias), *numbers
    )
    wanted = deformed(x, weight, offset, mask, bias, *settings[:5])
    numpy.testing.assert_allclose(found.numpy(), wanted, rtol=1e-9, atol=1e-11)


def leaf(values):
    return tensor(values).requires_grad_()


@pytest.mark.parametrize(
    "call",
    [
        lambda x, r: OPS.roi_align(x, r, 0.7, 2, 3, 2, True),
        lambda x, r: OPS.roi_align(x, r, 0.7, 2, 3, 0, False),
        lambda x, r: OPS.ps_roi_align(x, r, 0.7, 2, 2, 2)[0],
        lambda x, r: OPS.ps_roi_pool(x, r, 0.7, 2, 2)[0],
        lambda x, r: OPS.roi_pool(x, r, 0.7, 2, 2)[0],
    ],
)
def test_gradients_of_regions_are_differences(call):
    x, regions = leaf(MAPS[:, :4, :6, :7]), tensor(REGIONS)
    assert facula.autograd.gradcheck(lambda v: call(v, regions), (x,))


def test_roi_align_has_second_gradients():
    x, regions = leaf(MAPS[:, :2, :5, :5]), tensor(REGIONS)
    assert facula.autograd.gradgradcheck(
        lambda v: OPS.roi_align(v, regions, 0.5, 2, 2, 2, True) ** 2, (x,)
    )


@pytest.mark.parametrize("settings", SETTINGS)
def test_gradients_of_deform_conv2d_are_differences(settings):
    x, weight, offset, mask, bias = deform_arguments(*settings)
    numbers = (*settings[0], *settings[1], *settings[2], *settings[3:])
    given = [leaf(a) for a in (x, weight, offset, bias)]
    factor = leaf(mask) if mask is not None else tensor([[0.0]] * 2)
    more = (factor,) if mask is not None else ()

    def call(x, weight, offset, bias, factor=factor):
        return OPS.deform_conv2d(x, weight, offset, factor, bias, *numbers)

    assert facula.autograd.gradcheck(call, (*given, *more))


def test_images_of_a_batch_go_through_in_parts(monkeypatch):
    x, weight, offset, mask, bias = (tensor(a) for a in deform_arguments(*SETTINGS[0]))
    numbers = (1, 1, 1, 1, 1, 1, 1, 1, True)
    whole = OPS.deform_conv2d(x, weight, offset, mask, bias, *numbers)
    monkeypatch.setattr(definitions.deform, "_PART", 1)
    assert OPS.deform_conv2d(x, weight, offset, mask, bias, *numbers).equal(whole)


def test_batches_are_those_of_single_calls():
    maps, regions = tensor(RNG.standard_normal((3, *MAPS.shape))), tensor(REGIONS)
    shifted = facula.stack([regions, regions * facula.tensor([1, 1, 0.5, 1, 1]), regions])
    for call in (
        lambda x, r: OPS.roi_align(x, r, 0.5, 2, 2, 2, True),
        lambda x, r: OPS.roi_pool(x, r, 0.5, 2, 2)[0],
        lambda x, r: OPS.ps_roi_align(x, r, 0.5, 2, 2, 2)[0],
    ):
        one = facula.vmap(call, (0, None))(maps, regions)
        both = facula.vmap(call)(maps, shifted)
        for i in range(3):
            assert facula.allclose(one[i], call(maps[i], regions))
            assert facula.allclose(both[i], call(maps[i], shifted[i]))


def test_batches_of_deform_conv2d():
    x, weight, offset, mask, bias = (tensor(a) for a in deform_arguments(*SETTINGS[0]))
    numbers = (1, 1, 1, 1, 1, 1, 1, 1, True)

    def call(x, weight, offset):
        return OPS.deform_conv2d(x, weight, offset, mask, bias, *numbers)

    xs, weights = facula.stack([x, x * 2]), facula.stack([weight, weight - 1])
    for dims, given in (
        ((0, None, None), (xs, weight, offset)),
        ((0, 0, None), (xs, weights, offset)),
    ):
        found = facula.vmap(call, dims)(*given)
        for i in range(2):
            parts = [a if d is None else a[i] for a, d in zip(given, dims, strict=True)]
            assert facula.allclose(found[i], call(*parts))


def test_without_data_there_are_shapes():
    maps = facula.empty(2, 8, 9, 11, device="meta")
    regions = facula.empty(4, 5, device="meta")
    assert OPS.roi_align(maps, regions, 1.0, 3, 2, 2, True).shape == (4, 8, 3, 2)
    assert OPS.ps_roi_pool(maps, regions, 1.0, 2, 2)[0].shape == (4, 2, 2, 2)
    assert OPS.roi_pool(maps, regions, 1.0, 2, 2)[1].dtype == facula.int32


def test_compiled_and_plain_are_equal():
    def run(x, regions):
        return OPS.roi_align(x * 2, regions, 0.5, 2, 2, 2, True).relu().sum((0, 2))

    x, regions = tensor(MAPS, "float32"), tensor(REGIONS, "float32")
    assert facula.allclose(facula.compile(run)(x, regions), run(x, regions))


def test_half_precision_is_rounded_once():
    regions = tensor(REGIONS, "float32")
    maps = tensor(MAPS, "float32").half()
    found = OPS.roi_align(maps, regions.half(), 1.0, 2, 2, 2, True)
    wanted = OPS.roi_align(maps.float(), regions.half().float(), 1.0, 2, 2, 2, True)
    assert found.equal(wanted.half())


def test_no_thread_count_changes_a_result():
    x, regions = leaf(MAPS), tensor(REGIONS)
    before, results = facula.get_num_threads(), []
    for threads in (1, 2):
        facula.set_num_threads(threads)
        out = OPS.roi_align(x, regions, 0.9, 3, 3, 2, True)
        results.append((out, facula.autograd.grad(out.sin().sum(), x)[0]))
    facula.set_num_threads(before)
    assert results[0][0].equal(results[1][0]) and results[0][1].equal(results[1][1])


def test_rotated_boxes_overlap_by_their_common_part():
    a = tensor([[0, 0, 2, 2, 0], [0, 0, 2, 2, 45], [5, 5, 1, 1, 0]])
    found = OPS.box_iou_rotated(a, a).numpy()
    octagon = 8 * (math.sqrt(2) - 1)  # two squares of side 2, one turned by 45 degrees
    wanted = [[1, octagon / (8 - octagon), 0], [octagon / (8 - octagon), 1, 0], [0, 0, 1]]
    numpy.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: OPS.nms(tensor(numpy.zeros((2, 5))), tensor([1, 2]), 0.5),
            "boxes should be a 2d tensor",
        ),
        (
            lambda: OPS.nms(tensor(numpy.zeros((2, 4))), tensor([1]), 0.5),
            "a score for each of 2 boxes",
        ),
        (
            lambda: OPS.roi_align(tensor(MAPS), tensor([[1, 2, 3, 4]]), 1.0, 2, 2, 2, True),
            r"Tensor\[K, 5\]",
        ),
        (
            lambda: OPS.roi_align(tensor(MAPS), tensor([[2, 0, 0, 1, 1]]), 1.0, 2, 2, 2, True),
            "images 0 to 1",
        ),
        (
            lambda: OPS.roi_align(tensor(MAPS), tensor([[-1, 0, 0, 1, 1]]), 1.0, 2, 2, 2, True),
            "images 0 to 1",
        ),
        (lambda: OPS.roi_pool(tensor(MAPS), tensor(REGIONS, "float32"), 1.0, 2, 2), "same type"),
        (
            lambda: OPS.ps_roi_pool(tensor(MAPS), tensor(REGIONS), 1.0, 3, 3),
            "multiple of pooling height",
        ),
    ],
)
def test_what_does_not_fit_is_refused(call, message):
    with pytest.raises(RuntimeError, match=message):
        call()


def test_a_compiled_library_that_is_served_loads_and_others_do_not(tmp_path):
    folder = tmp_path / "torchvision"
    folder.mkdir()
    facula.ops.load_library(folder / "_C.so")
    facula.library.register_fake("torchvision::nms", lambda *a: None)  # has nothing to add
    with pytest.raises(OSError, match="library of operators"):
        facula.ops.load_library(tmp_path / "other" / "_C.so")


ONE_REGION = [[0.0, 1, 1, 3, 3]]


@pytest.mark.parametrize("image", [1.0, 1e6, -1.0, math.inf, math.nan])
@pytest.mark.parametrize(
    ("operator", "more"),
    [
        ("_roi_align_backward", (2, False)),
        ("_ps_roi_align_backward", (2,)),
        ("_roi_pool_backward", ()),
        ("_ps_roi_pool_backward", ()),
    ],
)
def test_gradients_are_written_to_images_that_exist_only(operator, more, image):
    where = facula.zeros(1, 4, 2, 2, dtype=facula.int32)
    grad = facula.ones(1, 1 if "_ps_" in operator else 4, 2, 2)
    rois = facula.tensor([[image, 1, 1, 3, 3]])
    given = (grad, rois) if operator == "_roi_align_backward" else (grad, rois, where)
    if "_ps_" in operator:
        given = (grad, rois, where[:, :1])
    settings = (
        (1.0, 2, 2, *more, 1, 4, 5, 6)
        if "_ps_roi_align" in operator
        else (1.0, 2, 2, 1, 4, 5, 6, *more)
    )
    with pytest.raises(RuntimeError, match="regions of images 0 to 0"):
        getattr(OPS, operator)(*given, *settings)


def test_samples_and_bins_have_bounds():
    x, rois = facula.ones(1, 4, 5, 6), facula.tensor(ONE_REGION)
    with pytest.raises(RuntimeError, match="sampling_ratio of at most"):
        OPS.roi_align(x, rois, 1.0, 2, 2, 10**12, False)
    for height, width in ((0, 2), (2, -1)):
        with pytest.raises(RuntimeError, match="at least one bin"):
            OPS._roi_align_backward(
                facula.ones(1, 4, 2, 2), rois, 1.0, height, width, 1, 4, 5, 6, 2, False
            )


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 1e30, -1e30])
def test_regions_of_any_numbers_read_the_map_only(value):
    """Nothing behind the map is read: in guard mode that would be a fault."""
    x = facula.ones(1, 4, 5, 6)
    for place in range(1, 5):
        rois = facula.tensor(ONE_REGION)
        rois[0, place] = value
        for found in (
            OPS.roi_align(x, rois, 1.0, 2, 2, -1, False),
            OPS.roi_pool(x, rois, 1.0, 2, 2)[0],
            OPS.ps_roi_pool(x, rois, 1.0, 2, 2)[0],
            OPS.ps_roi_align(x, rois, 1.0, 2, 2, -1)[0],
        ):
            good = found[found == found]
            assert good.abs().max() <= 1.001 if good.numel() else True


class Pictures:
    """What Pillow gives of a GIF, of which a later picture is larger than the first."""

    n_frames, size, width, height = 2, (2, 2), 2, 2

    def seek(self, frame):
        self.size = (2, 2) if frame == 0 else (50_000, 2)


def test_a_picture_beyond_its_canvas_is_refused_before_its_memory_is_read(monkeypatch):
    read = []
    monkeypatch.setattr(images, "_opened", lambda *args: Pictures())
    monkeypatch.setattr(images, "_check_pixels", lambda count: None)
    monkeypatch.setattr(images, "_picture", lambda image: read.append(image.size))
    with pytest.raises(RuntimeError, match="whole pictures were required: got a picture of"):
        images.TABLE["image::decode_gif"](facula.zeros(3, dtype=facula.uint8))
    assert read == [(2, 2)]

"""Images: networks by their known sizes, transforms against NumPy, files, datasets of this machine."""

import gzip
import struct

import numpy
import pytest
from PIL import Image

import facula
from facula.vision import datasets, io, models, ops, transforms, utils
from facula.vision.transforms import functional

RNG = numpy.random.default_rng(5)
PIXELS = RNG.random((3, 20, 26)).astype("float32")
IMAGE = facula.tensor(PIXELS)
BYTES = (PIXELS * 255).astype("uint8")


@pytest.mark.parametrize(
    ("name", "count", "key"),
    [
        ("resnet18", 11689512, "layer2.0.downsample.0.weight"),
        ("resnext50_32x4d", 25028904, "layer4.2.conv2.weight"),
        ("mobilenet_v2", 3504872, "features.18.1.running_var"),
        ("mobilenet_v3_small", 2542856, "features.1.block.1.fc1.weight"),
        ("mobilenet_v3_large", 5483032, "classifier.3.bias"),
        ("squeezenet1_1", 1235496, "features.3.squeeze.weight"),
        ("densenet121", 7978856, "features.denseblock4.denselayer16.conv2.weight"),
        ("efficientnet_b0", 5288548, "features.2.0.block.2.fc1.bias"),
        ("convnext_tiny", 28589128, "features.1.0.layer_scale"),
        ("vit_b_32", 88224232, "encoder.layers.encoder_layer_11.self_attention.in_proj_weight"),
    ],
)
def test_networks_have_the_published_number_of_parameters(name, count, key):
    with facula.device("meta"):
        model = models.get_model(name)
    assert sum(p.numel() for p in model.parameters()) == count
    assert key in model.state_dict()


def test_a_network_learns():
    facula.manual_seed(0)
    model = models.resnet18(num_classes=2)
    x, y = facula.randn(4, 3, 32, 32), facula.tensor([0, 1, 0, 1])
    optimizer = facula.optim.SGD(model.parameters(), lr=0.02)
    losses = []
    for _ in range(4):
        optimizer.zero_grad()
        loss = facula.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0]


def test_segmentation_gives_logits_of_the_images_size():
    model = models.segmentation.lraspp_mobilenet_v3_large(num_classes=3).eval()
    assert model(facula.randn(1, 3, 64, 48))["out"].shape == (1, 3, 64, 48)
    model = models.segmentation.fcn_resnet50(num_classes=3, aux_loss=True).eval()
    found = model(facula.randn(1, 3, 32, 32))
    assert found["out"].shape == found["aux"].shape == (1, 3, 32, 32)


def test_weights_are_files():
    with pytest.raises(ValueError, match="weights=None was required"):
        models.resnet18(weights="DEFAULT")
    with pytest.raises(ValueError, match="Unknown model"):
        models.get_model("resnet17")


def test_networks_are_saved_whole(tmp_path):
    model = models.mobilenet_v3_small(num_classes=3).eval()
    facula.save(model, tmp_path / "model.pt")
    again = facula.load(tmp_path / "model.pt", weights_only=False)
    x = facula.rand(1, 3, 32, 32)
    assert type(again) is type(model) and again(x).equal(model(x))


def test_intermediate_layers():
    from facula.vision.models._utils import IntermediateLayerGetter

    part = IntermediateLayerGetter(models.resnet18(), {"layer1": "low", "layer2": "high"})
    found = part(facula.randn(1, 3, 32, 32))
    assert {name: x.shape[1] for name, x in found.items()} == {"low": 64, "high": 128}
    with pytest.raises(ValueError, match="not present in model"):
        IntermediateLayerGetter(models.resnet18(), {"layer9": "x"})


def close(found, wanted, tolerance=1e-5):
    numpy.testing.assert_allclose(numpy.asarray(found), wanted, rtol=tolerance, atol=tolerance)


def test_geometry():
    close(functional.hflip(IMAGE), PIXELS[..., ::-1])
    close(
        functional.crop(IMAGE, -2, 20, 6, 10),
        numpy.pad(PIXELS[:, :4, 20:], ((0, 0), (2, 0), (0, 4))),
    )
    close(functional.center_crop(IMAGE, 10), PIXELS[:, 5:15, 8:18])
    for name, mode in (("edge", "edge"), ("reflect", "reflect"), ("symmetric", "symmetric")):
        wanted = numpy.pad(PIXELS, ((0, 0), (2, 4), (1, 3)), mode=mode)
        close(functional.pad(IMAGE, [1, 2, 3, 4], padding_mode=name), wanted)
    close(functional.rotate(IMAGE[:, :, :20], 90), numpy.rot90(PIXELS[:, :, :20], 1, (1, 2)), 1e-4)
    assert functional.rotate(IMAGE, 90, expand=True).shape == (3, 26, 20)
    close(functional.affine(IMAGE, 0, [3, 2], 1.0, 0)[:, 2:, 3:], PIXELS[:, :-2, :-3], 1e-4)
    corners = [[0, 0], [26, 0], [26, 20], [0, 20]]
    close(functional.perspective(IMAGE, corners, corners), PIXELS, 1e-4)
    assert [each.shape for each in functional.ten_crop(IMAGE, 8)] == [(3, 8, 8)] * 10


def test_resizing_is_pillows_within_a_rounding():
    picture = functional.to_pil_image(facula.tensor(BYTES))
    wanted = numpy.asarray(picture.resize((13, 10), Image.BILINEAR)).transpose(2, 0, 1)
    found = functional.resize(facula.tensor(BYTES), [10, 13]).numpy()
    assert abs(found.astype(int) - wanted).max() <= 1
    assert functional.resize(IMAGE, 10).shape == (3, 10, 13)
    assert functional.resize(IMAGE, 10, max_size=12).shape == (3, 9, 12)


def test_colour():
    import colorsys

    turned = functional.adjust_hue(IMAGE, 0.3).numpy()
    for y, x in ((0, 0), (7, 9), (19, 25)):
        h, s, v = colorsys.rgb_to_hsv(*PIXELS[:, y, x].astype(float))
        close(turned[:, y, x], colorsys.hsv_to_rgb((h + 0.3) % 1, s, v))
    close(functional.adjust_gamma(IMAGE, 2.2), PIXELS**2.2)
    assert (
        functional.posterize(facula.tensor(BYTES), 3).numpy().tolist()
        == (BYTES & 0b11100000).tolist()
    )
    close(functional.solarize(IMAGE, 0.5), numpy.where(PIXELS >= 0.5, 1 - PIXELS, PIXELS))
    stretched = functional.autocontrast(IMAGE)
    assert stretched.amin((1, 2)).tolist() == [
        0,
        0,
        0,
    ] and stretched.amax().item() == pytest.approx(1)


def test_pillows_own_operations_give_the_same_bytes():
    from PIL import ImageOps

    picture = functional.to_pil_image(facula.tensor(BYTES))
    for ours, theirs in (
        (functional.equalize, ImageOps.equalize),
        (functional.invert, ImageOps.invert),
        (lambda x: functional.solarize(x, 100), lambda x: ImageOps.solarize(x, 100)),
    ):
        wanted = numpy.asarray(theirs(picture)).transpose(2, 0, 1)
        numpy.testing.assert_array_equal(ours(facula.tensor(BYTES)), wanted)
        numpy.testing.assert_array_equal(numpy.asarray(ours(picture)).transpose(2, 0, 1), wanted)


def test_dtypes_of_images():
    whole = facula.tensor(BYTES)
    assert functional.convert_image_dtype(
        functional.convert_image_dtype(whole), facula.uint8
    ).equal(whole)
    assert functional.convert_image_dtype(whole, facula.int16)[0, 0, 0] == int(BYTES[0, 0, 0]) * 128
    close(functional.to_tensor(BYTES.transpose(1, 2, 0)), BYTES / 255)


def test_random_transforms_follow_the_seed():
    chain = transforms.Compose(
        [
            transforms.RandomResizedCrop(12),
            transforms.RandomHorizontalFlip(),
            transforms.ColorJitter(0.4, 0.4, 0.4, 0.1),
            transforms.RandomAffine(20, (0.1, 0.1), (0.8, 1.2), 5),
            transforms.RandomPerspective(p=1.0),
            transforms.GaussianBlur(3),
            transforms.RandomSolarize(0.5, p=0.5),
            transforms.RandomErasing(1.0),
        ]
    )
    results = []
    for seed in (1, 1, 2):
        facula.manual_seed(seed)
        results.append(chain(IMAGE))
    assert results[0].equal(results[1]) and not results[0].equal(results[2])
    assert results[0].shape == (3, 12, 12) and results[0].isfinite().all()


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (lambda: functional.normalize(facula.tensor(BYTES), [0], [1]), TypeError, "float tensor"),
        (lambda: functional.normalize(IMAGE, [0], [0]), ValueError, "deviations other than 0"),
        (lambda: functional.hflip("image"), TypeError, "image of Pillow"),
        (lambda: functional.pad(IMAGE, [1, 2, 3]), ValueError, "1, 2 or 4 widths"),
        (lambda: functional.gaussian_blur(IMAGE, 4), ValueError, "odd and positive"),
        (lambda: functional.adjust_hue(IMAGE, 0.7), ValueError, "is not in"),
        (lambda: functional.resize(IMAGE, 8, "lanczos"), ValueError, "an interpolation out of"),
        (lambda: transforms.RandomCrop(50)(IMAGE), ValueError, "larger than input image size"),
        (lambda: transforms.RandomPosterize()(IMAGE), TypeError, "bits"),
        (lambda: ops.box_convert(IMAGE, "xyxy", "yx"), ValueError, "Unsupported Bounding Box"),
        (
            lambda: ops.sigmoid_focal_loss(IMAGE, IMAGE, reduction="all"),
            ValueError,
            "the reduction",
        ),
    ],
)
def test_what_does_not_fit_is_refused(call, kind, message):
    with pytest.raises(kind, match=message):
        call()


def test_boxes():
    boxes = facula.tensor([[0.0, 0, 2, 2], [1, 1, 3, 3], [5, 5, 6, 8]])
    close(ops.box_iou(boxes, boxes), [[1, 1 / 7, 0], [1 / 7, 1, 0], [0, 0, 1]])
    close(ops.generalized_box_iou(boxes[:1], boxes[1:2]), [[1 / 7 - 2 / 9]])
    close(ops.distance_box_iou(boxes[:1], boxes[1:2]), [[1 / 7 - 2 / 18]])
    close(ops.generalized_box_iou_loss(boxes[:1], boxes[1:2]), [1 - 1 / 7 + 2 / 9])
    for form in ("xywh", "cxcywh"):
        close(ops.box_convert(ops.box_convert(boxes, "xyxy", form), form, "xyxy"), boxes.numpy())
    assert ops.remove_small_boxes(boxes, 2).tolist() == [0, 1]
    classes, scores = facula.tensor([0, 1, 0]), facula.tensor([0.1, 0.9, 0.5])
    assert ops.batched_nms(boxes, scores, classes, 0.1).tolist() == [1, 2, 0]
    mask = facula.zeros(1, 5, 5)
    mask[0, 1:3, 2:5] = 1
    assert ops.masks_to_boxes(mask).tolist() == [[2, 1, 4, 2]]


def test_frozen_norms_and_modules():
    x = facula.randn(2, 4, 6, 6)
    plain, frozen = facula.nn.BatchNorm2d(4).eval(), ops.FrozenBatchNorm2d(4)
    state = {k: facula.rand_like(v) + 0.5 for k, v in frozen.state_dict().items()}
    frozen.load_state_dict(state)
    plain.load_state_dict(state, strict=False)
    close(frozen(x), plain(x).detach(), 1e-4)
    regions = facula.tensor([[0.0, 0, 0, 5, 5]])
    assert ops.RoIAlign(3, 1.0, 2)(x, regions).equal(ops.roi_align(x, regions, 3, 1.0, 2))
    assert ops.PSRoIPool(2, 1.0)(x, [regions[:, 1:]] * 2).shape == (2, 1, 2, 2)
    layer = ops.DeformConv2d(4, 2, 3, padding=1)
    close(
        layer(x, facula.zeros(2, 18, 6, 6)).detach(),
        facula.nn.functional.conv2d(x, layer.weight, layer.bias, padding=1).detach(),
        1e-4,
    )


def test_files(tmp_path):
    whole = facula.tensor(BYTES)
    io.write_png(whole, tmp_path / "a.png")
    assert io.read_image(tmp_path / "a.png").equal(whole)
    assert io.decode_png(io.read_file(tmp_path / "a.png"), io.ImageReadMode.GRAY).shape == (
        1,
        20,
        26,
    )
    io.write_jpeg(whole[:1], tmp_path / "a.jpg", 95)
    assert io.read_image(tmp_path / "a.jpg", "RGB").shape == (3, 20, 26)
    frames = [Image.fromarray(BYTES.transpose(1, 2, 0)) for _ in range(2)]
    frames[1].putpixel((0, 0), (0, 0, 0))
    frames[0].save(tmp_path / "a.gif", save_all=True, append_images=frames[1:])
    assert io.decode_gif(io.read_file(tmp_path / "a.gif")).shape == (2, 3, 20, 26)
    data = (tmp_path / "a.png").read_bytes()
    (tmp_path / "cut.png").write_bytes(data[: len(data) // 2])
    with pytest.raises(RuntimeError, match="a whole image"):
        io.read_image(tmp_path / "cut.png")
    with pytest.raises(RuntimeError, match="a whole image"):
        io.decode_jpeg(io.read_file(tmp_path / "a.png"))
    with pytest.raises(
        RuntimeError, match=r"^\[decode_png\] .* bytes: cannot identify image file it\n"
    ):
        io.decode_png(facula.ones(9, dtype=facula.uint8))
    moving = bytearray((tmp_path / "a.gif").read_bytes())
    second = moving.rindex(b"\x2c\0\0\0\0")  # its place, then its size: of very many pixels
    moving[second + 5 : second + 9] = b"\xff" * 4
    for decode in (io.decode_gif, io.decode_image):
        with pytest.raises(RuntimeError, match=r"^\[decode_gif\] whole pictures were required"):
            decode(facula.frombuffer(moving, dtype=facula.uint8))
    with pytest.raises(RuntimeError, match="a file that can be read.*no.png"):
        io.read_file(tmp_path / "no.png")
    with pytest.raises(RuntimeError, match="parent folder"):
        io.write_png(whole, tmp_path / "no" / "a.png")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.gif", "a.jpg", "a.png", "cut.png"]


def test_grids(tmp_path):
    grid = utils.make_grid(facula.stack([IMAGE] * 5), nrow=3, padding=2, pad_value=0.5)
    assert grid.shape == (3, 46, 86)
    close(grid[:, 24:44, 2:28], PIXELS)
    close(grid[:, 0], numpy.full((3, 86), 0.5))
    utils.save_image([IMAGE, IMAGE], tmp_path / "grid.png")
    with Image.open(tmp_path / "grid.png") as picture:
        assert picture.size == (58, 24)


def test_folders_of_classes(tmp_path):
    for name in ("cat", "dog"):
        (tmp_path / name).mkdir()
        Image.fromarray(BYTES.transpose(1, 2, 0)).save(tmp_path / name / "1.png")
    (tmp_path / "dog" / "notes.txt").write_text("none")
    found = datasets.ImageFolder(tmp_path, transform=transforms.PILToTensor())
    assert found.classes == ["cat", "dog"] and len(found) == 2
    assert found[1][0].equal(facula.tensor(BYTES)) and found[1][1] == 1
    (tmp_path / "dog" / "2.png").write_bytes(b"broken")
    with pytest.raises(RuntimeError, match="2.png"):
        datasets.ImageFolder(tmp_path)[2]
    (tmp_path / "owl").mkdir()
    with pytest.raises(FileNotFoundError, match="owl"):
        datasets.ImageFolder(tmp_path)


def test_the_files_of_mnist(tmp_path):
    digits = RNG.integers(0, 256, (3, 28, 28)).astype("uint8")
    images = struct.pack(">4i", 0x803, 3, 28, 28) + digits.tobytes()
    (tmp_path / "train-images-idx3-ubyte.gz").write_bytes(gzip.compress(images))
    (tmp_path / "train-labels-idx1-ubyte").write_bytes(
        struct.pack(">2i", 0x801, 3) + b"\x05\x00\x04"
    )
    found = datasets.MNIST(tmp_path, transform=transforms.ToTensor())
    assert found.targets.tolist() == [5, 0, 4] and found[0][1] == 5
    close(found[2][0][0], digits[2] / 255)
    (tmp_path / "train-labels-idx1-ubyte").write_bytes(struct.pack(">2i", 0x801, 9) + b"\x05")
    with pytest.raises(RuntimeError, match="train-labels"):
        datasets.MNIST(tmp_path)
    with pytest.raises(RuntimeError, match="Dataset not found"):
        datasets.MNIST(tmp_path, train=False)
    with pytest.raises(ValueError, match="nothing is fetched"):
        datasets.MNIST(tmp_path, download=True)


def test_the_files_of_cifar(tmp_path):
    import pickle

    folder = tmp_path / "cifar-10-batches-py"
    folder.mkdir()
    values = RNG.integers(0, 256, (2, 3072)).astype("uint8")
    with open(folder / "test_batch", "wb") as file:
        pickle.dump({b"data": values, b"labels": [3, 8]}, file)
    found = datasets.CIFAR10(tmp_path, train=False, transform=transforms.PILToTensor())
    assert found.targets == [3, 8]
    numpy.testing.assert_array_equal(found[1][0], values[1].reshape(3, 32, 32))
    for batch, got in (
        ({b"data": values, b"labels": [3]}, "2 images and 1 classes"),
        ({b"data": values[:, :9], b"labels": [3, 8]}, "reshape"),
        ([1], "list indices"),
    ):
        (folder / "test_batch").write_bytes(pickle.dumps(batch))
        with pytest.raises(RuntimeError, match=rf"^\[CIFAR10\] .*test_batch: .*{got}"):
            datasets.CIFAR10(tmp_path, train=False)
    (folder / "test_batch").write_bytes(b"cos\nsystem\n(S'true'\ntR.")
    with pytest.raises(RuntimeError, match="a dictionary of arrays"):
        datasets.CIFAR10(tmp_path, train=False)


def test_made_up_images_are_the_same_each_time():
    found = datasets.FakeData(3, (3, 8, 9), transform=transforms.ToTensor())
    assert found[1][0].equal(found[1][0]) and not found[1][0].equal(found[2][0])
    assert found[0][0].shape == (3, 8, 9) and len(list(found)) == 3


def test_grey_levels_palettes_and_backgrounds(tmp_path):
    pixels = RNG.integers(0, 256, (9, 7, 3)).astype("uint8")
    pixels[:2] = pixels[:2, :, :1]
    path = tmp_path / "a.png"
    Image.fromarray(pixels).save(path)
    weights = (int(0.2989 * 32768), int(0.587 * 32768))
    grey = [
        [r if r == g == b else (weights[0] * r + weights[1] * g + (32768 - sum(weights)) * b) // 32768
         for r, g, b in row] for row in pixels.tolist()
    ]  # fmt: skip
    assert io.read_image(path, "GRAY").tolist() == [grey]
    assert io.read_image(path, "GRAY_ALPHA").tolist() == [grey, [[255] * 7] * 9]
    places = RNG.integers(0, 5, (9, 7)).astype("uint8")
    mask = Image.fromarray(places, "P")
    mask.putpalette(bytes(range(200, 215)))
    mask.save(path)
    assert io.read_image(path).tolist() == [places.tolist()]
    assert io.read_image(path, "RGB")[0].tolist() == (200 + 3 * places.astype(int)).tolist()
    path = tmp_path / "a.jpg"
    Image.fromarray(pixels // 4 + 90).save(path, quality=90)  # no colour is cut off
    levels = Image.open(path).convert("YCbCr")
    found = io.read_image(path, "GRAY")[0].int().numpy()
    assert abs(found - numpy.asarray(levels)[..., 0].astype(int)).max() <= 2
    path = tmp_path / "a.gif"
    mask.info["background"] = 3
    mask.save(path, transparency=2, background=3)
    drawn = io.decode_gif(io.read_file(path))
    assert drawn[0].tolist() == (200 + 3 * numpy.where(places == 2, 3, places).astype(int)).tolist()


def test_libraries_of_torchvision_under_both_names_are_served(tmp_path):
    for name in ("_C", "_C_stable", "image", "image_stable"):
        facula.ops.load_library(tmp_path / "torchvision" / f"{name}.so")
    with pytest.raises(OSError, match="Could not load this library"):
        facula.ops.load_library(tmp_path / "torchvision" / "other.so")

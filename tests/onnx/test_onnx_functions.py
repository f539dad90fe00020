"""Functions and layers give the same under onnxruntime, for batches that were not seen in the export."""

from __future__ import annotations

import pytest

import facula
from facula import nn
from facula.nn import functional as F
from tests.onnx.onnx_support import Calls, same

BATCH = {0: "batch"}


def images(*shape):
    facula.manual_seed(3)
    return [(facula.randn(n, *shape),) for n in (2, 5, 1)]


def masked(x):
    y = x.clone()
    y[y > 0] = 0.5
    y[:, 1] = 7
    return y


def shapes(x):
    n = x.shape[0]
    return (
        x.reshape(n, -1).repeat(1, 2), x.view(-1, 2), x.flatten(), facula.zeros(n, 3),
        facula.arange(n) * 2, x * n, x.expand(3, *x.shape), facula.full((n * 2,), 1.5), x.sum() / n,
    )  # fmt: skip


def statistics(x):
    return (
        x.std(1), x.var(), x.mean((0, 1)), x.norm(dim=1), F.normalize(x), x.median(1)[0], x.argmax(1),
        x.max(), x.logsumexp(1), x.cumsum(1), x.cumprod(1), x.prod(1), x.amin(0), x.softmax(-1),
        x.topk(2)[0], x.sort(1, descending=True), x.any(1), x.logcumsumexp(1), x.cummax(1),
    )  # fmt: skip


def moved(x):
    return (
        x.roll(1, 1), x.tile(1, 2), x.unflatten(1, (2, 3)), x.chunk(2, 1), F.glu(x), x[:, -1], x[:, None],
        F.one_hot((x > 0).long(), 2), x.repeat_interleave(2, 1), facula.tril(x.T @ x), x[..., ::2],
        F.pad(x, (1, 2)), F.cosine_similarity(x, x, 1), x.flip(1), x[:, 1:3], x.unfold(1, 3, 2),
        facula.einsum("bi,bj->bij", x, x), (x.T @ x).diagonal(1), facula.bucketize(x, x[0].sort()[0]),
    )  # fmt: skip


def indexed(x):
    rows, places = facula.tensor([0, 2]), facula.tensor([1, 1])
    along = facula.zeros(x.shape[0], 2, 3).long()
    return (
        x[:, rows], x[:, rows, places], x.gather(1, along), x.index_add(1, rows, x[:, :2]),
        x.scatter_add(1, along, x[:, :2]), x.index_fill(1, rows, 2.0), x.take(rows),
        x.scatter_reduce(1, along, x[:, :2], "mean", include_self=False),
        x.scatter_reduce(1, along, x[:, :2], "amax"), x.masked_scatter(x > 0, x + 1),
    )  # fmt: skip


def resized(x):
    return (
        F.interpolate(x, size=(5, 7), mode="bilinear", antialias=True),
        F.interpolate(x, scale_factor=2, mode="nearest"),
        F.interpolate(x, size=(7, 3), mode="nearest-exact"),
        F.interpolate(x, scale_factor=(1.5, 2.0), mode="bicubic", align_corners=True),
        F.interpolate(x.abs().to(facula.uint8), size=(3, 9)), F.adaptive_avg_pool2d(x, (3, 2)),
        F.avg_pool2d(x, 3, 2, 1, ceil_mode=True), F.avg_pool2d(x, 2, divisor_override=3),
        F.grid_sample(x, x[:, 0, :4, :4].reshape(-1, 2, 4, 2), align_corners=False),
    )  # fmt: skip


@pytest.mark.parametrize("function, shape", [
    (masked, (3,)), (shapes, (4, 6)), (statistics, (5,)), (moved, (6,)), (indexed, (4, 3)),
    (resized, (2, 6, 5)),
], ids=lambda x: getattr(x, "__name__", ""))  # fmt: skip
def test_functions(function, shape):
    same(Calls(function), *images(*shape), dynamic_shapes={"args": (BATCH,)}, tolerance=2e-5)


@pytest.mark.parametrize("layers, shape", [
    ((nn.BatchNorm1d(6), nn.LayerNorm(6, elementwise_affine=False), nn.RMSNorm(6), nn.PReLU(6),
      nn.Softplus(), nn.Mish(), nn.CELU(), nn.SELU(), nn.Hardtanh(), nn.LogSigmoid()), (6,)),
    ((nn.Conv1d(2, 4, 3, 2, 1, dilation=2, groups=2),
      nn.ConvTranspose1d(4, 2, 4, 3, 2, output_padding=1), nn.MaxPool1d(2), nn.AdaptiveAvgPool1d(3),
      nn.Upsample(scale_factor=1.5, mode="linear")), (2, 19)),
    ((nn.Conv3d(2, 4, 3, padding=1), nn.BatchNorm3d(4), nn.AvgPool3d(2), nn.AdaptiveMaxPool3d(2),
      nn.Upsample(scale_factor=2)), (2, 6, 6, 6)),
    ((nn.Unfold(3, padding=1), nn.Fold((4, 4), 3, padding=1)), (2, 4, 4)),
    ((nn.PixelUnshuffle(2), nn.LPPool2d(2, 2), nn.ReplicationPad2d(1), nn.CircularPad2d(1)), (4, 4, 4)),
], ids=("vectors", "lines", "volumes", "windows", "pixels"))  # fmt: skip
def test_layers(layers, shape):
    model = nn.Sequential(*layers).eval()
    same(model, *images(*shape), dynamic_shapes=(BATCH,), tolerance=2e-5)


def test_attention_with_masks_and_weights():
    layer = nn.MultiheadAttention(8, 2, batch_first=True).eval()
    mask = facula.tensor([[False, False, True], [False, True, True]])
    calls = [(facula.randn(n, 3, 8), mask[:n]) for n in (2, 1)]
    model = Calls(lambda x, m: layer(x, x, x, key_padding_mask=m))
    same(model, *calls, dynamic_shapes={"args": (BATCH, BATCH)})


def test_pools_are_undone():
    pool, back = nn.MaxPool2d(2, return_indices=True), nn.MaxUnpool2d(2)
    same(Calls(lambda x: back(*pool(x))), *images(2, 4, 4), dynamic_shapes={"args": (BATCH,)})


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_bags_of_rows(mode):
    bag = nn.EmbeddingBag(10, 3, mode=mode, padding_idx=4)
    same(bag, (facula.tensor([1, 2, 4, 5, 4]), facula.tensor([0, 2, 3, 4])))


def test_losses():
    def losses(x, t):
        weight = facula.tensor([1.0, 2.0, 3.0])
        return (
            F.cross_entropy(x, t),
            F.cross_entropy(x, t, weight, label_smoothing=0.1, reduction="none"),
            F.binary_cross_entropy_with_logits(x, x.sigmoid()), F.mse_loss(x, -x), F.huber_loss(x, -x),
        )  # fmt: skip

    same(Calls(losses), (facula.randn(3, 3), facula.tensor([0, 2, -100])))


def test_an_example_of_one_row_serves_batches():
    def rows(x):
        return x * 2, x.reshape(x.shape[0], -1)

    for settings in (
        {"dynamic_shapes": {"args": (BATCH,)}},
        {"dynamic_axes": {"x": {0: "n"}}, "input_names": ["x"]},
    ):
        calls = images(3, 2)[::-1]
        assert calls[0][0].shape[0] == 1
        same(Calls(rows), *calls, **settings)

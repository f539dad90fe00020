"""Features of spectra: means over windows, centres, runs masked one by one, a distance of distributions.

Takes: spectra `[..., frequencies, frames]`, samples. Gives: tensors with gradients.
"""

from __future__ import annotations

from typing import Any

from facula import core
from facula.core.errors import fail
from facula.namespaces import linalg
from facula.ops.table.registry import F

from .spectra import spectrogram

__all__ = ["frechet_distance", "mask_along_axis_iid", "sliding_window_cmn", "spectral_centroid"]


def mask_along_axis_iid(
    specgrams: Any, mask_param: int, mask_value: Any, axis: int, p: float = 1.0
) -> Any:
    """A run of frequencies or frames overwritten, of a length and place of its own in each spectrum.

    Args:
        specgrams: spectra `[..., frequencies, frames]`, of three dimensions at least.
        mask_param: how long a run may be.
        mask_value: what is written, a number or a tensor of one.
        axis: one of the last two dimensions.
        p: which share of the dimension a run may take.

    Raises:
        ValueError: fewer dimensions, another axis or share.

    Example:
        >>> import facula
        >>> masked = facula.audio.functional.mask_along_axis_iid(facula.ones(4, 5, 6), 3, 0.0, 2)
        >>> bool((masked.sum((1, 2)) > 15).all())
        True
    """
    dims = specgrams.dim()
    if dims < 3 or axis % max(dims, 1) not in (dims - 2, dims - 1) or not 0 <= p <= 1:
        required = "at least 3 dimensions, one of the last two of them, and a share p in [0, 1], were required"
        got = f"{list(specgrams.shape)}, axis={axis}, p={p}"
        hint = "mask_along_axis takes one spectrum; -2 are frequencies, -1 is time"
        fail(ValueError, "mask_along_axis_iid", required, got, hint=hint)
    size = specgrams.shape[axis]
    most = mask_param if p == 1 else min(mask_param, int(size * p))
    if most < 1:
        return specgrams
    kind = {"dtype": specgrams.dtype, "device": specgrams.device}
    lengths = F.rand(specgrams.shape[:-2], **kind) * most
    begins = (F.rand(specgrams.shape[:-2], **kind) * (size - lengths)).to(core.int64)
    ends = begins + lengths.to(core.int64)
    places = F.arange(size, device=specgrams.device)
    masked = F.logical_and(places >= begins[..., None], places < ends[..., None])
    masked = masked[..., None] if axis % dims == dims - 2 else masked[..., None, :]
    if isinstance(mask_value, core.Tensor):
        return F.where(masked, mask_value.to(specgrams.dtype), specgrams)
    return specgrams.masked_fill(masked, mask_value)


def _windows(frames: int, width: int, least: int, center: bool) -> tuple[Any, Any]:
    """The first frame of each window, and the one behind its last."""
    here = F.arange(frames)
    if center:
        begin = here - width // 2
        end = begin + width
    else:
        begin, end = here - width, here + 1
    end, begin = end - begin.clamp(max=0), begin.clamp(min=0)
    if not center:
        # at the beginning fewer frames lie before: some of those behind count too
        end = (here + 1).clamp(min=least)
    over = (end - frames).clamp(min=0)
    return (begin - over).clamp(min=0), end - over


def sliding_window_cmn(
    specgram: Any,
    cmn_window: int = 600,
    min_cmn_window: int = 100,
    center: bool = False,
    norm_vars: bool = False,
) -> Any:
    """Features less their mean over the frames around.

    Args:
        specgram: features `[..., frames, features]`.
        cmn_window: how many frames a mean is of.
        min_cmn_window: how many at the beginning, where fewer lie before.
        center: the frames lie around the one in question, else before it.
        norm_vars: features are divided by their deviation too.

    Example:
        >>> import facula
        >>> facula.audio.functional.sliding_window_cmn(facula.tensor([[1.0], [3.0]]), center=True).tolist()
        [[-1.0], [1.0]]
    """
    frames = specgram.shape[-2]
    if frames == 0:
        return specgram
    begin, end = _windows(frames, cmn_window, min_cmn_window, center)
    counts = (end - begin)[:, None].to(core.float64)
    x = specgram.to(core.float64)

    def mean(values: Any) -> Any:
        sums = F.cat([F.zeros_like(values[..., :1, :]), values.cumsum(-2)], -2)
        return (sums.index_select(-2, end) - sums.index_select(-2, begin)) / counts

    average = mean(x)
    found = x - average
    if norm_vars:
        # around the mean of all, so that little is lost in the difference
        middle = x.mean(-2, keepdim=True)
        spread = mean((x - middle) ** 2) - (average - middle) ** 2
        found = F.where(counts == 1, F.zeros_like(found), found * spread.pow(-0.5))
    return found.to(specgram.dtype)


def spectral_centroid(
    waveform: Any,
    sample_rate: int,
    pad: int,
    window: Any,
    n_fft: int,
    hop_length: int,
    win_length: int,
) -> Any:
    """The mean frequency of each frame, weighted by how strong each is.

    Args:
        waveform: samples.
        sample_rate: their rate.
        pad: zeros before and behind.
        window: weights of a frame.
        n_fft: length of the Fourier transform.
        hop_length: samples from one frame to the next.
        win_length: length of the window.

    Example:
        >>> import facula
        >>> noise = facula.audio.functional.spectral_centroid(facula.rand(800), 800, 0, facula.ones(80), 80, 40, 80)
        >>> noise.shape
        facula.Size([21])
    """
    size = spectrogram(waveform, pad, window, n_fft, hop_length, win_length, 1.0, False)
    frequencies = F.linspace(0, sample_rate // 2, n_fft // 2 + 1, device=size.device).to(size.dtype)
    return (frequencies[:, None] * size).sum(-2) / size.sum(-2)


def frechet_distance(mu_x: Any, sigma_x: Any, mu_y: Any, sigma_y: Any) -> Any:
    """The distance of two normal distributions, squared. [Dowson & Landau 1982]

    Args:
        mu_x: mean of the first.
        sigma_x: covariance of the first.
        mu_y: mean of the second.
        sigma_y: covariance of the second.

    Raises:
        ValueError: sizes do not fit.

    Example:
        >>> import facula
        >>> zero, unit = facula.zeros(2), facula.eye(2)
        >>> facula.audio.functional.frechet_distance(zero, unit, zero + 1, unit).item()
        2.0
    """
    shapes = [tuple(v.shape) for v in (mu_x, mu_y, sigma_x, sigma_y)]
    size = mu_x.shape[0] if mu_x.dim() == 1 else None
    if shapes != [(size,)] * 2 + [(size, size)] * 2:
        required = "means [size] and covariances [size, size] were required"
        fail(ValueError, "frechet_distance", required, shapes, hint="both of one size")
    shared = linalg.eigvals(sigma_x @ sigma_y).sqrt().real.sum()
    return (mu_x - mu_y).square().sum() + sigma_x.trace() + sigma_y.trace() - 2 * shared

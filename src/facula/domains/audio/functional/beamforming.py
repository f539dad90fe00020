"""Several microphones as one that listens in a direction.

Takes: complex spectra `[..., channels, frequencies, frames]`. Gives: densities of power between the channels
`[..., frequencies, channels, channels]`, weights `[..., frequencies, channels]`, one spectrum.
Keeps true: everything has gradients.
"""

from __future__ import annotations

from typing import Any

from facula import core
from facula.core.errors import fail
from facula.namespaces import linalg
from facula.ops.table.registry import F

__all__ = [
    "apply_beamforming", "mvdr_weights_rtf", "mvdr_weights_souden", "psd", "rtf_evd", "rtf_power",
]  # fmt: skip


def psd(specgram: Any, mask: Any = None, normalize: bool = True, eps: float = 1e-10) -> Any:
    """How the channels vary together at each frequency, summed over time.

    Args:
        specgram: complex, `[..., channels, frequencies, frames]`.
        mask: how much each frequency and frame counts, `[..., frequencies, frames]`.
        normalize: the mask of a frequency is divided by its sum.
        eps: what that sum is at least.

    Raises:
        ValueError: the mask has other sizes.

    Example:
        >>> import facula
        >>> spectrum = facula.ones(2, 3, 4, dtype=facula.complex64)
        >>> facula.audio.functional.psd(spectrum).shape
        facula.Size([3, 2, 2])
    """
    left = specgram.transpose(-3, -2)
    right = left.conj().transpose(-1, -2)
    if mask is None:
        return left @ right
    if mask.shape != (*left.shape[:-2], left.shape[-1]):
        required = f"a mask of the sizes {[*left.shape[:-2], left.shape[-1]]} was required"
        hint = "it has no dimension for channels: average over them"
        fail(ValueError, "psd", required, list(mask.shape), hint=hint)
    if normalize:
        mask = mask / (mask.sum(-1, keepdim=True) + eps)
    return (left * mask[..., None, :]) @ right


def _complex(op: str, name: str, x: Any) -> None:
    if not x.is_complex():
        fail(TypeError, op, f"complex numbers were required of {name}", x.dtype, hint="x.cfloat()")


def _densities(op: str, psd_s: Any, psd_n: Any) -> None:
    for name, x in (("psd_s", psd_s), ("psd_n", psd_n)):
        if x.dim() < 3 or x.shape[-1] != x.shape[-2]:
            required = f"{name} [..., frequencies, channels, channels] was required"
            fail(ValueError, op, required, list(x.shape), hint="psd() gives such")
        _complex(op, name, x)
    if psd_s.shape != psd_n.shape:
        required, got = "densities of one shape were required", f"{psd_s.shape} and {psd_n.shape}"
        fail(ValueError, op, required, got, hint="both belong to the same recording")


def _loaded(density: Any, share: float, eps: float = 1e-8) -> Any:
    """A density with a share of its trace on the diagonal, so that it has an inverse."""
    level = density.diagonal(0, -2, -1).sum(-1).real * share + eps
    unit = F.eye(density.shape[-1], dtype=density.dtype, device=density.device)
    return density + level[..., None, None] * unit


def _referred(op: str, values: Any, reference: Any) -> Any:
    """The entry of the last dimension that belongs to the reference: a number, or weights `[..., channels]`."""
    if isinstance(reference, int):
        return values[..., reference]
    if not isinstance(reference, core.Tensor):
        required = "the number of a channel, or a tensor of weights, was required"
        fail(TypeError, op, required, type(reference).__name__, hint="0 is the first channel")
    weights = reference.to(values.dtype)
    between = values.dim() - weights.dim()
    weights = weights.reshape((*weights.shape[:-1], *([1] * between), weights.shape[-1]))
    return (values * weights).sum(-1)


def mvdr_weights_souden(
    psd_s: Any,
    psd_n: Any,
    reference_channel: int | core.Tensor,
    diagonal_loading: bool = True,
    diag_eps: float = 1e-7,
    eps: float = 1e-8,
) -> Any:
    """Weights that keep speech and let the least noise through, out of both densities. [Souden et al. 2010]

    Args:
        psd_s: density of the speech, complex, `[..., frequencies, channels, channels]`.
        psd_n: density of the noise.
        reference_channel: the channel that speech shall sound like, or weights of channels.
        diagonal_loading: a share of its trace is added to the diagonal of the noise.
        diag_eps: that share.
        eps: what is added to the trace that divides.

    Raises:
        ValueError: sizes do not fit.
        TypeError: densities are not complex.

    Example:
        >>> import facula
        >>> unit = facula.eye(2, dtype=facula.complex64).expand(3, 2, 2)
        >>> facula.audio.functional.mvdr_weights_souden(unit, unit, 0)[0].abs().tolist()
        [0.5, 0.0]
    """
    _densities("mvdr_weights_souden", psd_s, psd_n)
    noise = _loaded(psd_n, diag_eps) if diagonal_loading else psd_n
    ratio = linalg.solve(noise, psd_s)
    trace = ratio.diagonal(0, -2, -1).sum(-1)
    return _referred(
        "mvdr_weights_souden", ratio / (trace[..., None, None] + eps), reference_channel
    )


def mvdr_weights_rtf(
    rtf: Any,
    psd_n: Any,
    reference_channel: int | core.Tensor | None = None,
    diagonal_loading: bool = True,
    diag_eps: float = 1e-7,
    eps: float = 1e-8,
) -> Any:
    """Weights that keep what comes with these transfer functions and let the least noise through.

    Args:
        rtf: what each channel hears of the source, complex, `[..., frequencies, channels]`.
        psd_n: density of the noise, `[..., frequencies, channels, channels]`.
        reference_channel: the channel that the result shall sound like, weights of channels, or None.
        diagonal_loading: a share of its trace is added to the diagonal of the noise.
        diag_eps: that share.
        eps: what is added to the power that divides.

    Raises:
        ValueError: sizes do not fit.
        TypeError: an argument is not complex.

    Example:
        >>> import facula
        >>> unit = facula.eye(2, dtype=facula.complex64).expand(3, 2, 2)
        >>> same = facula.ones(3, 2, dtype=facula.complex64)
        >>> facula.audio.functional.mvdr_weights_rtf(same, unit)[0].abs().tolist()
        [0.5, 0.5]
    """
    op = "mvdr_weights_rtf"
    if rtf.dim() < 2 or psd_n.dim() < 3 or psd_n.shape != (*rtf.shape, rtf.shape[-1]):
        required = "rtf [..., frequencies, channels] and psd_n with a dimension more of channels were required"
        got = f"{list(rtf.shape)} and {list(psd_n.shape)}"
        fail(ValueError, op, required, got, hint="psd() gives the density of noise")
    _complex(op, "rtf", rtf)
    _complex(op, "psd_n", psd_n)
    noise = _loaded(psd_n, diag_eps) if diagonal_loading else psd_n
    top = linalg.solve(noise, rtf[..., None])[..., 0]
    power = (rtf.conj() * top).sum(-1, keepdim=True).real
    weights = top / (power + eps)
    if reference_channel is None:
        return weights
    return weights * _referred(op, rtf.conj(), reference_channel)[..., None]


def rtf_evd(psd_s: Any) -> Any:
    """Transfer functions of a source: the direction in which its density is largest.

    Args:
        psd_s: density of the speech, complex, `[..., frequencies, channels, channels]`.

    Raises:
        ValueError: it is not square.
        TypeError: it is not complex.

    Example:
        >>> import facula
        >>> density = facula.diag(facula.tensor([1.0, 3.0])).to(facula.complex64)
        >>> facula.audio.functional.rtf_evd(density[None]).abs().tolist()
        [[0.0, 1.0]]
    """
    _complex("rtf_evd", "psd_s", psd_s)
    if psd_s.dim() < 2 or psd_s.shape[-1] != psd_s.shape[-2]:
        required = "psd_s [..., channels, channels] was required"
        fail(ValueError, "rtf_evd", required, list(psd_s.shape), hint="psd() gives such")
    return linalg.eigh(psd_s)[1][..., -1]


def rtf_power(
    psd_s: Any,
    psd_n: Any,
    reference_channel: int | core.Tensor,
    n_iter: int = 3,
    diagonal_loading: bool = True,
    diag_eps: float = 1e-7,
) -> Any:
    """Transfer functions of a source by powers of the ratio of both densities.

    Args:
        psd_s: density of the speech, complex, `[..., frequencies, channels, channels]`.
        psd_n: density of the noise.
        reference_channel: the channel to begin with, or weights of channels.
        n_iter: how many products.
        diagonal_loading: a share of its trace is added to the diagonal of the noise.
        diag_eps: that share.

    Raises:
        ValueError: sizes do not fit, or no iterations.
        TypeError: densities are not complex.

    Example:
        >>> import facula
        >>> unit = facula.eye(2, dtype=facula.complex64).expand(3, 2, 2)
        >>> facula.audio.functional.rtf_power(unit, unit, 0).shape
        facula.Size([3, 2])
    """
    _densities("rtf_power", psd_s, psd_n)
    if n_iter < 1:
        fail(ValueError, "rtf_power", "at least 1 iteration was required", n_iter, hint="n_iter=3")
    noise = _loaded(psd_n, diag_eps) if diagonal_loading else psd_n
    ratio = linalg.solve(noise, psd_s)
    found = _referred("rtf_power", ratio, reference_channel)[..., None]
    for _ in range(n_iter - 2):
        found = ratio @ found
    return ((psd_s if n_iter > 1 else noise) @ found)[..., 0]


def apply_beamforming(beamform_weights: Any, specgram: Any) -> Any:
    """The channels of a spectrum summed with conjugated weights.

    Args:
        beamform_weights: complex, `[..., frequencies, channels]`.
        specgram: complex, `[..., channels, frequencies, frames]`.

    Raises:
        ValueError: sizes do not fit.
        TypeError: an argument is not complex.

    Example:
        >>> import facula
        >>> weights = facula.ones(3, 2, dtype=facula.complex64) / 2
        >>> spectrum = facula.ones(2, 3, 4, dtype=facula.complex64)
        >>> facula.audio.functional.apply_beamforming(weights, spectrum).shape
        facula.Size([3, 4])
    """
    op = "apply_beamforming"
    wanted = (*specgram.shape[:-3], specgram.shape[-2], specgram.shape[-3])
    if specgram.dim() < 3 or beamform_weights.shape != wanted:
        required = "weights [..., frequencies, channels] of the spectrum's sizes were required"
        got = f"{list(beamform_weights.shape)} for {list(specgram.shape)}"
        fail(
            ValueError, op, required, got, hint="a spectrum is [..., channels, frequencies, frames]"
        )
    _complex(op, "beamform_weights", beamform_weights)
    _complex(op, "specgram", specgram)
    rows = specgram.transpose(-3, -2)
    return (beamform_weights.conj()[..., None, :] @ rows)[..., 0, :]

"""Beamforming as modules.

Takes: complex spectra of several channels, masks. Gives: one spectrum.
"""

from __future__ import annotations

import warnings
from typing import Any

from facula import core, nn
from facula.core.errors import fail
from facula.ops.table.registry import F as _F

from .. import functional as F

__all__ = ["MVDR", "PSD", "RTFMVDR", "SoudenMVDR"]

_SOLUTIONS = ("ref_channel", "stv_evd", "stv_power")


class PSD(nn.Module):
    """See `functional.psd`.

    Args:
        multi_mask: masks have a dimension of channels, over which they are averaged.
        normalize: the mask of a frequency is divided by its sum.
        eps: what that sum is at least.

    Example:
        >>> import facula
        >>> facula.audio.transforms.PSD()(facula.ones(2, 3, 4, dtype=facula.complex64)).shape
        facula.Size([3, 2, 2])
    """

    def __init__(
        self, multi_mask: bool = False, normalize: bool = True, eps: float = 1e-15
    ) -> None:
        super().__init__()
        self.multi_mask, self.normalize, self.eps = multi_mask, normalize, eps

    def forward(self, specgram: Any, mask: Any = None) -> Any:
        """The density between the channels of a spectrum, as far as a mask counts it."""
        if mask is not None and self.multi_mask:
            mask = mask.mean(-3)
        return F.psd(specgram, mask, self.normalize, self.eps)


class SoudenMVDR(nn.Module):
    """Beamforming by `functional.mvdr_weights_souden`.

    Example:
        >>> import facula
        >>> unit = facula.eye(2, dtype=facula.complex64).expand(3, 2, 2)
        >>> spectrum = facula.ones(2, 3, 4, dtype=facula.complex64)
        >>> facula.audio.transforms.SoudenMVDR()(spectrum, unit, unit, 0).shape
        facula.Size([3, 4])
    """

    def forward(
        self,
        specgram: Any,
        psd_s: Any,
        psd_n: Any,
        reference_channel: int | core.Tensor,
        diagonal_loading: bool = True,
        diag_eps: float = 1e-7,
        eps: float = 1e-8,
    ) -> Any:
        """One spectrum of several channels, by the densities of speech and noise."""
        settings = (reference_channel, diagonal_loading, diag_eps, eps)
        return F.apply_beamforming(F.mvdr_weights_souden(psd_s, psd_n, *settings), specgram)


class RTFMVDR(nn.Module):
    """Beamforming by `functional.mvdr_weights_rtf`.

    Example:
        >>> import facula
        >>> unit = facula.eye(2, dtype=facula.complex64).expand(3, 2, 2)
        >>> spectrum, same = (facula.ones(*n, dtype=facula.complex64) for n in ((2, 3, 4), (3, 2)))
        >>> facula.audio.transforms.RTFMVDR()(spectrum, same, unit, 0).shape
        facula.Size([3, 4])
    """

    def forward(
        self,
        specgram: Any,
        rtf: Any,
        psd_n: Any,
        reference_channel: int | core.Tensor,
        diagonal_loading: bool = True,
        diag_eps: float = 1e-7,
        eps: float = 1e-8,
    ) -> Any:
        """One spectrum of several channels, by transfer functions and the density of noise."""
        settings = (reference_channel, diagonal_loading, diag_eps, eps)
        return F.apply_beamforming(F.mvdr_weights_rtf(rtf, psd_n, *settings), specgram)


class MVDR(nn.Module):
    """Beamforming by masks of speech and noise, in double precision. [Souden et al. 2010]

    Args:
        ref_channel: the channel that the result shall sound like.
        solution: "ref_channel" (of both densities), "stv_evd" or "stv_power" (by transfer functions).
        multi_mask: masks have a dimension of channels.
        diag_loading: a share of its trace is added to the diagonal of the noise.
        diag_eps: that share.
        online: densities of earlier calls count too, by the sums of their masks, the new one as a frame.

    Raises:
        ValueError: another solution.

    Example:
        >>> import facula
        >>> spectrum, mask = facula.randn(2, 5, 9, dtype=facula.complex64), facula.rand(5, 9)
        >>> facula.audio.transforms.MVDR()(spectrum, mask, 1 - mask).shape
        facula.Size([5, 9])
    """

    def __init__(
        self,
        ref_channel: int = 0,
        solution: str = "ref_channel",
        multi_mask: bool = False,
        diag_loading: bool = True,
        diag_eps: float = 1e-7,
        online: bool = False,
    ) -> None:
        super().__init__()
        if solution not in _SOLUTIONS:
            required = f"a solution out of {', '.join(_SOLUTIONS)} was required"
            fail(ValueError, "MVDR", required, repr(solution), hint="'ref_channel' is the default")
        self.ref_channel, self.solution, self.multi_mask = ref_channel, solution, multi_mask
        self.diag_loading, self.diag_eps, self.online = diag_loading, diag_eps, online
        self.psd = PSD(multi_mask)
        for name in ("psd_s", "psd_n", "mask_sum_s", "mask_sum_n"):
            self.register_buffer(name, _F.zeros((1,)))

    def _joined(self, which: str, density: Any, mask: Any) -> Any:
        """A density together with those of earlier calls: these count by the sums of their masks, the new one
        as a frame (torchaudio's numbers)."""
        mask = mask.mean(-3) if self.multi_mask else mask
        counted = mask.sum(-1)
        before, sums = getattr(self, f"psd_{which}"), getattr(self, f"mask_sum_{which}")
        if before.dim() > 1:
            both = (sums + counted)[..., None, None]
            density = before * (sums[..., None, None] / both) + density / both
            counted = sums + counted
        setattr(self, f"psd_{which}", density)
        setattr(self, f"mask_sum_{which}", counted)
        return density

    def _weights(self, psd_s: Any, psd_n: Any, reference: Any) -> Any:
        loading = (self.diag_loading, self.diag_eps)
        if self.solution == "ref_channel":
            return F.mvdr_weights_souden(psd_s, psd_n, reference, *loading)
        if self.solution == "stv_evd":
            heard = F.rtf_evd(psd_s)
        else:
            heard = F.rtf_power(psd_s, psd_n, reference, 3, *loading)
        return F.mvdr_weights_rtf(heard, psd_n, reference, *loading)

    def forward(self, specgram: Any, mask_s: Any, mask_n: Any = None) -> Any:
        """One spectrum `[..., frequencies, frames]` of several channels; without `mask_n` noise is the rest."""
        if specgram.dim() < 3 or not specgram.is_complex():
            required = "a complex spectrum [..., channels, frequencies, frames] was required"
            got = f"{specgram.dtype} {list(specgram.shape)}"
            fail(ValueError, "MVDR", required, got, hint="Spectrogram(power=None) gives one")
        if mask_n is None:
            warnings.warn("mask_n is not given: 1 - mask_s is taken", stacklevel=2)
            mask_n = 1 - mask_s
        x = specgram.to(core.complex128)
        densities = {"s": self.psd(x, mask_s), "n": self.psd(x, mask_n)}
        if self.online:
            masks = {"s": mask_s, "n": mask_n}
            densities = {k: self._joined(k, v, masks[k]) for k, v in densities.items()}
        reference = x.new_zeros(x.shape[:-2])
        reference[..., self.ref_channel] = 1
        weights = self._weights(densities["s"], densities["n"], reference)
        return F.apply_beamforming(weights, x).to(specgram.dtype)

"""Functions of samples and spectra."""

from .filters import (
    allpass_biquad,
    band_biquad,
    bandpass_biquad,
    bandreject_biquad,
    bass_biquad,
    biquad,
    contrast,
    convolve,
    dcshift,
    deemphasis,
    equalizer_biquad,
    fftconvolve,
    gain,
    highpass_biquad,
    lfilter,
    lowpass_biquad,
    overdrive,
    preemphasis,
    treble_biquad,
)
from .sequences import edit_distance, forced_align, rnnt_loss
from .spectra import (
    DB_to_amplitude,
    amplitude_to_DB,
    compute_deltas,
    create_dct,
    griffinlim,
    inverse_spectrogram,
    linear_fbanks,
    mask_along_axis,
    melscale_fbanks,
    mu_law_decoding,
    mu_law_encoding,
    phase_vocoder,
    resample,
    spectrogram,
)

__all__ = [
    "DB_to_amplitude", "allpass_biquad", "amplitude_to_DB", "band_biquad", "bandpass_biquad",
    "bandreject_biquad", "bass_biquad", "biquad", "compute_deltas", "contrast", "convolve", "create_dct",
    "dcshift", "deemphasis", "edit_distance", "equalizer_biquad", "fftconvolve", "forced_align", "gain",
    "griffinlim", "highpass_biquad", "inverse_spectrogram", "lfilter", "linear_fbanks", "lowpass_biquad",
    "mask_along_axis", "melscale_fbanks", "mu_law_decoding", "mu_law_encoding", "overdrive",
    "phase_vocoder", "preemphasis", "resample", "rnnt_loss", "spectrogram", "treble_biquad",
]  # fmt: skip

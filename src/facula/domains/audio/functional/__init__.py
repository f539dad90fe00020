"""Functions of samples and spectra."""

from .beamforming import (
    apply_beamforming,
    mvdr_weights_rtf,
    mvdr_weights_souden,
    psd,
    rtf_evd,
    rtf_power,
)
from .effects import (
    add_noise,
    deemph_biquad,
    dither,
    filtfilt,
    flanger,
    phaser,
    pitch_shift,
    riaa_biquad,
    speed,
)
from .features import frechet_distance, mask_along_axis_iid, sliding_window_cmn, spectral_centroid
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
from .sequences import TokenSpan, edit_distance, forced_align, merge_tokens, rnnt_loss
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
from .voice import detect_pitch_frequency, loudness, vad

__all__ = [
    "DB_to_amplitude", "TokenSpan", "add_noise", "allpass_biquad", "amplitude_to_DB",
    "apply_beamforming", "band_biquad", "bandpass_biquad", "bandreject_biquad", "bass_biquad",
    "biquad", "compute_deltas", "contrast", "convolve", "create_dct", "dcshift", "deemph_biquad",
    "deemphasis", "detect_pitch_frequency", "dither", "edit_distance", "equalizer_biquad",
    "fftconvolve", "filtfilt", "flanger", "forced_align", "frechet_distance", "gain", "griffinlim",
    "highpass_biquad", "inverse_spectrogram", "lfilter", "linear_fbanks", "loudness",
    "lowpass_biquad", "mask_along_axis", "mask_along_axis_iid", "melscale_fbanks", "merge_tokens",
    "mu_law_decoding", "mu_law_encoding", "mvdr_weights_rtf", "mvdr_weights_souden", "overdrive",
    "phase_vocoder", "phaser", "pitch_shift", "preemphasis", "psd", "resample", "riaa_biquad",
    "rnnt_loss", "rtf_evd", "rtf_power", "sliding_window_cmn", "spectral_centroid", "spectrogram",
    "speed", "treble_biquad", "vad",
]  # fmt: skip

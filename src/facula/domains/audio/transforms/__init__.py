"""Transforms of samples and spectra as modules."""

from .beamforming import MVDR, PSD, RTFMVDR, SoudenMVDR
from .effects import (
    AddNoise,
    Convolve,
    Deemphasis,
    FFTConvolve,
    Loudness,
    PitchShift,
    Preemphasis,
    RNNTLoss,
    Speed,
    SpeedPerturbation,
    Vad,
)
from .features import LFCC, InverseMelScale, SlidingWindowCmn, SpecAugment, SpectralCentroid
from .spectra import (
    MFCC,
    AmplitudeToDB,
    ComputeDeltas,
    Fade,
    FrequencyMasking,
    GriffinLim,
    InverseSpectrogram,
    MelScale,
    MelSpectrogram,
    MuLawDecoding,
    MuLawEncoding,
    Resample,
    Spectrogram,
    TimeMasking,
    TimeStretch,
    Vol,
)

__all__ = [
    "AddNoise", "AmplitudeToDB", "ComputeDeltas", "Convolve", "Deemphasis", "FFTConvolve", "Fade",
    "FrequencyMasking", "GriffinLim", "InverseMelScale", "InverseSpectrogram", "LFCC", "Loudness", "MFCC",
    "MVDR", "MelScale", "MelSpectrogram", "MuLawDecoding", "MuLawEncoding", "PSD", "PitchShift",
    "Preemphasis", "RNNTLoss", "RTFMVDR", "Resample", "SlidingWindowCmn", "SoudenMVDR", "SpecAugment",
    "SpectralCentroid", "Spectrogram", "Speed", "SpeedPerturbation", "TimeMasking", "TimeStretch", "Vad",
    "Vol",
]  # fmt: skip

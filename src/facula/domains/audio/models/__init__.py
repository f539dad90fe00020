"""Networks for speech, with torchaudio's names of parameters.

Takes: samples, or features of them. Gives: `Conformer`, and `Wav2Vec2Model` with its usual sizes.
"""

from .conformer import Conformer
from .wav2vec2 import (
    Wav2Vec2Model,
    wav2vec2_base,
    wav2vec2_large,
    wav2vec2_large_lv60k,
    wav2vec2_model,
)

__all__ = [
    "Conformer",
    "Wav2Vec2Model",
    "wav2vec2_base",
    "wav2vec2_large",
    "wav2vec2_large_lv60k",
    "wav2vec2_model",
]

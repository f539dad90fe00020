"""Sound in files: WAV by hand (integers of 8 to 32 bits, floats), other formats by soundfile.

Takes: paths or binary streams. Gives: samples `[channels, time]` and the rate.
Keeps true: a file is there whole or not at all; what is broken is an error that names the file.
"""

from __future__ import annotations

import contextlib
import io
import os
import struct
from collections.abc import Iterator
from typing import Any, BinaryIO, NamedTuple

from facula import core
from facula.core.errors import fail, said, system_kind
from facula.ops.table.registry import F
from facula.serialization.files import written_atomically

from .._extras import extra

__all__ = ["AudioMetaData", "info", "load", "save"]

_PCM, _FLOAT, _EXTENSIBLE = 1, 3, 0xFFFE
#: ways of writing samples in WAV files that are for soundfile to read: ADPCM, A-law, mu-law, GSM, ...
_COMPRESSED = (0x02, 0x06, 0x07, 0x11, 0x31, 0x40, 0x55)


class AudioMetaData(NamedTuple):
    """What a file says of itself."""

    sample_rate: int
    num_frames: int
    num_channels: int
    bits_per_sample: int
    encoding: str


class _Wav(NamedTuple):
    kind: int
    channels: int
    rate: int
    bits: int
    data: bytes

    @property
    def frames(self) -> int:
        """Samples of each channel."""
        return len(self.data) // (self.channels * self.bits // 8)


def _broken(op: str, name: str, what: str) -> Any:
    hint = "the file is cut off, damaged, or of another format"
    fail(RuntimeError, op, "a whole WAV file was required", f"{name}: {what}", hint=hint)


def _read_wav(op: str, name: str, content: bytes) -> _Wav | None:
    """The parts of a WAV file; None where its numbers are written in a way that is for soundfile to read."""
    place, form, data = 12, None, None
    while place + 8 <= len(content):
        word, size = content[place : place + 4], struct.unpack_from("<I", content, place + 4)[0]
        part = content[place + 8 : place + 8 + size]
        if word == b"data" and form is not None:
            if len(part) < size and size not in (0xFFFFFFFF, 0):
                _broken(op, name, f"{len(part)} bytes of sound, where {size} were announced")
            data = part if size else content[place + 8 :]
            break
        if word == b"fmt ":
            if len(part) < 16:
                _broken(op, name, "a format of too few bytes")
            form = part
        place += 8 + size + size % 2
    if form is None or data is None:
        return _broken(op, name, "no sound in it")
    kind, channels, rate, _, align, bits = struct.unpack("<HHIIHH", form[:16])
    if kind == _EXTENSIBLE and len(form) >= 26:
        kind = struct.unpack_from("<H", form, 24)[0]
    if kind in _COMPRESSED:
        return None
    known = (kind == _PCM and bits in (8, 16, 24, 32)) or (kind == _FLOAT and bits in (32, 64))
    if not known or not channels or not rate or align != channels * bits // 8:
        _broken(op, name, f"format {kind} of {bits} bits, {channels} channels, {rate} Hz")
    return _Wav(kind, channels, rate, bits, data[: len(data) // align * align])


def _samples(wav: _Wav, begin: int, count: int) -> Any:
    """Whole numbers or floats `[count, channels]`, as they stand in the file."""
    step = wav.channels * wav.bits // 8
    stop = wav.frames if count < 0 else min(begin + count, wav.frames)
    raw = bytearray(wav.data[begin * step : max(stop, begin) * step])
    shape = (len(raw) // step, wav.channels)
    if not raw:
        return F.zeros(shape, dtype=core.int16 if wav.kind == _PCM else core.float32)
    if wav.kind == _FLOAT:
        dtype = core.float32 if wav.bits == 32 else core.float64
        return core.frombuffer(raw, dtype=dtype).reshape(shape)
    if wav.bits == 24:
        part = core.frombuffer(raw, dtype=core.uint8).reshape((-1, 3)).to(core.int32)
        whole = part[:, 0] * 256 + part[:, 1] * 65536 + part[:, 2] * 16777216
        return whole.reshape(shape)
    dtype = {8: core.uint8, 16: core.int16, 32: core.int32}[wav.bits]
    return core.frombuffer(raw, dtype=dtype).reshape(shape)


def _scaled(samples: core.Tensor) -> Any:
    """Floats in [-1, 1]."""
    if samples.dtype.is_floating_point:
        return samples.to(core.float32)
    if samples.dtype is core.uint8:
        return (samples.to(core.float32) - 128) / 128
    return samples.to(core.float32) / (core.iinfo(samples.dtype).max + 1)


def _content(op: str, source: Any) -> tuple[str, bytes]:
    if not hasattr(source, "read") and not isinstance(source, (str, bytes, os.PathLike)):
        hint = "a path, or what open(path, 'rb') gives"
        fail(TypeError, op, "a path or a binary stream was required", type(source).__name__, hint)
    name = str(
        getattr(source, "name", "a stream") if hasattr(source, "read") else os.fsdecode(source)
    )
    try:
        if hasattr(source, "read"):
            content = source.read()
        else:
            with open(source, "rb") as file:
                content = file.read()
    except OSError as error:
        got, hint = f"{name}: {error.strerror or said(error)}", "check the path"
        fail(
            system_kind(error, OSError), op, "a file that can be read was required", got, hint=hint
        )
    except ValueError as error:  # a path with a byte of zero, a closed stream
        got, hint = f"{name!r}: {said(error)}", "check the path"
        fail(ValueError, op, "a file that can be read was required", got, hint=hint)
    if not isinstance(content, (bytes, bytearray, memoryview)):
        hint = "open(path, 'rb') gives bytes"
        fail(
            TypeError,
            op,
            "a stream of bytes was required",
            f"{name}: {type(content).__name__}",
            hint,
        )
    return name, bytes(content)


def _is_wav(content: bytes) -> bool:
    return content[:4] == b"RIFF" and content[8:12] == b"WAVE"


@contextlib.contextmanager
def _other(op: str, name: str, content: bytes) -> Iterator[Any]:
    """soundfile's view of a file; what it finds broken, then or later, is an error that names the file."""
    library = extra("soundfile", op)
    try:
        with library.SoundFile(_Bytes(content)) as file:
            yield file
    except (library.LibsndfileError, RuntimeError, TypeError, ValueError) as error:
        hint = "the file is cut off, damaged, or of an unknown format"
        text = said(error).removeprefix("Error opening it: ")
        fail(RuntimeError, op, "a file of sound was required", f"{name}: {text}", hint=hint)


class _Bytes(io.BytesIO):
    """A file in memory that stays where it is when it is sent before its beginning: soundfile reads damaged files
    so, and prints what a function that it calls raises.
    """

    def seek(self, offset: int, whence: int = 0) -> int:
        try:
            return super().seek(offset, whence)
        except ValueError:
            return self.tell()


def load(
    uri: object,
    frame_offset: int = 0,
    num_frames: int = -1,
    normalize: bool = True,
    channels_first: bool = True,
    format: str | None = None,
    buffer_size: int = 4096,
    backend: str | None = None,
) -> tuple[Any, int]:
    """Samples `[channels, time]` and the rate.

    Args:
        frame_offset, num_frames: which part; -1 is all of the rest.
        normalize: floats in [-1, 1], or numbers as they stand in a WAV file.
        buffer_size, backend: as in torchaudio, without effect.
    """
    if frame_offset < 0 or num_frames < -1 or num_frames == 0:
        got = f"{frame_offset} and {num_frames}"
        required = "an offset of at least 0, and -1 or a positive number of frames, were required"
        fail(ValueError, "audio.load", required, got, hint="-1 is all of the rest")
    name, content = _content("audio.load", uri)
    wav = _read_wav("audio.load", name, content) if _is_wav(content) else None
    if wav is not None:
        samples, rate = _samples(wav, frame_offset, num_frames), wav.rate
        samples = _scaled(samples) if normalize else samples
    else:
        with _other("audio.load", name, content) as file:
            rate = file.samplerate
            if file.seekable():
                file.seek(min(frame_offset, file.frames))
            elif frame_offset:
                file.read(frame_offset, dtype="float32")
            count = num_frames if num_frames >= 0 or file.seekable() else file.frames
            samples = core.from_numpy(file.read(count, dtype="float32", always_2d=True))
    return (samples.t().contiguous() if channels_first else samples), rate


def info(uri: object, format: str | None = None) -> AudioMetaData:
    """Rate, length, channels, bits and encoding of a file."""
    name, content = _content("audio.info", uri)
    wav = _read_wav("audio.info", name, content) if _is_wav(content) else None
    if wav is not None:
        kind = "PCM_F" if wav.kind == _FLOAT else "PCM_U" if wav.bits == 8 else "PCM_S"
        return AudioMetaData(wav.rate, wav.frames, wav.channels, wav.bits, kind)
    with _other("audio.info", name, content) as file:
        return AudioMetaData(file.samplerate, file.frames, file.channels, 0, file.subtype)


def save(
    uri: Any,
    src: core.Tensor,
    sample_rate: int,
    channels_first: bool = True,
    format: str | None = None,
    encoding: str | None = None,
    bits_per_sample: int | None = None,
    buffer_size: int = 4096,
    backend: str | None = None,
    compression: float | int | None = None,
) -> None:
    """Samples as a file: WAV of 32-bit floats unless something else is asked for (integers by their dtype).

    Args:
        encoding, bits_per_sample: how samples are written.
        buffer_size, backend: as in torchaudio, without effect.
        compression: from 0 to 1, for formats that have levels (soundfile's `compression_level`).
    """
    _check_samples(src, sample_rate)
    samples = src[None] if src.dim() == 1 else src
    samples = samples.t() if channels_first or src.dim() == 1 else samples
    kind = format or ("wav" if hasattr(uri, "write") else os.path.splitext(os.fspath(uri))[1][1:])
    samples = samples.detach().cpu()
    if kind.lower() in ("", "wav"):
        content = _wav_bytes(samples, int(sample_rate), encoding, bits_per_sample)
    else:
        level = {} if compression is None else {"compression_level": compression}
        settings = (int(sample_rate), kind.upper(), encoding, bits_per_sample, level)
        content = _other_bytes(samples, *settings)
    _write(uri, content)


def _check_samples(src: Any, rate: Any) -> None:
    if not isinstance(src, core.Tensor):
        hint = "facula.tensor() makes one"
        fail(TypeError, "audio.save", "a tensor was required", type(src).__name__, hint=hint)
    if src.dim() not in (1, 2):
        required, hint = "samples [channels, time] were required", "one recording at a time"
        fail(ValueError, "audio.save", required, list(src.shape), hint=hint)
    if not 1 <= rate < 2**32 or rate != int(rate):
        required, hint = "a whole number of samples a second was required", "44100 is that of discs"
        fail(ValueError, "audio.save", required, rate, hint=hint)


def _other_bytes(
    samples: Any,
    rate: int,
    kind: str,
    encoding: str | None,
    bits: int | None,
    level: dict[str, float],
) -> bytes:
    """A file of a format that soundfile writes."""
    library, subtype = extra("soundfile", "audio.save"), encoding
    if encoding in (None, "PCM_S") and bits is not None:
        subtype = f"PCM_{bits}" if bits > 8 else "PCM_S8"
    elif encoding == "PCM_S":
        subtype = "PCM_16"
    elif encoding == "PCM_F":
        subtype = "DOUBLE" if bits == 64 else "FLOAT"
    if not len(samples):  # what soundfile writes then it cannot read
        hint = "format='wav' takes none"
        fail(ValueError, "audio.save", "samples were required", list(samples.shape), hint=hint)
    stream = io.BytesIO()
    try:
        library.write(stream, samples.numpy(), rate, format=kind, subtype=subtype, **level)
    except (library.LibsndfileError, RuntimeError, TypeError, ValueError) as error:
        required = f"samples and settings that {kind} takes were required"
        got = f"{error} (shape {list(samples.shape)}, {samples.dtype}, encoding {encoding}, bits {bits})"
        fail(ValueError, "audio.save", required, got, hint="format='wav' takes most")
    return stream.getvalue()


def _write(uri: str | os.PathLike[str] | BinaryIO, content: bytes) -> None:
    if not isinstance(uri, (str, os.PathLike)):
        uri.write(content)
        return
    with written_atomically(uri) as file:
        file.write(content)


def _wav_bytes(samples: core.Tensor, rate: int, encoding: str | None, bits: int | None) -> bytes:
    whole = {core.uint8: 8, core.int16: 16, core.int32: 32}.get(samples.dtype)
    floats = encoding == "PCM_F" or (encoding is None and bits in (None, 64) and whole is None)
    bits = bits or (whole if whole and not floats else 32 if floats else 16)
    taken = {"PCM_F": (32, 64), "PCM_S": (16, 24, 32), "PCM_U": (8,)}
    if encoding not in (None, *taken) or bits not in taken[
        encoding or ("PCM_F" if floats else "PCM_S")
    ] + (8,) * (encoding is None):
        required = "PCM_S of 16, 24 or 32 bits, PCM_U of 8 or PCM_F of 32 or 64 were required"
        fail(
            ValueError, "audio.save", required, f"{encoding} of {bits} bits", hint="leave both out"
        )
    data = _numbers(samples, floats, bits)
    align = samples.shape[1] * bits // 8
    kind = _FLOAT if floats else _PCM
    form = struct.pack("<HHIIHH", kind, samples.shape[1], rate, rate * align, align, bits)
    head = struct.pack("<4sI4s4sI", b"RIFF", 36 + len(data), b"WAVE", b"fmt ", 16)
    return head + form + struct.pack("<4sI", b"data", len(data)) + data + b"\0" * (len(data) % 2)


def _numbers(samples: core.Tensor, floats: bool, bits: int) -> bytes:
    """The bytes of samples in a format."""
    samples = samples.contiguous()
    if floats:
        values = _scaled(samples) if not samples.dtype.is_floating_point else samples
        return bytes(values.to(core.float32 if bits == 32 else core.float64).numpy().tobytes())
    if samples.dtype.is_floating_point:
        if not samples.isfinite().all():
            required, hint = (
                "samples that are numbers were required",
                "encoding='PCM_F' keeps others",
            )
            fail(ValueError, "audio.save", required, "inf or nan", hint=hint)
        scale = 2.0 ** (bits - 1)
        values = (samples.to(core.float64) * scale).round().clamp(-scale, scale - 1)
        values = values.to(core.int64)
    else:
        given = core.iinfo(samples.dtype).bits
        values = samples.to(core.int64) - (128 if samples.dtype is core.uint8 else 0)
        values = values << (bits - given) if bits >= given else values >> (given - bits)
    if bits == 8:
        return bytes((values + 128).to(core.uint8).numpy().tobytes())
    if bits == 24:
        low = values.to(core.int32).contiguous().reshape((-1,)).view(core.uint8).reshape((-1, 4))
        return bytes(low[:, :3].contiguous().numpy().tobytes())
    return bytes(values.to({16: core.int16, 32: core.int32}[bits]).numpy().tobytes())

"""Decoders: values out of the bytes of files, by the ends of their names.

Takes extensions and bytes. Gives values, or None where the extension is not theirs.
Keeps true: nothing is unpickled, since a pickle of another's runs what it likes.
"""

from __future__ import annotations

import io
import json
import os.path
import tempfile
from collections.abc import Callable, Mapping
from typing import Any

import facula
from facula.core.errors import fail, said
from facula.data.datapipes.further import extra
from facula.data.datapipes.utils.common import StreamWrapper

__all__ = [
    "Decoder",
    "ImageHandler",
    "MatHandler",
    "audiohandler",
    "basichandlers",
    "extension_extract_fn",
    "handle_extension",
    "imagehandler",
    "mathandler",
    "videohandler",
]

_IMAGES = frozenset("jpg jpeg png ppm pgm pbm pnm".split())
_VIDEOS = frozenset("mp4 ogv mjpeg avi mov h264 mpg webm wmv".split())
_SOUNDS = frozenset("flac mp3 sox wav m4a ogg wma".split())
#: name -> what is made, of which type, in which mode
_IMAGE_KINDS = {
    f"{made}{mode}{depth}": (made or "numpy", "uint8" if depth or made == "pil" else "float", mode)
    for made in ("", "torch", "pil")
    for mode in ("l", "rgb", "rgba")
    for depth in (("", "8") if made != "pil" else ("",))
} | {
    "torch": ("torch", "float", "rgb"),
    "torch8": ("torch", "uint8", "rgb"),
    "pil": ("pil", "uint8", "rgb"),
}


def basichandlers(extension: str, data: Any) -> Any:
    """Texts, numbers of classes, JSON, and tensors that `save` wrote."""
    kind = extension.rpartition(".")[2]
    if kind in ("txt", "text", "transcript"):
        return data.decode("utf-8")
    if kind in ("cls", "cls2", "class", "count", "index", "inx", "id"):
        try:
            return int(data)
        except ValueError:
            return None
    if kind in ("json", "jsn"):
        return json.loads(data)
    if kind == "pt":
        return facula.load(io.BytesIO(data), weights_only=True)
    if kind in ("pyd", "pickle"):
        fail(
            ValueError,
            "routed_decode",
            "a format that holds data alone was required: unpickling runs what the file says",
            f".{kind}",
            hint="for files that you trust pass a handler of your own before this one",
        )
    return None


def handle_extension(extensions: str, f: Callable[[Any], Any]) -> Callable[[str, Any], Any]:
    """A handler that calls a function for some extensions, which stand in one text."""
    wanted = [each.split(".") for each in extensions.lower().split()]

    def handle(key: str, data: object) -> Any:
        parts = key.lower().split(".")
        if any(parts[-len(each) :] == each for each in wanted):
            return f(data)
        return None

    return handle


class ImageHandler:
    """Images of common formats, as arrays, tensors or of the Python Imaging Library.

    `imagespec` is "l", "rgb" or "rgba", with "8" behind it for integers (else floats up to 1), with
    "torch" (channels first) or "pil" in front.
    """

    def __init__(self, imagespec: str) -> None:
        if imagespec not in _IMAGE_KINDS:
            fail(
                AssertionError,
                "imagehandler",
                f"unknown image specification, one of {sorted(_IMAGE_KINDS)} was required",
                imagespec,
                hint="'torchrgb' gives tensors of floats",
            )
        self.imagespec = imagespec

    def __call__(self, extension: str, data: Any) -> Any:
        if extension.lower() not in _IMAGES:
            return None
        import numpy

        made, kind, mode = _IMAGE_KINDS[self.imagespec]
        image = extra("PIL.Image", "imagehandler").open(io.BytesIO(data))
        image.load()
        image = image.convert(mode.upper())
        if made == "pil":
            return image
        array = numpy.array(image)
        if kind == "float":
            array = array.astype("f") / numpy.float32(255)
        if made == "numpy":
            return array
        tensor = facula.from_numpy(array)
        return (tensor.permute(2, 0, 1) if tensor.ndim == 3 else tensor).contiguous()


def imagehandler(imagespec: str) -> ImageHandler:
    """A handler of images."""
    return ImageHandler(imagespec)


def _in_a_file(extension: str, data: Any, read: Callable[[str], Any]) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, f"file.{extension}")
        with open(path, "wb") as file:
            file.write(data)
        return read(path)


def videohandler(extension: str, data: object) -> Any:
    """Videos, by torchvision."""
    if extension.lower() not in _VIDEOS:
        return None
    return _in_a_file(extension, data, extra("torchvision.io", "videohandler").read_video)


def audiohandler(extension: str, data: object) -> Any:
    """Sounds, by torchaudio."""
    if extension.lower() not in _SOUNDS:
        return None
    return _in_a_file(extension, data, extra("torchaudio", "audiohandler").load)


class MatHandler:
    """Files of MATLAB, by SciPy."""

    def __init__(self, **loadmat_kwargs: Any) -> None:
        self.loadmat_kwargs = loadmat_kwargs

    def __call__(self, extension: str, data: Any) -> Any:
        if extension != "mat":
            return None
        return extra("scipy.io", "mathandler").loadmat(io.BytesIO(data), **self.loadmat_kwargs)


def mathandler(**loadmat_kwargs: Any) -> MatHandler:
    """A handler of files of MATLAB."""
    return MatHandler(**loadmat_kwargs)


def _is_ours(handler: object) -> bool:
    """Whether a handler is one of this module: what others raise is their own."""
    classes = (ImageHandler, MatHandler)
    return isinstance(handler, classes) or handler in (basichandlers, videohandler, audiohandler)


def extension_extract_fn(pathname: str) -> str:
    """The extension of a path, without the dot."""
    return os.path.splitext(pathname)[1][1:]


class Decoder:
    """Asks handlers in turn, the newest first, until one has a value.

    Takes a pair of a path and bytes or a stream, or a mapping of keys to such; gives a mapping.
    """

    def __init__(self, *handler: Any, key_fn: Callable[[str], str] = extension_extract_fn) -> None:
        self.handlers = list(handler)
        self.key_fn = key_fn

    def add_handler(self, *handler: Any) -> None:
        """Ask these functions first."""
        self.handlers = [*handler, *self.handlers]

    @staticmethod
    def _is_stream_handle(data: object) -> bool:
        inner = data.file_obj if isinstance(data, StreamWrapper) else data
        return isinstance(inner, (io.BufferedIOBase, io.RawIOBase)) or hasattr(inner, "read")

    def decode1(self, key: str, data: object, name: str = "") -> Any:
        """The value of one entry; what no handler knows stays as it is.

        Raises:
            ValueError, RuntimeError: a handler of this module finds the data of the file `name` broken.
        """
        if not data:
            return data
        if isinstance(data, (str, dict, list, tuple, int, float)):
            return data
        for handler in self.handlers:
            try:
                result = handler(key, data)
            except (ModuleNotFoundError, MemoryError):
                raise
            except Exception as error:  # of any of the libraries that decode
                if not _is_ours(handler) or str(error).startswith("[routed_decode]"):
                    raise
                fail(
                    ValueError if isinstance(error, ValueError) else RuntimeError,
                    "routed_decode",
                    f"data that can be decoded as .{key} were required in {name or 'it'}",
                    said(error),
                    hint="the file may be cut off, damaged, or of another format",
                )
            if result is not None:
                return result
        return data

    def decode(self, data: Any) -> dict[str, Any]:
        """The values of a pair or of a mapping."""
        pairs = data.items() if isinstance(data, Mapping) else [data]
        result: dict[str, Any] = {}
        for name, value in pairs:
            if isinstance(name, str) and name.startswith("__"):
                result[name] = value.decode("utf-8") if isinstance(value, bytes) else value
                continue
            if self._is_stream_handle(value):
                stream, value = value, value.read()
                stream.close()
            result[name] = self.decode1(self.key_fn(name), value, name)
        return result

    def __call__(self, data: Any) -> dict[str, Any]:
        return self.decode(data)

"""Datasets of images on this machine: folders of classes, MNIST's and CIFAR's files, made-up images.

Takes: a folder. Gives: pairs of an image and a class.
Keeps true: nothing is fetched and nothing is unpickled but CIFAR's dictionaries of arrays, by a reader that makes no
other object; what is broken is an error that names the file.
"""

from __future__ import annotations

import gzip
import os
import pickle
import struct
from collections.abc import Callable
from typing import Any

from facula import core
from facula.core.errors import fail, said
from facula.data import Dataset
from facula.ops.table.registry import F

from .._extras import extra
from .transforms.functional import to_pil_image

__all__ = [
    "CIFAR10", "CIFAR100", "DatasetFolder", "FakeData", "FashionMNIST", "ImageFolder", "KMNIST", "MNIST",
    "VisionDataset",
]  # fmt: skip

EXTENSIONS = (".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp")


class VisionDataset(Dataset[Any]):
    """Images and classes, each with a transform."""

    def __init__(
        self,
        root: str | os.PathLike[str],
        transform: Callable[[Any], Any] | None = None,
        target_transform: Callable[[Any], Any] | None = None,
    ) -> None:
        self.root = os.path.expanduser(os.fspath(root))
        self.transform, self.target_transform = transform, target_transform

    def _given(self, image: object, target: object) -> tuple[Any, Any]:
        if self.transform is not None:
            image = self.transform(image)
        if self.target_transform is not None:
            target = self.target_transform(target)
        return image, target


def pil_loader(path: str) -> Any:
    """A file as an image of three channels."""
    try:
        with open(path, "rb") as file:
            return extra("PIL.Image", "ImageFolder").open(file).convert("RGB")
    except (ModuleNotFoundError, MemoryError):
        raise
    except Exception as error:  # Pillow has many, its error for bombs among them
        required, hint = (
            "an image that can be read was required",
            "the file is cut off, damaged, or no image",
        )
        fail(RuntimeError, "ImageFolder", required, f"{path}: {said(error)}", hint=hint)


class DatasetFolder(VisionDataset):
    """A folder for each class, with its files below."""

    def __init__(
        self,
        root: str | os.PathLike[str],
        loader: Callable[[str], Any],
        extensions: tuple[str, ...] | None = None,
        transform: Callable[[Any], Any] | None = None,
        target_transform: Callable[[Any], Any] | None = None,
        is_valid_file: Callable[[str], bool] | None = None,
        allow_empty: bool = False,
    ) -> None:
        super().__init__(root, transform, target_transform)
        self.loader, self.extensions = loader, extensions
        self.classes, self.class_to_idx = self.find_classes(self.root)
        taken = is_valid_file or (lambda path: path.lower().endswith(extensions or ("",)))
        self.samples = self._found(taken, allow_empty)
        self.targets = [target for _, target in self.samples]

    @staticmethod
    def find_classes(directory: str) -> tuple[list[str], dict[str, int]]:
        """The names of the folders, and their numbers."""
        try:
            names = sorted(entry.name for entry in os.scandir(directory) if entry.is_dir())
        except OSError as error:
            got, hint = (
                f"{directory}: {error.strerror}",
                "give the folder above those of the classes",
            )
            fail(FileNotFoundError, "DatasetFolder", "a folder was required", got, hint=hint)
        if not names:
            required = f"a folder for each class was required (Couldn't find any class folder in {directory})"
            fail(
                FileNotFoundError,
                "DatasetFolder",
                required,
                "none",
                hint="make root/class/image.png",
            )
        return names, {name: i for i, name in enumerate(names)}

    def _found(self, taken: Callable[[str], bool], allow_empty: bool) -> list[tuple[str, int]]:
        found: list[tuple[str, int]] = []
        empty: list[str] = []
        for name, number in self.class_to_idx.items():
            before = len(found)
            for folder, _, files in sorted(
                os.walk(os.path.join(self.root, name), followlinks=True)
            ):
                paths = [os.path.join(folder, file) for file in sorted(files)]
                found += [(path, number) for path in paths if taken(path)]
            empty += [name] if len(found) == before else []
        if empty and not allow_empty:
            required = "a file for each class was required (Found no valid file)"
            hint = "allow_empty=True passes over them"
            fail(
                FileNotFoundError,
                "DatasetFolder",
                required,
                f"none for {', '.join(empty)}",
                hint=hint,
            )
        return found

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        path, target = self.samples[index]
        return self._given(self.loader(path), target)

    def __len__(self) -> int:
        return len(self.samples)


class ImageFolder(DatasetFolder):
    """A folder for each class, with its images below."""

    def __init__(
        self,
        root: str | os.PathLike[str],
        transform: Callable[[Any], Any] | None = None,
        target_transform: Callable[[Any], Any] | None = None,
        loader: Callable[[str], Any] = pil_loader,
        is_valid_file: Callable[[str], bool] | None = None,
        allow_empty: bool = False,
    ) -> None:
        kinds = None if is_valid_file else EXTENSIONS
        settings = (transform, target_transform, is_valid_file, allow_empty)
        super().__init__(root, loader, kinds, *settings)
        self.imgs = self.samples


class FakeData(VisionDataset):
    """Images of random numbers, the same ones for the same number."""

    def __init__(
        self,
        size: int = 1000,
        image_size: tuple[int, int, int] = (3, 224, 224),
        num_classes: int = 10,
        transform: Callable[[Any], Any] | None = None,
        target_transform: Callable[[Any], Any] | None = None,
        random_offset: int = 0,
    ) -> None:
        super().__init__("", transform, target_transform)
        self.size, self.image_size = size, image_size
        self.num_classes, self.random_offset = num_classes, random_offset

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        if not 0 <= index < self.size:
            raise IndexError(f"{self.__class__.__name__} index out of range")
        source = core.Generator().manual_seed(index + self.random_offset)
        pixels = F.randn(self.image_size, generator=source)
        target = int(F.randint(0, self.num_classes, (1,), generator=source).item())
        return self._given(to_pil_image(pixels.clamp(0, 1)), target)

    def __len__(self) -> int:
        return self.size


def _opened(name: str, path: str) -> Any:
    for place, opener in ((path, open), (path + ".gz", gzip.open)):
        if os.path.exists(place):
            return opener(place, "rb")
    hint = "put the files there; nothing is fetched"
    fail(RuntimeError, name, "the file was required (Dataset not found)", path, hint=hint)


def read_idx(path: str) -> Any:
    """The numbers of a file in MNIST's format (IDX), compressed or not."""
    with _opened("MNIST", path) as file:
        try:
            data = file.read()
        except (OSError, EOFError) as error:
            fail(
                RuntimeError,
                "MNIST",
                "a whole file was required",
                f"{path}: {error}",
                hint="fetch it again",
            )
    dims = data[3] if len(data) > 4 else 0
    sizes = struct.unpack(f">{dims}I", data[4 : 4 + 4 * dims]) if len(data) >= 4 + 4 * dims else ()
    if data[:3] != b"\0\0\x08" or not dims or len(data) - 4 - 4 * dims != _product(sizes):
        required = "a file of bytes in IDX format was required"
        fail(
            RuntimeError,
            "MNIST",
            required,
            f"{path}: {len(data)} bytes",
            hint="it is cut off, or another file",
        )
    return core.frombuffer(bytearray(data[4 + 4 * dims :]), dtype=core.uint8).reshape(sizes)


def _product(sizes: tuple[Any, ...]) -> int:
    total = 1
    for size in sizes:
        total *= size
    return total


class MNIST(VisionDataset):
    """Digits, out of the four files of the original."""

    def __init__(
        self,
        root: str | os.PathLike[str],
        train: bool = True,
        transform: Callable[[Any], Any] | None = None,
        target_transform: Callable[[Any], Any] | None = None,
        download: bool = False,
    ) -> None:
        super().__init__(root, transform, target_transform)
        _no_download(type(self).__name__, download)
        self.train, part = train, "train" if train else "t10k"
        folder = os.path.join(self.root, type(self).__name__, "raw")
        folder = folder if os.path.isdir(folder) else self.root
        self.data = read_idx(os.path.join(folder, f"{part}-images-idx3-ubyte"))
        self.targets = read_idx(os.path.join(folder, f"{part}-labels-idx1-ubyte")).to(core.int64)
        if len(self.data) != len(self.targets):
            got = f"{len(self.data)} images, {len(self.targets)} labels in {folder}"
            fail(
                RuntimeError,
                "MNIST",
                "as many labels as images were required",
                got,
                hint="fetch them again",
            )

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        return self._given(to_pil_image(self.data[index]), int(self.targets[index]))

    def __len__(self) -> int:
        return len(self.data)


class FashionMNIST(MNIST):
    """Clothes, in files like MNIST's."""


class KMNIST(MNIST):
    """Characters, in files like MNIST's."""


def _no_download(name: str, download: bool) -> None:
    if download:
        hint = "put the files into the folder yourself"
        fail(ValueError, name, "download=False was required", "True: nothing is fetched", hint=hint)


class _Arrays(pickle.Unpickler):
    """Reads dictionaries of NumPy's arrays, and nothing else."""

    ALLOWED = frozenset({"_reconstruct", "ndarray", "dtype", "_frombuffer", "scalar"})

    def find_class(self, module: str, name: str) -> Any:
        if module.partition(".")[0] != "numpy" or name not in self.ALLOWED:
            required = "a dictionary of arrays was required"
            fail(
                RuntimeError,
                "CIFAR10",
                required,
                f"{module}.{name}",
                hint="the file is another one",
            )
        return super().find_class(module.replace("numpy.core", "numpy._core"), name)


class CIFAR10(VisionDataset):
    """Small photographs of ten classes, out of the files of the original."""

    folder, label = "cifar-10-batches-py", b"labels"
    files = ([f"data_batch_{i}" for i in range(1, 6)], ["test_batch"])

    def __init__(
        self,
        root: str | os.PathLike[str],
        train: bool = True,
        transform: Callable[[Any], Any] | None = None,
        target_transform: Callable[[Any], Any] | None = None,
        download: bool = False,
    ) -> None:
        super().__init__(root, transform, target_transform)
        _no_download(type(self).__name__, download)
        self.train, pixels = train, []
        self.targets: list[int] = []
        for name in self.files[0 if train else 1]:
            path = os.path.join(self.root, self.folder, name)
            with _opened("CIFAR10", path) as file:
                try:
                    found = _Arrays(file, encoding="bytes").load()
                    pixels.append(found[b"data"].reshape(-1, 3, 32, 32))
                    self.targets += list(found[self.label])
                except (
                    pickle.UnpicklingError,
                    EOFError,
                    KeyError,
                    ValueError,
                    TypeError,
                    AttributeError,
                ) as error:
                    got, hint = f"{path}: {error}", "the file is cut off, or another one"
                    fail(RuntimeError, "CIFAR10", "a batch of CIFAR was required", got, hint=hint)
            if sum(map(len, pixels)) != len(self.targets):
                got = f"{path}: {len(pixels[-1])} images and {len(found[self.label])} classes"
                hint = "the file is another one"
                fail(RuntimeError, "CIFAR10", "a class for each image was required", got, hint=hint)
        # lazily: importing facula imports no NumPy
        import numpy

        self.data = numpy.concatenate(pixels).transpose(0, 2, 3, 1)

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        return self._given(to_pil_image(self.data[index]), self.targets[index])

    def __len__(self) -> int:
        return len(self.data)


class CIFAR100(CIFAR10):
    """Small photographs of a hundred classes."""

    folder, label, files = "cifar-100-python", b"fine_labels", (["train"], ["test"])

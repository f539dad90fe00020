"""Files of TensorBoard's projector: points, their labels and their pictures.

Takes: points, labels, pictures. Gives: a folder with them, and an entry in the folder's table of
contents. Keeps true: a label belongs to each point, a picture too.
"""

from __future__ import annotations

import json
import math
import os
from typing import Any

import numpy as np

from facula.core.errors import fail
from facula.utils.tensorboard._arrays import array_of, colors, png, tiles

__all__ = ["write_embedding"]


def _labels(metadata: Any, header: Any) -> str:
    if not header:
        return "".join(f"{label}\n" for label in metadata)
    if len(header) != len(metadata[0]):
        fail(
            AssertionError,
            "add_embedding",
            "a value for each name in metadata_header was required "
            "(len of header must be equal to the number of columns in metadata)",
            f"{len(header)} names, {len(metadata[0])} values",
            "each entry of metadata is a list of values",
        )
    rows = [header, *metadata]
    return "".join("\t".join(str(cell) for cell in row) + "\n" for row in rows)


def _sprite(pictures: Any) -> bytes:
    """All pictures in one square image."""
    side = math.ceil(math.sqrt(len(pictures)))
    sheet = tiles(pictures, side)
    high = side * pictures.shape[2]
    full = np.zeros((3, high, sheet.shape[2]), sheet.dtype)
    full[:, : sheet.shape[1]] = sheet
    return png(colors(full.transpose(1, 2, 0)))


def write_embedding(
    folder: str, mat: Any, metadata: Any, label_img: Any, global_step: int | None, tag: str,
    metadata_header: Any,
) -> str:  # fmt: skip
    """Writes the files, and returns the entry for `projector_config.pbtxt`."""
    points = array_of(mat)
    if points.ndim != 2:
        fail(
            AssertionError,
            "add_embedding",
            "mat of 2 dimensions was required (mat should be 2D)",
            f"shape {points.shape}",
            "mat[i] is the place of point i",
        )
    step = f"{0 if global_step is None else int(global_step):05d}"
    escaped = "".join(c if c.isalnum() or c in "-_." else f"%{ord(c):02x}" for c in tag)
    inner = f"{step}/{escaped}"
    place = os.path.join(folder, inner)
    os.makedirs(place, exist_ok=True)
    entry = {"tensor_name": f"{tag}:{step}", "tensor_path": f"{inner}/tensors.tsv"}
    sprite = ""
    if metadata is not None:
        _same("labels with data points", len(metadata), len(points))
        _write(place, "metadata.tsv", _labels(metadata, metadata_header).encode())
        entry["metadata_path"] = f"{inner}/metadata.tsv"
    if label_img is not None:
        pictures = array_of(label_img)
        _same("images with data points", len(pictures), len(points))
        _write(place, "sprite.png", _sprite(pictures))
        path = json.dumps(f"{inner}/sprite.png")
        sizes = "".join(f"single_image_dim: {n}\n" for n in (pictures.shape[3], pictures.shape[2]))
        sprite = f"sprite {{\nimage_path: {path}\n{sizes}}}\n"
    lines = "".join("\t".join(str(x) for x in row) + "\n" for row in points.tolist())
    _write(place, "tensors.tsv", lines.encode())
    said = "".join(f"{key}: {json.dumps(value)}\n" for key, value in entry.items())
    return f"embeddings {{\n{said}{sprite}}}\n"


def _same(what: str, one: int, other: int) -> None:
    if one != other:
        fail(
            AssertionError,
            "add_embedding",
            f"as many {what} were required (#{what.split()[0]} should equal with #data points)",
            f"{one} for {other} points",
            "one for each row of mat",
        )


def _write(folder: str, name: str, data: bytes) -> None:
    with open(os.path.join(folder, name), "wb") as file:
        file.write(data)

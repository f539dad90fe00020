"""What was added, as messages of event files.

Takes: tags, with tensors, arrays, numbers and texts. Gives: for each kind of value a function whose
`Summary` goes to `FileWriter.add_summary`. Keeps true: nothing is written here.
"""

from __future__ import annotations

import io
import json
import wave
from typing import Any

import numpy as np

from facula.core import Tensor
from facula.core.errors import fail
from facula.utils.tensorboard import _wire as wire
from facula.utils.tensorboard._arrays import array_of, colors, gif, picture, pillow, png
from facula.utils.tensorboard._wire import Message, Summary, Value, tensor_of

__all__ = [
    "audio", "custom_scalars", "histogram", "histogram_raw", "hparams", "image", "image_boxes", "mesh",
    "pr_curve", "pr_curve_raw", "scalar", "tensor_proto", "text", "video",
]  # fmt: skip


def _one(tag: str, **parts: object) -> Message:
    made: Message = Summary(value=[Value(tag=tag, **parts)])
    return made


def _shown_by(plugin: str, data: Message | None = None, **more: object) -> Message:
    """The metadata of a value that a plugin shows."""
    content = data.SerializeToString() if data is not None else None
    made: Message = wire.SummaryMetadata(
        plugin_data=wire.PluginData(plugin_name=plugin, content=content), **more
    )
    return made


def scalar(
    name: str, tensor: object, collections: object = None, new_style: bool = False,
    double_precision: bool = False,
) -> Message:  # fmt: skip
    """One number of a curve.

    Args:
        name: the tag of the curve.
        tensor: the number, or a tensor with one element.
        collections: has no effect.
        new_style: as a tensor, which readers load faster, and not as a plain number.
        double_precision: with `new_style`, in float64.

    Raises:
        AssertionError: there are several elements.

    Example:

        >>> from facula.utils.tensorboard import summary
        >>> summary.scalar("loss", 0.5).value[0].simple_value
        0.5
    """
    array = array_of(tensor).squeeze()
    if array.ndim != 0:
        fail(
            AssertionError,
            "add_scalar",
            "one element was required",
            f"shape {array.shape}",
            "add_histogram and add_tensor take several",
        )
    if not new_style:
        return _one(name, simple_value=float(array))
    kind = np.float64 if double_precision else np.float32
    return _one(
        name, tensor=tensor_of(array.astype(kind)), metadata=_shown_by("scalars", data_class=1)
    )


def tensor_proto(tag: str, tensor: Tensor) -> Message:
    """All elements of a tensor.

    Args:
        tag: the tag.
        tensor: the tensor.

    Example:

        >>> import facula
        >>> from facula.utils.tensorboard import summary
        >>> summary.tensor_proto("x", facula.ones(2)).value[0].tag
        'x'
    """
    return _one(tag, tensor=tensor_of(array_of(tensor)), metadata=_shown_by("tensor"))


_default: list[float] | None = None


def default_bins() -> list[float]:
    """Limits that grow by a tenth, from 1e-12 to 1e20 on both sides of zero."""
    global _default
    if _default is None:
        above, limit = [], 1e-12
        while limit < 1e20:
            above.append(limit)
            limit *= 1.1
        _default = [-x for x in reversed(above)] + [0.0] + above
    return _default


def histogram(name: str, values: object, bins: Any, max_bins: int | None = None) -> Message:
    """How often values lie between limits.

    Args:
        name: the tag.
        values: numbers.
        bins: limits, their number, or a rule of NumPy's `histogram`.
        max_bins: neighbours are joined until there are no more than so many.

    Raises:
        ValueError: there are no values.

    Example:

        >>> from facula.utils.tensorboard import summary
        >>> summary.histogram("w", [1.0, 2.0, 2.0], 2).value[0].histo.num
        3.0
    """
    array = array_of(values).reshape(-1).astype(np.float64)
    if array.size == 0:
        fail(
            ValueError,
            "add_histogram",
            "values were required (The input has no element)",
            "none",
            "leave empty tensors out",
        )
    counts, limits = np.histogram(array, bins=bins)
    if max_bins is not None and len(counts) > max_bins:
        step = -(-len(counts) // max_bins)
        counts = np.add.reduceat(counts, range(0, len(counts), step))
        limits = np.concatenate([limits[:-1:step], limits[-1:]])
    (filled,) = counts.nonzero()
    if not filled.size:
        fail(
            ValueError,
            "add_histogram",
            "values between the limits were required (The histogram is empty)",
            f"limits {limits[0]} to {limits[-1]}",
            "the default bins take all values below 1e20",
        )
    first, last = filled[0], filled[-1]
    # an empty bin below the first, since a bin is said by its upper limit alone
    return histogram_raw(
        name, array.min(), array.max(), array.size, array.sum(), array.dot(array),
        limits[first : last + 2].tolist(), [0, *counts[first : last + 1].tolist()],
    )  # fmt: skip


def histogram_raw(
    name: str, min: float, max: float, num: float, sum: float, sum_squares: float,
    bucket_limits: Any, bucket_counts: Any,
) -> Message:  # fmt: skip
    """A histogram that is already made.

    Args:
        name: the tag.
        min: the least value.
        max: the greatest value.
        num: how many values there are.
        sum: their sum.
        sum_squares: the sum of their squares.
        bucket_limits: the upper limit of each bin.
        bucket_counts: how many values each bin has.

    Raises:
        ValueError: limits and counts are not of one length.

    Example:

        >>> from facula.utils.tensorboard import summary
        >>> summary.histogram_raw("w", 0, 1, 2, 1, 1, [0.5, 1], [1, 1]).value[0].histo.bucket
        [1, 1]
    """
    limits, counts = list(bucket_limits), list(bucket_counts)
    if len(limits) != len(counts):
        fail(
            ValueError,
            "add_histogram_raw",
            "len(bucket_limits) == len(bucket_counts) was required",
            f"{len(limits)} and {len(counts)}",
            "a limit is the upper end of its bin",
        )
    histo = wire.HistogramProto(
        min=float(min), max=float(max), num=float(num), sum=float(sum), sum_squares=float(sum_squares),
        bucket_limit=limits, bucket=counts,
    )  # fmt: skip
    return _one(name, histo=histo)


def _scaled(pixels: Any, rescale: float) -> Any:
    if rescale == 1:
        return pixels
    library = pillow("add_image")
    size = int(pixels.shape[1] * rescale), int(pixels.shape[0] * rescale)
    return np.asarray(
        library.Image.fromarray(pixels).resize(size, library.Image.Resampling.LANCZOS)
    )


def _shown(pixels: Any) -> Message:
    high, wide, channels = pixels.shape
    made: Message = wire.Image(
        height=high, width=wide, colorspace=channels, encoded_image_string=png(pixels)
    )
    return made


def image(tag: str, tensor: object, rescale: float = 1, dataformats: str = "NCHW") -> Message:
    """An image, or several side by side.

    Args:
        tag: the tag.
        tensor: bytes, or numbers from 0 to 1.
        rescale: the factor of both sizes.
        dataformats: the dimensions in order, of N, C, H and W.

    Raises:
        AssertionError: the dimensions are not those of `dataformats`.

    Example:

        >>> import facula
        >>> from facula.utils.tensorboard import summary
        >>> summary.image("x", facula.rand(2, 3, 4, 5)).value[0].image.width
        10
    """
    pixels = colors(picture(array_of(tensor), dataformats))
    return _one(tag, image=_shown(_scaled(pixels, rescale)))


def image_boxes(
    tag: str, tensor_image: object, tensor_boxes: object, rescale: float = 1, dataformats: str = "CHW",
    labels: list[str] | None = None,
) -> Message:  # fmt: skip
    """An image with boxes drawn on it.

    Args:
        tag: the tag.
        tensor_image: bytes, or numbers from 0 to 1.
        tensor_boxes: left, top, right and bottom of each box.
        rescale: the factor of both sizes.
        dataformats: the dimensions in order, of N, C, H and W.
        labels: a text for each box.

    Raises:
        ImportError: the library Pillow is not installed.

    Example:

        >>> import facula
        >>> from facula.utils.tensorboard import summary
        >>> boxes = facula.tensor([[1, 1, 4, 3]])
        >>> summary.image_boxes("x", facula.rand(3, 4, 5), boxes).value[0].image.height
        4
    """
    library = pillow("add_image_with_boxes")
    pixels = library.Image.fromarray(colors(picture(array_of(tensor_image), dataformats)))
    pen = library.ImageDraw.Draw(pixels)
    for place, (left, top, right, bottom) in enumerate(array_of(tensor_boxes).tolist()):
        pen.rectangle((left, top, right, bottom), outline="red", width=2)
        if labels:
            pen.text((left + 2, top), labels[place], fill="red")
    return _one(tag, image=_shown(_scaled(np.asarray(pixels), rescale)))


def video(tag: str, tensor: object, fps: float = 4) -> Message:
    """Moving images side by side.

    Args:
        tag: the tag.
        tensor: (N, T, C, H, W), bytes or numbers from 0 to 1.
        fps: frames a second.

    Raises:
        ImportError: the library Pillow is not installed.

    Example:

        >>> import facula
        >>> from facula.utils.tensorboard import summary
        >>> summary.video("x", facula.rand(1, 2, 3, 4, 5)).value[0].image.height
        4
    """
    array = array_of(tensor)
    count, frames, channels, high, wide = array.shape
    full = 1 << (count - 1).bit_length()  # a power of two of clips; black ones at the end
    array = np.concatenate([array, np.zeros((full - count, *array.shape[1:]), array.dtype)])
    rows = 1 << (full.bit_length() - 1) // 2
    sheet = array.reshape(rows, full // rows, frames, channels, high, wide).transpose(
        2, 0, 4, 1, 5, 3
    )
    sheet = colors(sheet.reshape(frames, rows * high, full // rows * wide, channels))
    shown = wire.Image(
        height=sheet.shape[1], width=sheet.shape[2], colorspace=channels,
        encoded_image_string=gif(sheet, fps),
    )  # fmt: skip
    return _one(tag, image=shown)


def audio(tag: str, tensor: object, sample_rate: int = 44100) -> Message:
    """A sound of one channel.

    Args:
        tag: the tag.
        tensor: numbers from -1 to 1; others are cut off.
        sample_rate: numbers a second.

    Raises:
        AssertionError: there are several channels.

    Example:

        >>> import facula
        >>> from facula.utils.tensorboard import summary
        >>> summary.audio("x", facula.zeros(1, 8)).value[0].audio.length_frames
        8
    """
    array = array_of(tensor).squeeze()
    if array.ndim != 1:
        fail(
            AssertionError,
            "add_audio",
            "one channel was required (input tensor should be 1 dimensional)",
            f"shape {array.shape}",
            "add each channel under a tag of its own",
        )
    samples = (array.clip(-1, 1) * np.iinfo(np.int16).max).astype("<i2")
    out = io.BytesIO()
    with wave.open(out, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(sample_rate)
        file.writeframes(samples.tobytes())
    sound = wire.Audio(
        sample_rate=sample_rate, num_channels=1, length_frames=len(samples),
        encoded_audio_string=out.getvalue(), content_type="audio/wav",
    )  # fmt: skip
    return _one(tag, audio=sound)


def text(tag: str, text: str) -> Message:
    """A text, which TensorBoard shows as Markdown.

    Args:
        tag: the tag.
        text: the text.

    Example:

        >>> from facula.utils.tensorboard import summary
        >>> summary.text("note", "first run").value[0].tag
        'note/text_summary'
    """
    shown = _shown_by("text", wire.PluginVersion(version=0))
    return _one(f"{tag}/text_summary", tensor=tensor_of([text]), metadata=shown)


def pr_curve(
    tag: str, labels: object, predictions: object, num_thresholds: int = 127, weights: object = None
) -> Message:
    """Precision over recall, for thresholds from 0 to 1.

    Args:
        tag: the tag.
        labels: 0 or 1 for each example.
        predictions: a number from 0 to 1 for each example.
        num_thresholds: how many, 127 at most.
        weights: a weight for each example.

    Example:

        >>> from facula.utils.tensorboard import summary
        >>> summary.pr_curve("pr", [0, 1], [0.2, 0.7]).value[0].tag
        'pr'
    """
    steps = min(num_thresholds, 127)
    truth, guesses = array_of(labels), array_of(predictions)
    weight = 1.0 if weights is None else array_of(weights)
    place = np.floor(guesses * (steps - 1)).astype(int)
    right, wrong = (
        np.bincount(place.ravel(), (flag * weight).ravel(), steps)[::-1].cumsum()[::-1]
        for flag in (truth.astype(float), 1.0 - truth)
    )
    return pr_curve_raw(
        tag, right, wrong, wrong[0] - wrong, right[0] - right,
        right / np.maximum(1e-7, right + wrong), right / np.maximum(1e-7, right[0]), steps,
    )  # fmt: skip


def pr_curve_raw(
    tag: str, tp: object, fp: object, tn: object, fn: object, precision: object, recall: object,
    num_thresholds: int = 127, weights: object = None,
) -> Message:  # fmt: skip
    """Precision over recall that is already computed.

    Args:
        tag: the tag.
        tp: how many are rightly taken, for each threshold.
        fp: how many are wrongly taken.
        tn: how many are rightly left.
        fn: how many are wrongly left.
        precision: the share of the taken that is right.
        recall: the share of the right that is taken.
        num_thresholds: how many, 127 at most.
        weights: has no effect.

    Example:

        >>> from facula.utils.tensorboard import summary
        >>> one = [1.0, 0.0]
        >>> summary.pr_curve_raw("pr", one, one, one, one, one, one, 2).value[0].tensor.dtype
        1
    """
    rows = np.stack([array_of(row) for row in (tp, fp, tn, fn, precision, recall)])
    data = wire.PluginVersion(version=0, num_thresholds=min(num_thresholds, 127))
    return _one(
        tag, tensor=tensor_of(rows.astype(np.float32)), metadata=_shown_by("pr_curves", data)
    )


_PARTS = {1: "VERTEX", 2: "FACE", 3: "COLOR"}


def mesh(
    tag: str, vertices: Any, colors: Any, faces: Any, config_dict: dict[str, Any] | None,
    display_name: str | None = None, description: str | None = None,
) -> Message:  # fmt: skip
    """Points, or a surface of triangles.

    Args:
        tag: the tag.
        vertices: (B, N, 3), the places.
        colors: (B, N, 3), the color of each point, or None.
        faces: (B, M, 3), the points of each triangle, or None.
        config_dict: options of the viewer, camera and light.
        display_name: the name that is shown.
        description: what is shown beside it.

    Example:

        >>> import facula
        >>> from facula.utils.tensorboard import summary
        >>> summary.mesh("points", facula.rand(1, 4, 3), None, None, None).value[0].tag
        'points_VERTEX'
    """
    parts = [(1, vertices), (2, faces), (3, colors)]
    parts = [(kind, array_of(part)) for kind, part in parts if part is not None]
    options = json.dumps(config_dict or {}, sort_keys=True)
    found = []
    for kind, part in parts:
        data = wire.MeshData(
            version=0, name=tag, content_type=kind, json_config=options, shape=list(part.shape),
            components=sum(1 << other for other, _ in parts),
        )  # fmt: skip
        shown = _shown_by("mesh", data, display_name=display_name, summary_description=description)
        elements = tensor_of(part.astype(np.float32))
        found.append(Value(tag=f"{tag}_{_PARTS[kind]}", tensor=elements, metadata=shown))
    made: Message = Summary(value=found)
    return made


def custom_scalars(layout: dict[str, dict[str, list[Any]]]) -> Message:
    """Which curves stand together in charts.

    Args:
        layout: titles of groups, to titles of charts, to `["Multiline", tags]` or
            `["Margin", [curve, lower, upper]]`.

    Example:

        >>> from facula.utils.tensorboard import summary
        >>> layout = {"losses": {"both": ["Multiline", ["loss/train", "loss/test"]]}}
        >>> summary.custom_scalars(layout).value[0].tag
        'custom_scalars__config__'
    """
    groups = []
    for title, charts in layout.items():
        made = []
        for name, (kind, tags) in charts.items():
            if kind == "Margin":
                value, lower, upper = tags
                series = wire.Series(value=value, lower=lower, upper=upper)
                made.append(wire.Chart(title=name, margin=wire.MarginChart(series=[series])))
            else:
                made.append(wire.Chart(title=name, multiline=wire.MultilineChart(tag=list(tags))))
        groups.append(wire.Category(title=title, chart=made))
    data = wire.Layout(version=0, category=groups).SerializeToString()
    elements = wire.TensorProto(dtype=7, string_val=[data], tensor_shape=wire.shape_of(()))
    shown = _shown_by("custom_scalars")
    return _one("custom_scalars__config__", tensor=elements, metadata=shown)


def _plain(name: str, value: Any) -> tuple[int, Message]:
    """The kind and the message of a hyperparameter's value."""
    if isinstance(value, Tensor):
        value = array_of(value).reshape(-1)[0].item()
    if isinstance(value, (bool, np.bool_)):
        return 2, wire.PlainValue(bool_value=bool(value))
    if isinstance(value, str):
        return 1, wire.PlainValue(string_value=value)
    if isinstance(value, (int, float, np.integer, np.floating)):
        return 3, wire.PlainValue(number_value=float(value))
    fail(
        ValueError,
        "add_hparams",
        "value should be one of int, float, str, bool, or torch.Tensor",
        f"{type(value).__name__} for {name!r}",
        "str(value) shows any object",
    )


def hparams(
    hparam_dict: dict[str, Any] | None = None, metric_dict: dict[str, Any] | None = None,
    hparam_domain_discrete: dict[str, list[Any]] | None = None,
) -> tuple[Message, Message, Message]:  # fmt: skip
    """A run's hyperparameters: what there are, where it starts with them, and where it ends.

    Args:
        hparam_dict: names and values.
        metric_dict: the tags of the metrics, as keys.
        hparam_domain_discrete: for some names, all values that they may have.

    Raises:
        TypeError: something else than a dictionary was given.
        ValueError: a value is no number, text, truth value or tensor.

    Example:

        >>> from facula.utils.tensorboard import summary
        >>> [part.value[0].tag for part in summary.hparams({"lr": 0.1}, {"loss": 0.5})]
        ['_hparams_/experiment', '_hparams_/session_start_info', '_hparams_/session_end_info']
    """
    for name, given in (
        ("hparam_dict", hparam_dict),
        ("metric_dict", metric_dict),
        ("hparam_domain_discrete", hparam_domain_discrete),
    ):
        if given is not None and not isinstance(given, dict):
            fail(
                TypeError,
                "add_hparams",
                f"a dictionary was required for {name} (nothing logged)",
                type(given).__name__,
                "{'lr': 0.1}",
            )
    infos, values, domains = [], [], hparam_domain_discrete or {}
    for name, value in (hparam_dict or {}).items():
        if value is None:
            continue
        kind, plain = _plain(name, value)
        values.append(wire.HParam(key=name, value=plain))
        choices = domains.get(name)
        listed = choices and wire.PlainList(values=[_plain(name, choice)[1] for choice in choices])
        infos.append(wire.HParamInfo(name=name, type=kind, domain_discrete=listed))
    metrics = [wire.MetricInfo(name=wire.MetricName(tag=tag)) for tag in metric_dict or {}]
    experiment = wire.Experiment(hparam_infos=infos, metric_infos=metrics)
    parts = {
        "experiment": wire.HParamsData(version=0, experiment=experiment),
        "session_start_info": wire.HParamsData(version=0, session_start_info=wire.SessionStart(hparams=values)),
        "session_end_info": wire.HParamsData(version=0, session_end_info=wire.SessionEnd(status=1)),
    }  # fmt: skip
    first, second, third = (
        _one(f"_hparams_/{name}", metadata=_shown_by("hparams", data))
        for name, data in parts.items()
    )
    return first, second, third

"""Messages of event files, and the bytes they are on disk.

Takes: values of a message's fields. Gives: `Message`, whose subclasses name their fields, and the
messages that TensorBoard reads. Keeps true: a field that was given is written, even where it is
zero, so that a curve's zeros arrive; any object with `SerializeToString` serves as a message.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Any, ClassVar

from facula.core.errors import fail

__all__ = [
    "AttrValue",
    "Audio",
    "Event",
    "GraphDef",
    "HistogramProto",
    "Image",
    "Message",
    "NodeDef",
    "PluginData",
    "SessionLog",
    "Summary",
    "SummaryMetadata",
    "TensorProto",
    "Value",
    "tensor_of",
]


def _varint(number: int) -> bytes:
    """Seven bits a byte, the lowest first; a negative number is its 64-bit complement."""
    number &= (1 << 64) - 1
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def _item(number: int, kind: str, value: Any) -> bytes:
    """One field: its number and the form of what follows, then the value."""
    if kind == "int":
        return _varint(number << 3) + _varint(int(value))
    if kind == "double":
        return _varint(number << 3 | 1) + struct.pack("<d", value)
    if kind == "float":
        return _varint(number << 3 | 5) + struct.pack("<f", value)
    if kind == "message":
        data = value.SerializeToString()
    else:
        data = value.encode() if isinstance(value, str) else bytes(value)
    return _varint(number << 3 | 2) + _varint(len(data)) + data


class Message:
    """A message: fields by name.

    Args:
        values: values of the fields; those left out are not written.

    A subclass lists its fields in `fields`, name to number and kind. The kinds are `int` (also
    for truth values and choices), `double`, `float`, `text` (also for bytes), `message`, and
    `doubles`, numbers in one block; a list as a value repeats the field.
    """

    fields: ClassVar[dict[str, tuple[int, str]]] = {}

    def __init__(self, **values: Any) -> None:
        for name in values:
            if name not in self.fields:
                fail(
                    TypeError,
                    type(self).__name__,
                    f"one of the fields {', '.join(self.fields)} was required",
                    name,
                    "see the message's fields",
                )
        for name in self.fields:
            setattr(self, name, values.get(name))

    def SerializeToString(self) -> bytes:
        """The bytes of the message."""
        out = []
        for name, (number, kind) in self.fields.items():
            value = getattr(self, name)
            if value is None:
                continue
            if kind == "doubles":
                block = struct.pack(f"<{len(value)}d", *value)
                out.append(_item(number, "text", block))
                continue
            for item in value if isinstance(value, (list, tuple)) else (value,):
                out.append(_item(number, kind, item))
        return b"".join(out)

    def __repr__(self) -> str:
        given = (f"{n}={v!r}" for n in self.fields if (v := getattr(self, n)) is not None)
        return f"{type(self).__name__}({', '.join(given)})"


def _kind_of(name: str, text: str, fields: str) -> Any:
    """A subclass of Message with the fields of a line like `tag=1 text, step=2 int`."""
    table = {}
    for field in fields.split(", "):
        left, kind = field.split(" ")
        label, number = left.split("=")
        table[label] = (int(number), kind)
    return type(name, (Message,), {"fields": table, "__doc__": text, "__module__": __name__})


PluginData = _kind_of(
    "PluginData",
    "Which plugin shows a value, and its own data.",
    "plugin_name=1 text, content=2 text",
)
SummaryMetadata = _kind_of(
    "SummaryMetadata",
    "How a value is shown.",
    "plugin_data=1 message, display_name=2 text, summary_description=3 text, data_class=4 int",
)
Image = _kind_of(
    "Image",
    "A picture.",
    "height=1 int, width=2 int, colorspace=3 int, encoded_image_string=4 text",
)
Audio = _kind_of(
    "Audio",
    "A sound.",
    "sample_rate=1 float, num_channels=2 int, length_frames=3 int, "
    "encoded_audio_string=4 text, content_type=5 text",
)
HistogramProto = _kind_of(
    "HistogramProto",
    "Counts of values between limits.",
    "min=1 double, max=2 double, num=3 double, sum=4 double, sum_squares=5 double, "
    "bucket_limit=6 doubles, bucket=7 doubles",
)
Dimension = _kind_of("Dimension", "The size of one dimension.", "size=1 int")
TensorShape = _kind_of("TensorShape", "Sizes of a tensor.", "dim=2 message")
TensorProto = _kind_of(
    "TensorProto",
    "Elements of a tensor, or texts.",
    "dtype=1 int, tensor_shape=2 message, tensor_content=4 text, string_val=8 text",
)
Value = _kind_of(
    "Value",
    "What was added under one tag.",
    "tag=1 text, simple_value=2 float, image=4 message, histo=5 message, "
    "audio=6 message, tensor=8 message, metadata=9 message",
)
Summary = _kind_of("Summary", "What was added in one call.", "value=1 message")
SessionLog = _kind_of("SessionLog", "A start of the program.", "status=1 int")
RunMetadata = _kind_of(
    "RunMetadata", "What a run of a graph cost.", "tag=1 text, run_metadata=2 text"
)
Event = _kind_of(
    "Event",
    "A record of the file.",
    "wall_time=1 double, step=2 int, file_version=3 text, graph_def=4 text, "
    "summary=5 message, session_log=7 message, tagged_run_metadata=8 message",
)
AttrValue = _kind_of(
    "AttrValue", "An attribute of a node.", "s=2 text, i=3 int, f=4 float, b=5 int, shape=7 message"
)
_Attribute = _kind_of(
    "_Attribute", "The name and the value of an attribute.", "key=1 text, value=2 message"
)
NodeDef = _kind_of(
    "NodeDef",
    "A node of a graph.",
    "name=1 text, op=2 text, input=3 text, device=4 text, attr=5 message",
)
VersionDef = _kind_of("VersionDef", "The writer's version.", "producer=1 int")
GraphDef = _kind_of("GraphDef", "A graph.", "node=1 message, versions=4 message")

# what a plugin of TensorBoard reads beside the elements
PluginVersion = _kind_of(
    "PluginVersion", "The version of a plugin's data.", "version=1 int, num_thresholds=2 int"
)
MeshData = _kind_of(
    "MeshData",
    "Which part of a mesh a value is.",
    "version=1 int, name=2 text, content_type=3 int, json_config=5 text, shape=6 int, "
    "components=7 int",
)
Series = _kind_of(
    "Series", "A curve between two others.", "value=1 text, lower=2 text, upper=3 text"
)
MarginChart = _kind_of("MarginChart", "Curves with margins.", "series=1 message")
MultilineChart = _kind_of("MultilineChart", "Curves in one chart.", "tag=1 text")
Chart = _kind_of(
    "Chart", "A chart of own layout.", "title=1 text, multiline=2 message, margin=3 message"
)
Category = _kind_of("Category", "Charts below one title.", "title=1 text, chart=2 message")
Layout = _kind_of("Layout", "All charts of own layout.", "version=1 int, category=2 message")
PlainValue = _kind_of(
    "PlainValue",
    "A number, text or truth value.",
    "number_value=2 double, string_value=3 text, bool_value=4 int",
)
PlainList = _kind_of("PlainList", "Plain values.", "values=1 message")
HParam = _kind_of("HParam", "A hyperparameter of a run.", "key=1 text, value=2 message")
HParamInfo = _kind_of(
    "HParamInfo", "A hyperparameter.", "name=1 text, type=4 int, domain_discrete=5 message"
)
MetricName = _kind_of("MetricName", "The tag of a metric.", "group=1 text, tag=2 text")
MetricInfo = _kind_of("MetricInfo", "A metric.", "name=1 message")
Experiment = _kind_of(
    "Experiment", "Hyperparameters and metrics.", "hparam_infos=4 message, metric_infos=5 message"
)
SessionStart = _kind_of("SessionStart", "Hyperparameters of a run.", "hparams=1 message")
SessionEnd = _kind_of("SessionEnd", "How a run ended.", "status=1 int")
HParamsData = _kind_of(
    "HParamsData",
    "Data of the plugin for hyperparameters.",
    "version=1 int, experiment=2 message, session_start_info=3 message, session_end_info=4 message",
)

# TensorBoard's codes of dtypes, by NumPy's names
_CODES = {
    "float32": 1,
    "float64": 2,
    "int32": 3,
    "uint8": 4,
    "int16": 5,
    "int8": 6,
    "complex64": 8,
    "int64": 9,
    "bool": 10,
    "uint16": 17,
    "complex128": 18,
    "float16": 19,
    "uint32": 22,
    "uint64": 23,
}
_TEXT = 7


def shape_of(sizes: Iterable[int]) -> Message:
    """Sizes as a message."""
    shape: Message = TensorShape(dim=[Dimension(size=int(size)) for size in sizes])
    return shape


def tensor_of(array: Any) -> Message:
    """The elements of a NumPy array, or a list of texts, as a message."""
    if isinstance(array, list):
        made: Message = TensorProto(
            dtype=_TEXT, string_val=array, tensor_shape=shape_of([len(array)])
        )
        return made
    made = TensorProto(
        dtype=_CODES[array.dtype.name],
        tensor_shape=shape_of(array.shape),
        tensor_content=array.tobytes(),
    )
    return made


def attributes(values: dict[str, Any]) -> list[Message]:
    """The attributes of a node."""
    return [_Attribute(key=key, value=value) for key, value in values.items()]

"""Data frames of columns on Arrow's memory, with TorchArrow's names; pyarrow is an extra.

Takes: dictionaries, rows, tables of pyarrow. Gives: `dataframe`, `column`, `from_arrow`, types (`dtypes`), functions
for features (`functional`), tensors.
Keeps true: nulls stay nulls; memory is shared with pyarrow, and with tensors where their layout allows it.
"""

from . import dtypes, functional
from .columns import Column, column
from .dtypes import (
    Boolean,
    Field,
    Float32,
    Float64,
    Int8,
    Int16,
    Int32,
    Int64,
    List,
    Map,
    String,
    Struct,
    boolean,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    string,
)
from .frames import DataFrame, GroupBy, collate, dataframe, from_arrow
from .tensors import PackedList, PackedMap, PadSequence, WithPresence

__all__ = [
    "Boolean", "Column", "DataFrame", "Field", "Float32", "Float64", "GroupBy", "Int16", "Int32", "Int64",
    "Int8", "List", "Map", "PackedList", "PackedMap", "PadSequence", "String", "Struct", "WithPresence",
    "boolean", "collate", "column", "dataframe", "dtypes", "float32", "float64", "from_arrow", "functional",
    "int16", "int32", "int64", "int8", "string",
]  # fmt: skip

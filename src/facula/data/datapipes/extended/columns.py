"""Steps that read tables of columns.

Takes paths, or pairs of a path and a stream. Gives tables. Keeps true: a file is read group by group.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from facula import core
from facula.core.errors import fail
from facula.data.datapipes.datapipe import IterDataPipe
from facula.data.datapipes.further import extra
from facula.data.datapipes.utils.common import StreamWrapper


class ParquetDataFrameLoaderIterDataPipe(IterDataPipe):
    """The row groups of Parquet files as tables of pyarrow (functional name: ``load_parquet_as_df``).

    Values are paths, or pairs of a path and a stream; `columns` names those that are read,
    `use_threads` lets pyarrow read with several threads.
    """

    def __init__(
        self,
        source_dp: IterDataPipe,
        dtype: core.dtype | None = None,
        columns: list[str] | None = None,
        device: str = "",
        use_threads: bool = False,
    ) -> None:
        self.source_dp, self.columns, self.use_threads = source_dp, columns, use_threads
        self.dtype, self.device = dtype, device

    def __iter__(self) -> Iterator[Any]:
        parquet = extra("pyarrow.parquet", "load_parquet_as_df")
        for value in self.source_dp:
            path, opened = value if isinstance(value, tuple) else (value, value)
            opened = opened.file_obj if isinstance(opened, StreamWrapper) else opened
            try:
                with parquet.ParquetFile(opened, page_checksum_verification=True) as file:
                    self._check_columns(path, file.schema_arrow.names)
                    for group in range(file.num_row_groups):
                        table = file.read_row_group(
                            group, columns=self.columns, use_threads=self.use_threads
                        )
                        table.validate(
                            full=True
                        )  # texts and offsets, which reading does not look at
                        yield table if self.dtype is None else table.cast(self.dtype)
            except FileNotFoundError:
                raise
            except (ValueError, OSError, TypeError, NotImplementedError) as error:
                # which pyarrow's own errors are
                fail(
                    RuntimeError,
                    "load_parquet_as_df",
                    f"a Parquet file was required in {path}",
                    error,
                    hint="the file may be incomplete, or of another format",
                )

    def _check_columns(self, path: str, names: list[str]) -> None:
        missing = [column for column in self.columns or () if column not in names]
        if missing:
            fail(
                KeyError,
                "load_parquet_as_df",
                f"columns {missing} were required in {path}",
                names,
                hint="columns=None reads all that there are",
            )

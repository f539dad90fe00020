"""Whole tensors from the safetensors files that ranks wrote pieces to.

Takes: a folder of such files. Gives: a folder of files as Hugging Face's libraries read them.
Keeps true: the files that are read are not changed; a tensor of which a piece is lacking is an error.
"""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from facula.core.errors import fail
from facula.distributed import world
from facula.distributed.checkpoint.hf_storage import (
    HuggingFaceStorageReader,
    bytes_of,
    write_index,
    write_whole,
)
from facula.distributed.checkpoint.metadata import Metadata
from facula.distributed.operations import barrier

if TYPE_CHECKING:
    from facula.distributed.world import ProcessGroup

__all__ = ["consolidate_safetensors_files", "consolidate_safetensors_files_on_every_rank"]


def consolidate_safetensors_files(
    input_dir: str, output_dir: str, fqn_to_index_mapping: dict[str, int], num_threads: int = 1
) -> None:
    """Put whole tensors together, in this process.

    Args:
        input_dir: the folder that ranks wrote to
        output_dir: the folder that is written; it is made
        fqn_to_index_mapping: the number of the file of each entry, from 1 on
        num_threads: in how many threads files are written

    Raises:
        RuntimeError: pieces of a tensor are lacking.
    """
    metadata, files = _contents(input_dir, fqn_to_index_mapping)
    wanted = sorted(set(fqn_to_index_mapping.values()))
    target = _made(output_dir)
    names = write_whole(metadata, files, target, fqn_to_index_mapping, wanted, num_threads)
    _write_index(target, names, metadata)


def consolidate_safetensors_files_on_every_rank(
    input_dir: str, output_dir: str, fqn_to_index_mapping: dict[str, int], num_threads: int = 1,
    process_group: ProcessGroup | None = None,
) -> None:  # fmt: skip
    """The same, where each rank writes some of the files; the first one writes the index when all have.

    Args:
        input_dir: the folder that ranks wrote to
        output_dir: the folder that is written
        fqn_to_index_mapping: the number of the file of each entry, from 1 on
        num_threads: in how many threads each rank writes
        process_group: the ranks; default: all
    """
    group = world.own_group(process_group, "consolidate") if world.is_initialized() else None
    rank, size = (group.rank(), group.size()) if group is not None else (0, 1)
    metadata, files = _contents(input_dir, fqn_to_index_mapping)
    wanted = sorted(set(fqn_to_index_mapping.values()))
    target = _made(output_dir)
    if wanted[rank::size]:
        write_whole(metadata, files, target, fqn_to_index_mapping, wanted[rank::size], num_threads)
    if group is not None:
        barrier(group)
    if rank == 0:
        count = max(wanted)
        names = {
            name: f"model-{number:05}-of-{count:05}.safetensors"
            for name, number in fqn_to_index_mapping.items()
        }
        _write_index(target, names, metadata)


def _made(folder: str | os.PathLike[str]) -> Path:
    path = Path(folder)
    path.mkdir(parents=True, exist_ok=True)
    return path


def _contents(folder: str, numbers: dict[str, int]) -> tuple[Metadata, list[Path]]:
    """What the files hold, all of it."""
    metadata = HuggingFaceStorageReader(folder).read_metadata()
    known: dict[str, Any] = dict(metadata.state_dict_metadata)
    for name in numbers:
        if name not in known:
            fail(RuntimeError, "consolidate_safetensors_files", f"an entry {name} was required in {folder}",
                 f"{sorted(known)[:4]} ...", hint="fqn_to_index_mapping names entries that were saved")  # fmt: skip
    for name, md in known.items():
        got = sum(math.prod(chunk.sizes) for chunk in md.chunks)
        if got != math.prod(md.size):
            fail(RuntimeError, "consolidate_safetensors_files", f"all pieces of {name} were required",
                 f"{got} of {math.prod(md.size)} elements", hint="files of some ranks are lacking")  # fmt: skip
    return metadata, sorted(Path(folder).glob("*.safetensors"))


def _write_index(target: Path, names: dict[str, str], metadata: Metadata) -> None:
    sizes = metadata.state_dict_metadata
    write_index(target, names, sum(bytes_of(sizes[name]) for name in names))

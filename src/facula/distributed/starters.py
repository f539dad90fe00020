"""What programs that start processes tell them: `mpiexec` (Open MPI, MPICH, Intel MPI) and `srun`.

Takes: environment variables. Gives: `value`, which looks for a variable of `torchrun` there, as RANK.
Keeps true: what the user or a launcher sets under `torchrun`'s names comes first; the address and the port
that are derived are the same in all processes of a job.
"""

from __future__ import annotations

import os
import re
import zlib

__all__ = ["VARIABLES", "value"]

#: by `torchrun`'s name: Open MPI's, MPICH's and Intel MPI's, Slurm's
_NUMBERS = {
    "RANK": ("OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"),
    "WORLD_SIZE": ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"),
    "LOCAL_RANK": ("OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID"),
    "LOCAL_WORLD_SIZE": ("OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS"),
}
VARIABLES = (*_NUMBERS, "MASTER_ADDR", "MASTER_PORT")
#: ports that systems do not give away by themselves
_FIRST_PORT, _PORTS = 20000, 12000
#: what is the same in all processes of a job, and in no other of the machine
_JOBS = ("PMIX_NAMESPACE", "PMI_JOBID", "SLURM_JOB_ID")


def value(name: str) -> str | None:
    """The value of a variable of `torchrun`; None where nobody says it."""
    found = os.environ.get(name)
    if found is not None:
        return found
    if name in _NUMBERS:
        return next((os.environ[n] for n in _NUMBERS[name] if n in os.environ), None)
    if name == "MASTER_ADDR":
        return _address()
    return _port() if name == "MASTER_PORT" and _address() is not None else None


def _address() -> str | None:
    """The machine of rank 0, where it is known."""
    size, near = value("WORLD_SIZE"), value("LOCAL_WORLD_SIZE")
    if size is None:
        return None
    if size == near:
        return "127.0.0.1"
    nodes = os.environ.get("SLURM_STEP_NODELIST") or os.environ.get("SLURM_JOB_NODELIST")
    if "SLURM_PROCID" not in os.environ or not nodes:
        return None
    single = os.environ.get("SLURM_STEP_NUM_NODES", os.environ.get("SLURM_NNODES")) == "1"
    return "127.0.0.1" if single else first_node(nodes)


def first_node(nodes: str) -> str:
    """The first machine of a list as Slurm writes it: `gpu[07-09,12],login` begins with `gpu07`."""
    found = re.match(r"([^,\[]+)(?:\[([^\],-]+))?([^,\[]*)", nodes)
    if found is None:
        return nodes
    rest = re.match(r"[^,\[]+\[[^\]]*\]([^,\[]*)", nodes)
    return found[1] + (found[2] or "") + (rest[1] if rest else "")


def _port() -> str:
    """A port that all processes of a job derive from its name."""
    parts = [os.environ[n] for n in _JOBS if n in os.environ]
    if "SLURM_STEP_ID" in os.environ:
        parts.append(os.environ["SLURM_STEP_ID"])
    if not parts:  # all processes of a machine have one parent, as MPICH starts them
        parts.append(str(os.getppid()))
    return str(_FIRST_PORT + zlib.crc32(" ".join(parts).encode()) % _PORTS)

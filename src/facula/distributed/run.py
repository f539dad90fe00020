"""`python -m facula.distributed.run`: a program in several processes, on one or several machines.

Takes: how many machines and processes, how machines meet, and a script, module or executable with arguments:
the options of `torchrun`. Gives: its processes, with RANK, LOCAL_RANK, WORLD_SIZE and the other variables of
`torchrun`.
Keeps true: when one fails, the others are ended, and all are started again at most `--max-restarts`
times; the launcher's exit status is that of the first failure; no process outlives it.
"""

from __future__ import annotations

import argparse
import os
import re
import runpy
import secrets
import sys
import uuid
from collections.abc import Callable, Sequence
from importlib.metadata import entry_points
from typing import Any

from facula.core.errors import fail
from facula.core.logs import get_logger
from facula.distributed.argparse_util import check_env, env
from facula.distributed.elastic.multiprocessing import (
    DefaultLogsSpecs,
    LogsSpecs,
    SignalException,
    Std,
)
from facula.distributed.elastic.multiprocessing.api import SIGNALS
from facula.distributed.elastic.multiprocessing.errors import ChildFailedError, record
from facula.distributed.elastic.rendezvous import RendezvousError
from facula.distributed.elastic.utils import macros
from facula.distributed.launcher.api import LaunchConfig, launch_agent

__all__ = [
    "config_from_args",
    "determine_local_world_size",
    "get_args_parser",
    "get_rdzv_endpoint",
    "get_use_env",
    "main",
    "parse_args",
    "parse_min_max_nnodes",
    "run",
    "run_script_path",
]


def _both(name: str) -> tuple[str, ...]:
    """An option with hyphens and with underscores."""
    return tuple(dict.fromkeys((f"--{name}", f"--{name.replace('-', '_')}")))


#: name, type, default, help
_OPTIONS: tuple[tuple[str, Any, Any, str], ...] = (
    ("nnodes", str, "1:1", "how many machines: a number, or least:most"),
    ("nproc-per-node", str, "1", "processes on each: a number, cpu, gpu or auto"),
    ("rdzv-backend", str, "static", "how machines meet: static or c10d"),
    ("rdzv-endpoint", str, "", "where they meet: address:port"),
    ("rdzv-id", str, "none", "a name of the job, the same on all machines"),
    ("rdzv-conf", str, "", "more about the meeting: key=value,key=value (join_timeout, last_call_timeout, "
     "timeout, is_host, store_type, read_timeout, keep_alive_interval, keep_alive_max_attempt)"),
    ("max-restarts", int, 0, "how often to start again after a failure"),
    ("monitor-interval", float, 0.1, "seconds between looks at the processes"),
    ("event-log-handler", str, "null", "where events of the launcher go: null or console"),
    ("role", str, "default", "a name of the processes"),
    ("log-dir", str, None, "a folder for output and errors of each process"),
    ("local-ranks-filter", str, "", "show the output of these processes only: 0,1"),
    ("duplicate-stdout-filters", str, "", "write lines with one of these texts to a common file too"),
    ("duplicate-stderr-filters", str, "", "the same for the error output"),
    ("node-rank", int, 0, "which of the machines this is (static)"),
    ("master-addr", str, "127.0.0.1", "the address of machine 0 (static)"),
    ("master-port", int, 29500, "a free port of machine 0 (static)"),
    ("local-addr", str, None, "the address of this machine"),
    ("logs-specs", str, None, "what says where output goes: an entry point of the group torchrun.logs_specs"),
    ("signals-to-handle", str, SIGNALS, "signals that end the job"),
    ("shutdown-timeout", int, None, "seconds that processes have to end when they are told to"),
)  # fmt: skip


def get_args_parser() -> argparse.ArgumentParser:
    """The options."""
    parser = argparse.ArgumentParser(prog="facula.distributed.run", description="Start a program "
                                     "in several processes.")  # fmt: skip
    add = parser.add_argument
    for name, kind, default, text in _OPTIONS:
        add(*_both(name), action=env, type=kind, default=default, help=text)
    add(*_both("start-method"), action=env, default="spawn",
        choices=["spawn", "fork", "forkserver"], help="how --run-path gets processes")  # fmt: skip
    add("-r", "--redirects", action=env, default="0",
        help="streams that go to files: 1 stdout, 2 stderr, 3 both, or 0:1,1:2 by process")  # fmt: skip
    add("-t", "--tee", action=env, default="0", help="the same, and to the console")
    flag = check_env
    add("--standalone", action=flag, help="one machine, any free port")
    add("-m", "--module", action=flag, help="the program is a module")
    add(*_both("no-python"), action=flag, help="the program is an executable")
    add(*_both("run-path"), action=flag, help="the program is run by runpy")
    add(*_both("virtual-local-rank"), action=flag, help="tell each process that it is number 0")
    add("training_script", help="the program")
    add("training_script_args", nargs=argparse.REMAINDER, help="its arguments")
    return parser


def parse_args(args: Sequence[str] | None) -> argparse.Namespace:
    """The options of a command line."""
    return get_args_parser().parse_args(args)


def parse_min_max_nnodes(nnodes: str) -> tuple[int, int]:
    """The least and the most machines of `"2"` or `"1:4"`."""
    found = re.fullmatch(r"(\d+)(?::(\d+))?", str(nnodes))
    if found is None:
        fail(RuntimeError, "nnodes", 'a number, or least:most, was required (nnodes is not in "MIN:MAX" '
             "format)", repr(nnodes), hint="--nnodes=2, or --nnodes=1:4")  # fmt: skip
    return int(found[1]), int(found[2] or found[1])


def determine_local_world_size(nproc_per_node: str) -> int:
    """How many processes `"4"`, `"cpu"`, `"gpu"` or `"auto"` means on this machine."""
    text = str(nproc_per_node)
    if text in ("cpu", "auto"):
        return os.cpu_count() or 1
    if text.isdigit() and int(text) > 0:
        return int(text)
    return fail(
        ValueError,
        "nproc_per_node",
        "a number of processes, cpu or auto was required"
        + (" (Cuda is not available.)" if text == "gpu" else " (Unsupported nproc_per_node value)"),
        repr(text),
        hint="--nproc-per-node=4",
    )


def get_rdzv_endpoint(args: argparse.Namespace) -> str:
    """Where machines meet."""
    if args.rdzv_backend == "static" and not args.rdzv_endpoint:
        return f"{args.master_addr}:{args.master_port}"
    return str(args.rdzv_endpoint)


def _rendezvous_options(text: str) -> dict[str, str]:
    """`key=value,key=value` by key."""
    found = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        key, equals, value = part.partition("=")
        if not equals or not key.strip() or not value.strip():
            fail(ValueError, "rdzv_conf", "key=value,key=value was required", repr(part),
                 hint="--rdzv-conf join_timeout=60,last_call_timeout=5")  # fmt: skip
        found[key.strip()] = value.strip()
    return found


def _texts(text: str) -> list[str] | None:
    """Texts between commas; two commas stand for one that belongs to a text."""
    if not text:
        return None
    return [part.replace("\0", ",") for part in text.replace(",,", "\0").split(",")]


def _logs_specs(name: str | None) -> type[LogsSpecs]:
    """The class that says where output goes."""
    if not name:
        return DefaultLogsSpecs
    for entry in entry_points(group="torchrun.logs_specs", name=name):
        return entry.load()
    return fail(ValueError, "logs_specs", "an entry point of the group torchrun.logs_specs was required",
                repr(name), hint="install the package that brings it")  # fmt: skip


def _ranks(text: str) -> set[int] | None:
    if not text:
        return None
    if not re.fullmatch(r"\d+(,\d+)*", text):
        fail(ValueError, "local_ranks_filter", "numbers between commas were required (--local_ranks_filter "
             "must be a comma-separated list of integers)", repr(text),
             hint="--local-ranks-filter=0,1")  # fmt: skip
    return {int(part) for part in text.split(",")}


def config_from_args(
    args: argparse.Namespace,
) -> tuple[LaunchConfig, Callable[..., Any] | str, list[str]]:
    """What the options mean: how the job is run, what is run, and its arguments."""
    least, most = parse_min_max_nnodes(args.nnodes)
    if not 0 < least <= most or args.max_restarts < 0:
        fail(ValueError, "run", "0 < least <= most machines, and max_restarts >= 0, were required",
             f"--nnodes={args.nnodes} --max-restarts={args.max_restarts}",
             hint="--nnodes=1:4 --max-restarts=3")  # fmt: skip
    if args.standalone:
        args.rdzv_backend, args.rdzv_endpoint = "c10d", "localhost:0"
        args.rdzv_id, least, most = uuid.uuid4().hex, 1, 1
    options: dict[str, Any] = _rendezvous_options(args.rdzv_conf)
    if args.rdzv_backend == "static":
        options["rank"] = args.node_rank
    specs = _logs_specs(args.logs_specs)(
        log_dir=args.log_dir,
        redirects=Std.from_str(args.redirects),
        tee=Std.from_str(args.tee),
        local_ranks_filter=_ranks(args.local_ranks_filter),
        duplicate_stdout_filters=_texts(args.duplicate_stdout_filters),
        duplicate_stderr_filters=_texts(args.duplicate_stderr_filters),
    )
    config = LaunchConfig(
        least, most, determine_local_world_size(args.nproc_per_node), specs,
        run_id=args.rdzv_id, role=args.role, rdzv_endpoint=get_rdzv_endpoint(args),
        rdzv_backend=args.rdzv_backend, rdzv_configs=options, max_restarts=args.max_restarts,
        monitor_interval=args.monitor_interval, start_method=args.start_method,
        log_line_prefix_template=os.environ.get("TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE"),
        local_addr=args.local_addr, event_log_handler=args.event_log_handler,
        signals_to_handle=args.signals_to_handle, virtual_local_rank=args.virtual_local_rank,
        shutdown_timeout=args.shutdown_timeout,
    )  # fmt: skip
    return (config, *_program(args))


def get_use_env(args: argparse.Namespace) -> bool:
    """Whether a program hears of its number by LOCAL_RANK alone; `launch` may pass `--local-rank`, too."""
    return bool(getattr(args, "use_env", True))


def _program(args: argparse.Namespace) -> tuple[Callable[..., Any] | str, list[str]]:
    """What is run, and its arguments."""
    told = [] if get_use_env(args) else [f"--local-rank={macros.local_rank}"]
    line = [args.training_script, *told, *args.training_script_args]
    if args.run_path:
        return run_script_path, line
    if args.no_python:
        if args.module:
            fail(ValueError, "run", "either --no-python or --module was required (Don't use both the "
                 "'--no-python' flag and the '--module' flag at the same time.)", "both",
                 hint="leave one of them out")  # fmt: skip
        return line[0], line[1:]
    return os.environ.get("PYTHON_EXEC", sys.executable), [
        "-u",
        *(["-m"] if args.module else []),
        *line,
    ]


def run_script_path(training_script: str, *training_script_args: str) -> None:
    """Run a script in this process."""
    sys.argv = [training_script, *training_script_args]
    runpy.run_path(training_script, run_name="__main__")


def run(args: argparse.Namespace) -> None:
    """Run the program.

    Raises:
        ChildFailedError: its processes failed for good.
    """
    config, entrypoint, arguments = config_from_args(args)
    if (
        config.max_nodes == 1
    ):  # machines find the secret of the user, unless somebody set one for all
        os.environ.setdefault("FACULA_STORE_SECRET", secrets.token_hex(32))
    launch_agent(config, entrypoint, arguments)


def main(args: Sequence[str] | None = None) -> None:
    """Run the program of the command line."""
    main_with(parse_args(args), run)


def main_with(args: argparse.Namespace, runs: Callable[[argparse.Namespace], None]) -> None:
    """Run the program by a function of its options; a failure is told, and is this process's end.

    Raises:
        SystemExit: the program failed.
    """
    try:
        record(runs)(args)
    except ChildFailedError as error:
        sys.stderr.write(f"{error}\n")
        code = error.get_first_failure()[1].exitcode
        raise SystemExit(code if code > 0 else 128 - code) from None
    except SignalException as error:
        raise SystemExit(128 + error.sigval) from None
    except RendezvousError as error:
        get_logger("distributed").error("%s", error)
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
        raise SystemExit(1) from None


if __name__ == "__main__":
    main()

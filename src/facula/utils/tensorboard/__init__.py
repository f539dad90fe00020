"""`SummaryWriter`: event files for TensorBoard, written by the library tensorboardX.

Takes: scalars, tensors, figures and models. Gives: `SummaryWriter`, and `FileWriter`, what it writes
with. Keeps true: tensors reach the library as NumPy arrays, whatever their device, dtype and
gradient; files are the library's own.
"""

from __future__ import annotations

from typing import Any

from facula.core import Tensor
from facula.core.errors import message
from facula.fx import symbolic_trace
from facula.fx._pytree import tree_map_only

try:
    import tensorboardX
    from tensorboardX.proto.attr_value_pb2 import AttrValue
    from tensorboardX.proto.graph_pb2 import GraphDef
    from tensorboardX.proto.node_def_pb2 import NodeDef
    from tensorboardX.proto.versions_pb2 import VersionDef
    from tensorboardX.writer import FileWriter
except ImportError as error:
    raise ImportError(
        message(
            "tensorboard",
            "the library tensorboardX was required",
            f"{type(error).__name__}: {error}",
            "pip install 'facula[tensorboard]'",
        )
    ) from error

__all__ = ["FileWriter", "SummaryWriter"]


def _array(tensor: Tensor) -> Any:
    """Elements in main memory; bfloat16 and float8, which NumPy lacks, as float32."""
    tensor = tensor.detach().cpu()
    if tensor.dtype.is_floating_point and (
        tensor.dtype.itemsize == 1 or "bfloat" in str(tensor.dtype)
    ):
        tensor = tensor.float()
    return tensor.numpy()


def _arrays(values: object) -> Any:
    return tree_map_only(Tensor, _array, values)


class SummaryWriter(tensorboardX.SummaryWriter):
    """Writes events to a folder that `tensorboard --logdir folder` shows.

    Args:
        log_dir: the folder; by default runs/<date>_<host><comment>.
        comment: ends the name of the default folder.
        purge_step: events from this step on are forgotten, after a crash.
        max_queue: events that wait before one is written.
        flush_secs: seconds between flushes.
        filename_suffix: ends the names of event files.

    Each `add_*` takes tensors wherever it takes arrays or numbers.
    """

    def __init__(
        self,
        log_dir: str | None = None,
        comment: str = "",
        purge_step: int | None = None,
        max_queue: int = 10,
        flush_secs: int = 120,
        filename_suffix: str = "",
    ) -> None:
        super().__init__(log_dir, comment, purge_step, max_queue, flush_secs, filename_suffix)

    def get_logdir(self) -> str:
        """The folder of the event files."""
        return str(self.logdir)

    def add_scalar(
        self,
        tag: str,
        scalar_value: Tensor,
        global_step: int | None = None,
        walltime: float | None = None,
        new_style: bool = False,
        double_precision: bool = False,
    ) -> None:
        """One number of a curve; `new_style` and `double_precision` change nothing here."""
        super().add_scalar(tag, _arrays(scalar_value), global_step, walltime)

    def add_hparams(
        self,
        hparam_dict: dict[str, Any],
        metric_dict: dict[str, Any],
        hparam_domain_discrete: dict[str, Any] | None = None,
        run_name: str | None = None,
        global_step: int | None = None,
    ) -> None:
        """Hyperparameters of a run, and the metrics to compare it by."""
        super().add_hparams(_arrays(hparam_dict), _arrays(metric_dict), run_name, global_step)

    def add_tensor(
        self,
        tag: str,
        tensor: Tensor,
        global_step: int | None = None,
        walltime: float | None = None,
    ) -> None:
        """All elements of a tensor, as a histogram of its values."""
        self.add_histogram(tag, tensor, global_step, walltime=walltime)

    def add_graph(
        self,
        model: Any,
        input_to_model: Tensor | None = None,
        verbose: bool = False,
        use_strict_trace: bool = True,
    ) -> None:
        """The graph of a module, as `fx.symbolic_trace` sees it; the inputs are not needed."""
        traced = symbolic_trace(model)
        if verbose:
            print(traced.graph)
        graph = GraphDef(
            node=[_drawn(node) for node in traced.graph.nodes], versions=VersionDef(producer=22)
        )
        # the library's way to add a graph without a profile of its run
        self._get_file_writer().add_onnx_graph(graph)


def _drawn(node: Any) -> Any:
    """A node of a traced graph as TensorBoard draws it: calls of modules keep their path."""
    kind = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", "call")
    return NodeDef(
        name=_place(node),
        op=f"{node.op}:{kind}",
        input=[_place(n) for n in node.all_input_nodes],
        attr={"target": AttrValue(s=str(node.target).encode())},
    )


def _place(node: Any) -> str:
    """The name under which `_drawn` draws a node."""
    if node.op == "call_module":
        return f"{str(node.target).replace('.', '/')}/{node.name}"
    return str(node.name)


def _taking_tensors(name: str) -> Any:
    """The library's method of this name, with tensors handed over as arrays."""
    method = getattr(tensorboardX.SummaryWriter, name)

    def add(self: SummaryWriter, *args: object, **kwargs: object) -> None:
        method(self, *_arrays(args), **_arrays(kwargs))

    add.__name__, add.__doc__ = name, method.__doc__
    add.__wrapped__ = method  # type: ignore[attr-defined]
    return add


for _name in dir(tensorboardX.SummaryWriter):
    if _name.startswith("add_") and _name not in vars(SummaryWriter):
        setattr(SummaryWriter, _name, _taking_tensors(_name))

"""`SummaryWriter`, and `FileWriter`, what it writes with.

Takes: scalars, tensors, figures and models. Gives: event files that TensorBoard shows. Keeps true:
tensors are taken whatever their device, dtype and gradient; a file is made with the first event.
"""

from __future__ import annotations

import datetime
import os
import socket
import time
from typing import Any

from facula.core import Tensor
from facula.fx._pytree import tree_map_only
from facula.utils.tensorboard import _wire as wire
from facula.utils.tensorboard import summary
from facula.utils.tensorboard._arrays import figure as drawn_figure
from facula.utils.tensorboard._embedding import write_embedding
from facula.utils.tensorboard._graph import graph_of, graph_of_onnx
from facula.utils.tensorboard._records import EventFile

__all__ = ["FileWriter", "SummaryWriter"]


class FileWriter:
    """Writes events to one file of a folder.

    Args:
        log_dir: the folder.
        max_queue: events that wait before they are written.
        flush_secs: seconds that they wait.
        filename_suffix: ends the file's name.

    Example:

        >>> import tempfile
        >>> from facula.utils.tensorboard import FileWriter, summary
        >>> writer = FileWriter(tempfile.mkdtemp())
        >>> writer.add_summary(summary.scalar("loss", 0.5), 1)
        >>> writer.close()
    """

    def __init__(
        self, log_dir: str | os.PathLike[str], max_queue: int = 10, flush_secs: float = 120,
        filename_suffix: str = "",
    ) -> None:  # fmt: skip
        self._settings = max_queue, flush_secs, filename_suffix
        self._folder = os.fspath(log_dir)
        self.event_writer = EventFile(self._folder, *self._settings)

    def get_logdir(self) -> str:
        """The folder of the file."""
        return self._folder

    def add_event(self, event: Any, step: Any = None, walltime: float | None = None) -> None:
        """Writes an event.

        Args:
            event: the event; its time and step are set.
            step: the step.
            walltime: seconds since 1970; now by default.
        """
        event.wall_time = time.time() if walltime is None else walltime
        if step is not None:
            event.step = int(step)
        self.event_writer.add(event)

    def add_summary(
        self, summary: object, global_step: object = None, walltime: float | None = None
    ) -> None:
        """Writes what was added in one call.

        Args:
            summary: what a function of `summary` gives.
            global_step: the step.
            walltime: seconds since 1970; now by default.
        """
        self.add_event(wire.Event(summary=summary), global_step, walltime)

    def add_graph(self, graph_profile: Any, walltime: float | None = None) -> None:
        """Writes a graph and what a run of it cost.

        Args:
            graph_profile: the graph, and the costs or None.
            walltime: seconds since 1970; now by default.
        """
        graph, costs = graph_profile
        self.add_onnx_graph(graph, walltime)
        if costs is not None:
            run = wire.RunMetadata(tag="step1", run_metadata=costs.SerializeToString())
            self.add_event(wire.Event(tagged_run_metadata=run), None, walltime)

    def add_onnx_graph(self, graph: Any, walltime: float | None = None) -> None:
        """Writes a graph.

        Args:
            graph: the graph.
            walltime: seconds since 1970; now by default.
        """
        self.add_event(wire.Event(graph_def=graph.SerializeToString()), None, walltime)

    def flush(self) -> None:
        """Writes what waits."""
        self.event_writer.flush()

    def close(self) -> None:
        """Writes what waits and closes the file."""
        self.event_writer.close()

    def reopen(self) -> None:
        """Begins another file."""
        self.event_writer.close()
        self.event_writer = EventFile(self._folder, *self._settings)


class SummaryWriter:
    """Writes events to a folder that `tensorboard --logdir folder` shows.

    Args:
        log_dir: the folder; by default runs/<date>_<host><comment>.
        comment: ends the name of the default folder.
        purge_step: events from this step on are forgotten, after a crash.
        max_queue: events that wait before they are written.
        flush_secs: seconds between flushes.
        filename_suffix: ends the names of event files.

    Each `add_*` takes tensors wherever it takes arrays or numbers.

    Example:

        >>> import tempfile
        >>> from facula.utils.tensorboard import SummaryWriter
        >>> with SummaryWriter(tempfile.mkdtemp()) as writer:
        ...     writer.add_scalar("loss", 0.5, global_step=1)
    """

    def __init__(
        self, log_dir: str | os.PathLike[str] | None = None, comment: str = "",
        purge_step: int | None = None, max_queue: int = 10, flush_secs: float = 120,
        filename_suffix: str = "",
    ) -> None:  # fmt: skip
        if not log_dir:
            now = datetime.datetime.now().strftime("%b%d_%H-%M-%S")
            log_dir = os.path.join("runs", f"{now}_{socket.gethostname()}{comment}")
        self.log_dir = os.fspath(log_dir)
        self.purge_step, self.max_queue = purge_step, max_queue
        self.flush_secs, self.filename_suffix = flush_secs, filename_suffix
        self.file_writer: FileWriter | None = None
        self.all_writers: dict[str, FileWriter] | None = None
        self.default_bins = summary.default_bins()
        self._get_file_writer()

    def _get_file_writer(self) -> FileWriter:
        """The file of this folder; begun again after `close()`."""
        if self.file_writer is None or self.all_writers is None:
            self.file_writer = self._file(self.log_dir)
            self.all_writers = {self.log_dir: self.file_writer}
            if self.purge_step is not None:
                step = self.purge_step
                self.file_writer.add_event(wire.Event(file_version="brain.Event:2"), step)
                start = wire.SessionLog(status=1)
                self.file_writer.add_event(wire.Event(session_log=start), step)
                self.purge_step = None
        return self.file_writer

    def _file(self, folder: str) -> FileWriter:
        return FileWriter(folder, self.max_queue, self.flush_secs, self.filename_suffix)

    def _add(self, made: object, step: object, walltime: float | None) -> None:
        self._get_file_writer().add_summary(made, step, walltime)

    def get_logdir(self) -> str:
        """The folder of the event files."""
        return self.log_dir

    @property
    def logdir(self) -> str:
        """The folder of the event files."""
        return self.log_dir

    def add_scalar(
        self, tag: str, scalar_value: object, global_step: object = None, walltime: float | None = None,
        new_style: bool = False, double_precision: bool = False,
    ) -> None:  # fmt: skip
        """One number of a curve: `summary.scalar`."""
        made = summary.scalar(tag, scalar_value, None, new_style, double_precision)
        self._add(made, global_step, walltime)

    def add_scalars(
        self, main_tag: str, tag_scalar_dict: dict[str, Any], global_step: object = None,
        walltime: float | None = None,
    ) -> None:  # fmt: skip
        """Numbers of several curves of one chart, each in a folder below this one."""
        walltime = time.time() if walltime is None else walltime
        self._get_file_writer()
        files = self.all_writers if self.all_writers is not None else {}
        for tag, value in tag_scalar_dict.items():
            folder = os.path.join(self.log_dir, f"{main_tag.replace('/', '_')}_{tag}")
            if folder not in files:
                files[folder] = self._file(folder)
            files[folder].add_summary(summary.scalar(main_tag, value), global_step, walltime)

    def add_tensor(
        self, tag: str, tensor: Tensor, global_step: object = None, walltime: float | None = None
    ) -> None:
        """All elements of a tensor: `summary.tensor_proto`."""
        self._add(summary.tensor_proto(tag, tensor), global_step, walltime)

    def add_histogram(
        self, tag: str, values: object, global_step: object = None, bins: Any = "tensorflow",
        walltime: float | None = None, max_bins: int | None = None,
    ) -> None:  # fmt: skip
        """How often values lie between limits: `summary.histogram`."""
        if isinstance(bins, str) and bins == "tensorflow":
            bins = self.default_bins
        self._add(summary.histogram(tag, values, bins, max_bins), global_step, walltime)

    def add_histogram_raw(
        self, tag: str, min: float, max: float, num: float, sum: float, sum_squares: float,
        bucket_limits: object, bucket_counts: object, global_step: object = None, walltime: float | None = None,
    ) -> None:  # fmt: skip
        """A histogram that is already made: `summary.histogram_raw`."""
        made = summary.histogram_raw(
            tag, min, max, num, sum, sum_squares, bucket_limits, bucket_counts
        )
        self._add(made, global_step, walltime)

    def add_image(
        self, tag: str, img_tensor: object, global_step: object = None, walltime: float | None = None,
        dataformats: str = "CHW",
    ) -> None:  # fmt: skip
        """An image: `summary.image`."""
        self._add(summary.image(tag, img_tensor, 1, dataformats), global_step, walltime)

    def add_images(
        self, tag: str, img_tensor: object, global_step: object = None, walltime: float | None = None,
        dataformats: str = "NCHW",
    ) -> None:  # fmt: skip
        """Images side by side: `summary.image`."""
        self._add(summary.image(tag, img_tensor, 1, dataformats), global_step, walltime)

    def add_image_with_boxes(
        self, tag: str, img_tensor: object, box_tensor: object, global_step: object = None,
        walltime: float | None = None, rescale: float = 1, dataformats: str = "CHW",
        labels: Any = None,
    ) -> None:  # fmt: skip
        """An image with boxes drawn on it: `summary.image_boxes`."""
        labels = [labels] if isinstance(labels, str) else labels
        made = summary.image_boxes(tag, img_tensor, box_tensor, rescale, dataformats, labels)
        self._add(made, global_step, walltime)

    def add_figure(
        self, tag: str, figure: object, global_step: object = None, close: bool = True,
        walltime: float | None = None,
    ) -> None:  # fmt: skip
        """A figure of matplotlib, or a list of them."""
        kind = "NCHW" if isinstance(figure, list) else "CHW"
        self._add(summary.image(tag, drawn_figure(figure, close), 1, kind), global_step, walltime)

    def add_video(
        self, tag: str, vid_tensor: object, global_step: object = None, fps: float = 4,
        walltime: float | None = None,
    ) -> None:  # fmt: skip
        """Moving images: `summary.video`."""
        self._add(summary.video(tag, vid_tensor, fps), global_step, walltime)

    def add_audio(
        self, tag: str, snd_tensor: object, global_step: object = None, sample_rate: int = 44100,
        walltime: float | None = None,
    ) -> None:  # fmt: skip
        """A sound: `summary.audio`."""
        self._add(summary.audio(tag, snd_tensor, sample_rate), global_step, walltime)

    def add_text(
        self, tag: str, text_string: str, global_step: object = None, walltime: float | None = None
    ) -> None:
        """A text: `summary.text`."""
        self._add(summary.text(tag, text_string), global_step, walltime)

    def add_onnx_graph(self, prototxt: str) -> None:
        """The graph of a file of ONNX, which the library onnx reads."""
        self._get_file_writer().add_onnx_graph(graph_of_onnx(prototxt))

    def add_graph(
        self, model: object, input_to_model: object = None, verbose: bool = False,
        use_strict_trace: bool = True,
    ) -> None:  # fmt: skip
        """The graph of a module; where it asks for sizes, inputs are needed to see it."""
        graph = graph_of(model, input_to_model)
        if verbose:
            print(graph)
        self._get_file_writer().add_onnx_graph(graph)

    def add_embedding(
        self, mat: Any, metadata: Any = None, label_img: Any = None, global_step: Any = None,
        tag: str = "default", metadata_header: Any = None,
    ) -> None:  # fmt: skip
        """Points for the projector, with labels and pictures."""
        entry = write_embedding(
            self.log_dir, mat, metadata, label_img, global_step, tag, metadata_header
        )
        with open(
            os.path.join(self.log_dir, "projector_config.pbtxt"), "a", encoding="utf-8"
        ) as file:
            file.write(entry)

    def add_pr_curve(
        self, tag: str, labels: object, predictions: object, global_step: object = None,
        num_thresholds: int = 127, weights: object = None, walltime: float | None = None,
    ) -> None:  # fmt: skip
        """Precision over recall: `summary.pr_curve`."""
        made = summary.pr_curve(tag, labels, predictions, num_thresholds, weights)
        self._add(made, global_step, walltime)

    def add_pr_curve_raw(
        self, tag: str, true_positive_counts: object, false_positive_counts: object,
        true_negative_counts: object, false_negative_counts: object, precision: object, recall: object,
        global_step: object = None, num_thresholds: int = 127, weights: object = None,
        walltime: float | None = None,
    ) -> None:  # fmt: skip
        """Precision over recall that is already computed: `summary.pr_curve_raw`."""
        made = summary.pr_curve_raw(
            tag, true_positive_counts, false_positive_counts, true_negative_counts,
            false_negative_counts, precision, recall, num_thresholds, weights,
        )  # fmt: skip
        self._add(made, global_step, walltime)

    def add_custom_scalars_multilinechart(
        self, tags: list[str], category: str = "default", title: str = "untitled"
    ) -> None:
        """Several curves in one chart."""
        self.add_custom_scalars({category: {title: ["Multiline", tags]}})

    def add_custom_scalars_marginchart(
        self, tags: list[str], category: str = "default", title: str = "untitled"
    ) -> None:
        """A curve between two others."""
        self.add_custom_scalars({category: {title: ["Margin", tags]}})

    def add_custom_scalars(self, layout: dict[str, dict[str, list[Any]]]) -> None:
        """Which curves stand together in charts: `summary.custom_scalars`."""
        self._add(summary.custom_scalars(layout), None, None)

    def add_mesh(
        self, tag: str, vertices: object, colors: object = None, faces: object = None,
        config_dict: dict[str, Any] | None = None, global_step: object = None,
        walltime: float | None = None,
    ) -> None:  # fmt: skip
        """Points or a surface: `summary.mesh`."""
        self._add(summary.mesh(tag, vertices, colors, faces, config_dict), global_step, walltime)

    def add_hparams(
        self, hparam_dict: dict[str, Any], metric_dict: dict[str, Any],
        hparam_domain_discrete: dict[str, list[Any]] | None = None, run_name: str | None = None,
        global_step: object = None,
    ) -> None:  # fmt: skip
        """Hyperparameters of a run, and the metrics to compare it by, in a folder below this one."""
        parts = summary.hparams(hparam_dict, metric_dict, hparam_domain_discrete)
        folder = os.path.join(self.log_dir, str(time.time()) if run_name is None else run_name)
        with SummaryWriter(folder) as run:
            for part in parts:
                run._add(part, global_step, None)
            for tag, value in tree_map_only(Tensor, lambda x: x.item(), metric_dict).items():
                run.add_scalar(tag, value, global_step)

    def flush(self) -> None:
        """Writes what waits."""
        for file in (self.all_writers or {}).values():
            file.flush()

    def close(self) -> None:
        """Writes what waits and closes the files; the next event begins another."""
        for file in (self.all_writers or {}).values():
            file.close()
        self.file_writer = self.all_writers = None

    def __enter__(self) -> SummaryWriter:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

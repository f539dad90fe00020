"""The profiler of training loops: records the steps that a schedule chooses.

Takes activities, a schedule and a handler for finished traces. Gives `profile`.
Keeps true: the handler is called once a recorded cycle, after its last step; a warm-up records and
forgets.
"""

from __future__ import annotations

import enum
import json
import os
import socket
import time
import uuid
import warnings
from collections.abc import Callable, Iterable
from typing import Any

from facula.autograd import profiler as block
from facula.autograd.profiler_trace import write_trace
from facula.autograd.profiler_util import EventList
from facula.core.errors import fail

__all__ = [
    "ProfilerAction",
    "ProfilerActivity",
    "RecordScope",
    "profile",
    "schedule",
    "supported_activities",
    "tensorboard_trace_handler",
]


class ProfilerActivity(enum.IntEnum):
    """What can be recorded; each is the processor on which it runs."""

    CPU = 0
    XPU = 1
    MTIA = 2
    CUDA = 3
    HPU = 4
    PrivateUse1 = 5


class RecordScope(enum.IntEnum):
    """What an event is about."""

    FUNCTION = 0
    BACKWARD_FUNCTION = 1
    TORCHSCRIPT_FUNCTION = 2
    KERNEL_FUNCTION_DTYPE = 3
    CUSTOM_CLASS = 4
    BUILD_FEATURE = 5
    LITE_INTERPRETER = 6
    USER_SCOPE = 7


class ProfilerAction(enum.Enum):
    """What the profiler does in a step."""

    NONE = 0
    WARMUP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3


_RECORDING = (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE)


def supported_activities() -> set[ProfilerActivity]:
    """What can be recorded on this machine."""
    return {ProfilerActivity.CPU}


def schedule(
    *,
    wait: int,
    warmup: int,
    active: int,
    repeat: int = 0,
    skip_first: int = 0,
    skip_first_wait: int = 0,
) -> Callable[[int], ProfilerAction]:
    """Cycles of `wait` idle, `warmup` discarded and `active` recorded steps.

    repeat: the number of cycles, 0 for no end. skip_first: idle steps before the first cycle.
    skip_first_wait: not 0 leaves out the idle steps of the first cycle.
    """
    if min(wait, warmup, repeat, skip_first) < 0 or active < 1:
        fail(
            ValueError,
            "schedule",
            "Invalid profiler schedule arguments: active of at least 1, others of at least 0",
            f"wait={wait}, warmup={warmup}, active={active}, repeat={repeat}",
            hint="for example schedule(wait=1, warmup=1, active=3)",
        )
    if warmup == 0:
        warnings.warn(
            "Profiler won't be using warmup, this can skew profiler results", stacklevel=2
        )

    def action(step: int) -> ProfilerAction:
        if step < 0:
            fail(
                ValueError,
                "schedule",
                f"Step must be non-negative. Got {step}.",
                hint="steps count from 0",
            )
        if step < skip_first:
            return ProfilerAction.NONE
        step -= skip_first
        if skip_first_wait:
            step += wait
        cycle, place = divmod(step, wait + warmup + active)
        if repeat and cycle >= repeat:
            return ProfilerAction.NONE
        if place < wait:
            return ProfilerAction.NONE
        if place < wait + warmup:
            return ProfilerAction.WARMUP
        last = place == wait + warmup + active - 1
        return ProfilerAction.RECORD_AND_SAVE if last else ProfilerAction.RECORD

    return action


def _default_schedule_fn(_: int) -> ProfilerAction:
    return ProfilerAction.RECORD


def tensorboard_trace_handler(
    dir_name: str, worker_name: str | None = None, use_gzip: bool = False
) -> Callable[[profile], None]:
    """A handler that writes each trace into a directory, named as TensorBoard's plugin expects."""

    def handle(finished: profile) -> None:
        try:
            os.makedirs(dir_name, exist_ok=True)
        except OSError as error:
            fail(
                RuntimeError,
                "tensorboard_trace_handler",
                "Can't create directory",
                dir_name,
                str(error),
            )
        name = worker_name or f"{socket.gethostname()}_{os.getpid()}"
        end = ".pt.trace.json" + (".gz" if use_gzip else "")
        finished.export_chrome_trace(os.path.join(dir_name, f"{name}.{time.time_ns()}{end}"))

    return handle


def _check_activities(activities: Iterable[ProfilerActivity] | None) -> set[ProfilerActivity]:
    wanted = supported_activities() if activities is None else set(activities)
    for activity in wanted - supported_activities():
        warnings.warn(
            f"{activity.name} is not available, disabling {activity.name} profiling", stacklevel=4
        )
    wanted &= supported_activities()
    if not wanted:
        fail(
            RuntimeError,
            "profile",
            "activities that can be recorded here were required: No valid profiler activities found",
            activities,
            hint="ProfilerActivity.CPU records here",
        )
    return wanted


class _KinetoProfile:
    """One trace at a time: `prepare_trace`, `start_trace`, `stop_trace`; results and notes."""

    def __init__(
        self,
        *,
        activities: Iterable[ProfilerActivity] | None = None,
        record_shapes: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_flops: bool = False,
        with_modules: bool = False,
        experimental_config: Any = None,
        acc_events: bool = False,
        custom_trace_id_callback: Callable[[], str] | None = None,
    ) -> None:
        self.activities = _check_activities(activities)
        self.record_shapes = record_shapes
        self.profile_memory = profile_memory
        self.with_stack = with_stack
        self.with_flops = with_flops
        self.with_modules = with_modules
        self.acc_events = acc_events
        self.custom_trace_id_callback = custom_trace_id_callback
        self.profiler: block.profile | None = None
        self.preset_metadata: dict[str, str] = {}
        self._notes: dict[str, Any] = {}
        self._trace_id = ""

    def start(self) -> None:
        """Prepare and start."""
        self.prepare_trace()
        self.start_trace()

    def stop(self) -> None:
        """Stop."""
        self.stop_trace()

    def prepare_trace(self) -> None:
        """Record already, to be forgotten when the trace starts."""
        if self.profiler is None or not self.acc_events:
            self.profiler = block.profile(
                use_cpu=ProfilerActivity.CPU in self.activities,
                record_shapes=self.record_shapes,
                with_flops=self.with_flops,
                profile_memory=self.profile_memory,
                with_stack=self.with_stack,
                with_modules=self.with_modules,
                acc_events=self.acc_events,
            )
        callback = self.custom_trace_id_callback
        self._trace_id = callback() if callback is not None else uuid.uuid4().hex.upper()
        self.profiler._prepare_trace()

    def start_trace(self) -> None:
        """Record from here."""
        if self.profiler is None or self.profiler.recorder is None:
            fail(
                RuntimeError,
                "profile",
                "a prepared trace was required: Profiler must be prepared",
                hint="call prepare_trace() first, or use `with profile(...)`",
            )
        self._notes = {
            "trace_id": self._trace_id,
            "record_shapes": int(self.record_shapes),
            "profile_memory": int(self.profile_memory),
            "with_stack": int(self.with_stack),
            "with_flops": int(self.with_flops),
            **self.preset_metadata,
        }
        self.profiler._start_trace()

    def stop_trace(self) -> None:
        """Record no more."""
        self._running().__exit__(None, None, None)

    def _running(self) -> block.profile:
        if self.profiler is None:
            fail(
                RuntimeError,
                "profile",
                "Profiler must be initialized before it is asked for results",
                hint="use `with profile(...)`, and ask afterwards",
            )
        return self.profiler

    def export_chrome_trace(self, path: str) -> None:
        """Write the trace for chrome://tracing, Perfetto and TensorBoard."""
        events = self._running()._events()
        write_trace(path, events, events._start_wall, self._notes)

    def export_stacks(self, path: str, metric: str = "self_cpu_time_total") -> None:
        """Write the stacks with their times, as flame graph tools read them."""
        self._running().export_stacks(path, metric)

    def key_averages(
        self,
        group_by_input_shape: bool = False,
        group_by_stack_n: int = 0,
        group_by_overload_name: bool = False,
    ) -> EventList:
        """Sums over events of one name (and shapes, and the innermost frames)."""
        return self._running().key_averages(
            group_by_input_shape, group_by_stack_n, group_by_overload_name
        )

    def events(self) -> EventList:
        """The events, in the order in which they began."""
        return self._running()._events()

    def add_metadata(self, key: str, value: str) -> None:
        """Note a text in the trace."""
        self._notes[key] = str(value)

    def add_metadata_json(self, key: str, value: str) -> None:
        """Note a value, given as JSON, in the trace."""
        self._notes[key] = json.loads(value)

    def preset_metadata_json(self, key: str, value: str) -> None:
        """Note a value, given as JSON, in every trace that starts from now on."""
        self.preset_metadata[key] = json.loads(value)

    def get_trace_id(self) -> str | None:
        """The name of the present trace."""
        return self._trace_id or None

    def set_custom_trace_id_callback(self, callback: Callable[[], str]) -> None:
        """Let `callback` name the next traces."""
        self.custom_trace_id_callback = callback

    def toggle_collection_dynamic(
        self, enable: bool, activities: Iterable[ProfilerActivity]
    ) -> None:
        """Pause the recording, or go on with it."""
        if ProfilerActivity.CPU in set(activities):
            self._running().toggle_collection_dynamic(enable, activities)


class profile(_KinetoProfile):
    """Records a program, or the steps of it that a schedule chooses.

    with profile(schedule=schedule(wait=1, warmup=1, active=2), on_trace_ready=handler) as p:
        for batch in loader:
            train(batch)
            p.step()

    on_trace_ready: called with the profile when a cycle (or the block) is over. The other switches
    are those of `autograd.profiler.profile`.
    """

    def __init__(
        self,
        *,
        activities: Iterable[ProfilerActivity] | None = None,
        schedule: Callable[[int], ProfilerAction] | None = None,
        on_trace_ready: Callable[..., Any] | None = None,
        record_shapes: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_flops: bool = False,
        with_modules: bool = False,
        experimental_config: Any = None,
        acc_events: bool = False,
        use_cuda: bool | None = None,
        custom_trace_id_callback: Callable[[], str] | None = None,
    ) -> None:
        if use_cuda is not None:
            warnings.warn(
                "`use_cuda` is deprecated, use `activities` argument instead",
                FutureWarning,
                stacklevel=2,
            )
            more = {ProfilerActivity.CUDA} if use_cuda else set()
            activities = set(activities or {ProfilerActivity.CPU}) | more
        super().__init__(
            activities=activities,
            record_shapes=record_shapes,
            profile_memory=profile_memory,
            with_stack=with_stack,
            with_flops=with_flops,
            with_modules=with_modules,
            acc_events=acc_events,
            custom_trace_id_callback=custom_trace_id_callback,
        )
        self.schedule = schedule or _default_schedule_fn
        self.record_steps = schedule is not None
        self.on_trace_ready = on_trace_ready
        self.step_num = 0
        self.current_action = self.schedule(0)
        self.step_rec_fn: block.record_function | None = None

    def __enter__(self) -> profile:
        self.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()

    def start(self) -> None:
        """Begin with step 0."""
        self._move(ProfilerAction.NONE, self.current_action)
        self._mark_step()

    def stop(self) -> None:
        """End, whatever the schedule says."""
        self._end_mark()
        self._move(self.current_action, None)

    def step(self) -> None:
        """The next step of the program begins."""
        self._end_mark()
        before = self.current_action
        self.step_num += 1
        self.current_action = self.schedule(self.step_num)
        self._move(before, self.current_action)
        self._mark_step()

    def _mark_step(self) -> None:
        if self.record_steps:
            self.step_rec_fn = block.record_function(f"ProfilerStep#{self.step_num}")
            self.step_rec_fn.__enter__()

    def _end_mark(self) -> None:
        if self.step_rec_fn is not None:
            self.step_rec_fn.__exit__(None, None, None)
            self.step_rec_fn = None

    def _move(self, before: ProfilerAction, after: ProfilerAction | None) -> None:
        """Go from the action of one step to that of the next; None: the profile is over."""
        if before in _RECORDING and (
            after not in _RECORDING or before is not ProfilerAction.RECORD
        ):
            if before is ProfilerAction.RECORD and after is not None:
                warnings.warn(
                    "Incorrect schedule: RECORD followed by an action that does not record",
                    stacklevel=3,
                )
            self.stop_trace()
            if before is ProfilerAction.RECORD_AND_SAVE or after is None:
                self._trace_ready()
            before = ProfilerAction.NONE
        elif before is ProfilerAction.WARMUP and after in (None, ProfilerAction.NONE):
            self.start_trace()
            self.stop_trace()
            before = ProfilerAction.NONE
        if before is ProfilerAction.NONE and after not in (None, ProfilerAction.NONE):
            self.prepare_trace()
        if after in _RECORDING and before not in _RECORDING:
            self.start_trace()

    def _trace_ready(self) -> None:
        if self.on_trace_ready is not None:
            self.on_trace_ready(self)

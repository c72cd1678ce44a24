"""A timeline of the ops that run: a file that chrome://tracing and https://ui.perfetto.dev show."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import IO, Any, ClassVar

from .. import _core
from ..autodiff import GradManager
from ..jit.profile import Sample
from ..module import Module
from ..optimizer import Optimizer
from ..serialization import write_aside

__all__ = [
    "Profiler",
    "cupti_available",
    "disable_cupti",
    "enable_cupti",
    "full_sync",
    "is_profiling",
    "merge_trace_events",
    "pop_scope",
    "pop_scope_with_type",
    "profile",
    "push_scope",
    "push_scope_with_type",
    "scope",
    "set_python_backtrace_enabled",
    "start_profile",
    "stop_profile",
    "stop_step",
    "sync",
]

Event = dict[str, Any]

CHROME_TIMELINE = "chrome_timeline.json"
_SCOPE_TYPES = ("default",)


class _Recording:
    """What is noted beside the ops while a profile is taken: scopes and steps."""

    def __init__(self) -> None:
        self.wall_clock = time.time_ns()
        self.began = _core.profile_begin()
        self.events: list[Event] = []
        self.steps = 0

    def now(self) -> float:
        """Microseconds since it began."""
        return (time.perf_counter() - self.began) * 1e6

    def add(self, kind: str, name: str, **more: Any) -> None:
        """Notes an event of Chrome's format: of the kind B (begin), E (end) or i (instant)."""
        self.events.append(
            {"name": name, "ph": kind, "ts": self.now(), "tid": _core.thread_number(), **more}
        )


_recording: _Recording | None = None
_places = False  # whether ops come with the lines that called them


# ---- functions ----------------------------------------------------------------------------------


def is_profiling() -> bool:
    """Whether a profile is being taken.

    >>> is_profiling()
    False
    """
    return _recording is not None


def start_profile(options: Mapping[str, int]) -> None:
    """Starts a profile; :class:`Profiler` does so by itself.

    Args:
        options: as in :attr:`Profiler.valid_options`.

    Raises:
        RuntimeError: a profile is being taken already.
    """
    global _recording
    _check_options(options)
    if _recording is not None:
        raise RuntimeError("start_profile: a profile is being taken already")
    _recording = _Recording()


def stop_profile() -> Callable[[str, str], None]:
    """Ends a profile.

    Returns:
        a function of a path and a format, which writes the profile into a file.

    Raises:
        RuntimeError: no profile is being taken.
    """
    global _recording
    recording = _running("stop_profile")
    _recording = None
    samples: list[Any] = _core.profile_end()
    places = _places

    def dump(path: str, format: str) -> None:
        _check_format(format)
        timeline = _timeline(recording, samples, places)
        text = json.dumps(timeline, default=str)

        def write(file: IO[bytes]) -> None:
            file.write(text.encode())

        os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
        write_aside(path, write)

    dump.samples = samples  # type: ignore[attr-defined]
    return dump


def stop_step() -> None:
    """Marks the end of a step of training.

    Raises:
        RuntimeError: no profile is being taken.
    """
    recording = _running("stop_step")
    recording.steps += 1
    recording.add("i", f"step {recording.steps}", s="p")


def push_scope(name: str) -> None:
    """Begins a part of the timeline that has a name. Without a profile this does nothing."""
    if _recording is not None:
        _recording.add("B", name, cat="scope")


def pop_scope(name: str) -> None:
    """Ends the part of the timeline that :func:`push_scope` began."""
    if _recording is not None:
        _recording.add("E", name, cat="scope")


def push_scope_with_type(name: str, type: str) -> None:
    """Begins a part of the timeline, as :func:`push_scope` does.

    Raises:
        ValueError: ``type`` is not "default".
    """
    _check_scope_type(type)
    push_scope(name)


def pop_scope_with_type(name: str, type: str) -> None:
    """Ends the part of the timeline that :func:`push_scope_with_type` began."""
    _check_scope_type(type)
    pop_scope(name)


@contextlib.contextmanager
def scope(name: str) -> Iterator[None]:
    """A block that shows as a part of the timeline, above the ops in it.

    Args:
        name: what is shown.

    >>> with scope("augmentation"):
    ...     pass
    """
    push_scope(name)
    try:
        yield
    finally:
        pop_scope(name)


def set_python_backtrace_enabled(enabled: bool) -> bool:
    """Has ops come with the lines of Python that called them, and returns whether they did."""
    global _places
    before = _places
    _places = enabled
    return before


def sync() -> None:
    """Waits for running ops: there are none, since each runs when it is called."""


def full_sync() -> None:
    """Waits for running ops: there are none, since each runs when it is called."""


def cupti_available() -> bool:
    """Whether kernels on NVIDIA's GPUs can be timed: no."""
    return False


def enable_cupti() -> None:
    """Would time kernels on NVIDIA's GPUs.

    Raises:
        RuntimeError: always; this build runs on CPUs.
    """
    raise RuntimeError("enable_cupti: this build runs on CPUs, whose ops are timed without it")


def disable_cupti() -> None:
    """Does nothing: kernels on NVIDIA's GPUs are not timed."""


# ---- the profiler -------------------------------------------------------------------------------


class Profiler(contextlib.ContextDecorator):
    """Takes a timeline of the ops that run in a block or function, with the memory that they hold.

    Ops show with their shapes, dtypes and parameters, on the thread that ran them. Those of traced
    functions are the ops of the optimized program. The file is written when the block ends, as
    ``path/<process id>.chrome_timeline.json``; another block replaces it.

    Args:
        path: the folder of the file.
        format: "chrome_timeline.json", the only one.
        formats: a list of formats, or one, in the place of ``format``.
        with_backtrace: shows the line of the program that called each op.
        with_scopes: shows calls of modules, ``GradManager.backward`` and ``Optimizer.step``, too,
            which takes time.
        **kwargs: ``sample_rate``, ``profile_device``, ``num_tensor_watch`` and ``enable_cupti``
            are taken for the sake of programs that pass them. All ops are noted in any case.

    Raises:
        RuntimeError: a profile is being taken already.
        NotImplementedError: the format "memory_flow.svg".
        ValueError: another format.
        TypeError: another option.

    >>> import pathlib
    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> x = mge.tensor([1.0, 2.0])
    >>> with Profiler(folder.name) as profiler:
    ...     y = F.exp(x) + 1
    >>> timeline = json.loads(pathlib.Path(profiler.path).read_text())
    >>> [event["name"] for event in timeline["traceEvents"] if event.get("cat") == "op"]
    ['EXP', 'ADD']
    >>> folder.cleanup()
    """

    CHROME_TIMELINE = CHROME_TIMELINE
    valid_options: ClassVar[dict[str, int]] = {
        "sample_rate": 0,
        "profile_device": 1,
        "num_tensor_watch": 10,
        "enable_cupti": 0,
    }
    valid_formats: ClassVar[set[str]] = {CHROME_TIMELINE}

    def __init__(
        self,
        path: str = "profile",
        format: str = CHROME_TIMELINE,
        formats: str | Sequence[str] | None = None,
        with_backtrace: bool = False,
        with_scopes: bool = False,
        **kwargs: int,
    ) -> None:
        _check_options(kwargs)
        chosen = format if formats is None else formats
        self._formats = [chosen] if isinstance(chosen, str) else list(chosen)
        for name in self._formats:
            _check_format(name)
        self._path = path
        self.with_backtrace = with_backtrace
        self._with_scopes = with_scopes
        self._options = {**self.valid_options, **kwargs}
        self._dump: Callable[[str, str], None] | None = None
        self._blocks = contextlib.ExitStack()

    @property
    def path(self) -> str:
        """The file."""
        return self.format_path(self._path, os.getpid(), self._formats[0])

    @property
    def directory(self) -> str:
        """The folder of the file."""
        return self._path

    @property
    def formats(self) -> list[str]:
        """The formats that are written."""
        return list(self._formats)

    def format_path(self, path: str, pid: int | str, format: str) -> str:
        """The name of a file: of a folder, a process and a format."""
        return os.path.join(path, f"{pid}.{format}")

    def start(self) -> Profiler:
        """Begins, and returns the profiler."""
        start_profile(self._options)
        before = set_python_backtrace_enabled(self.with_backtrace)
        self._blocks.callback(set_python_backtrace_enabled, before)
        if self._with_scopes:
            for kind, method in _WITH_SCOPES:
                self._blocks.enter_context(_calls_as_scopes(kind, method))
        return self

    def stop(self) -> None:
        """Ends, and writes the file.

        Raises:
            RuntimeError: it has not begun.
        """
        dump = stop_profile()
        self._blocks.close()
        self._dump = dump
        self.dump()

    def step(self) -> Profiler:
        """Marks the end of a step of training, and returns the profiler.

        Raises:
            RuntimeError: it has not begun.
        """
        stop_step()
        return self

    def dump(self) -> None:
        """Writes the file once more. Before the first profile this does nothing."""
        if self._dump is not None:
            for name in self._formats:
                self._dump(self.format_path(self._path, os.getpid(), name), name)

    def summary(self, limit: int = 20) -> str:
        """A table of the last profile: how often each kind of op ran, and how long it took.

        The time of an op that runs others, as a fused one may, is in theirs as well as in its own.

        Args:
            limit: how many lines to show, of the kinds that took longest.

        Raises:
            RuntimeError: there is no profile yet.
        """
        if self._dump is None:
            raise RuntimeError("Profiler.summary: there is no profile yet")
        samples: list[Sample] = self._dump.samples  # type: ignore[attr-defined]
        kinds: dict[str, list[float]] = {}
        for sample in samples:
            kinds.setdefault(_name_of(sample), []).append(sample[6] - sample[5])
        total = sum(map(sum, kinds.values()))
        lines = [f"{'op':<32}{'calls':>8}{'ms':>12}{'us a call':>12}{'share':>8}"]
        for name, times in sorted(kinds.items(), key=lambda item: -sum(item[1]))[:limit]:
            spent = sum(times)
            lines.append(
                f"{name:<32}{len(times):>8}{spent * 1e3:>12.3f}{spent / len(times) * 1e6:>12.1f}"
                f"{spent / total:>8.1%}"
            )
        return "\n".join(lines)

    def __enter__(self) -> Profiler:
        return self.start()

    def __exit__(self, *exc_info: object) -> None:
        self.stop()


def profile(*args: Any, **kwargs: Any) -> Any:
    """Decorates a function so that each call is profiled.

    Args:
        *args: the function; or the arguments of :class:`Profiler`.
        **kwargs: more arguments of it.

    >>> @profile("timelines")
    ... def train():
    ...     "..."
    """
    if len(args) == 1 and not kwargs and callable(args[0]):
        return Profiler()(args[0])
    return Profiler(*args, **kwargs)


def merge_trace_events(directory: str) -> None:
    """Joins the timelines of several processes in a folder, into ``merge.chrome_timeline.json``.

    Args:
        directory: the folder.

    Raises:
        FileNotFoundError: there are none.
    """
    merged = f"merge.{CHROME_TIMELINE}"
    names = sorted(
        n for n in os.listdir(directory) if n.endswith("." + CHROME_TIMELINE) and n != merged
    )
    if not names:
        raise FileNotFoundError(f"merge_trace_events: no *.{CHROME_TIMELINE} in {directory}")
    timelines = []
    for name in names:
        with open(os.path.join(directory, name), encoding="utf-8") as file:
            timelines.append(json.load(file))
    # Each counts its time from its own beginning.
    first = min(int(t["metadata"]["localTime"]) for t in timelines)
    events: list[Event] = []
    for timeline in timelines:
        later = (int(timeline["metadata"]["localTime"]) - first) / 1e3
        for event in timeline["traceEvents"]:
            events.append({**event, "ts": event["ts"] + later} if "ts" in event else event)
    text = json.dumps({"traceEvents": events, "metadata": {"localTime": str(first)}})

    def write(file: IO[bytes]) -> None:
        file.write(text.encode())

    write_aside(os.path.join(directory, merged), write)


# ---- inside -------------------------------------------------------------------------------------


def _running(name: str) -> _Recording:
    if _recording is None:
        raise RuntimeError(f"{name}: no profile is being taken")
    return _recording


def _check_options(options: Mapping[str, int]) -> None:
    for name, value in options.items():
        if name not in Profiler.valid_options:
            raise TypeError(
                f"Profiler: expected options of {sorted(Profiler.valid_options)}, got {name!r}"
            )
        if name == "enable_cupti" and value:
            enable_cupti()


def _check_format(format: str) -> None:
    if format == "memory_flow.svg":
        raise NotImplementedError(
            "Profiler: memory_flow.svg is not supported; the timeline shows the allocated memory"
        )
    if format not in Profiler.valid_formats:
        raise ValueError(f"unsupported format {format}: expected {CHROME_TIMELINE!r}")


def _check_scope_type(type: str) -> None:
    if type not in _SCOPE_TYPES:
        raise ValueError(f"unsupported scope type {type!r}: expected one of {_SCOPE_TYPES}")


_WITH_SCOPES: list[tuple[type, str]] = [
    (Module, "__call__"),
    (GradManager, "backward"),
    (Optimizer, "step"),
]


@contextlib.contextmanager
def _calls_as_scopes(kind: type, method: str) -> Iterator[None]:
    """A block in which calls of a method show as scopes."""
    plain = getattr(kind, method)

    @functools.wraps(plain)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        name = getattr(self, "name", None) or type(self).__name__
        with scope(name if method == "__call__" else f"{name}.{method}"):
            return plain(self, *args, **kwargs)

    setattr(kind, method, call)
    try:
        yield
    finally:
        setattr(kind, method, plain)


def _name_of(sample: Sample) -> str:
    """The kind of an op; what an elementwise one computes."""
    _, fields, kind, *_ = sample
    mode = fields.get("mode") if kind == "Elemwise" else None
    return kind if mode is None else getattr(mode, "name", str(mode))


def _timeline(recording: _Recording, samples: Sequence[Sample], places: bool) -> dict[str, Any]:
    pid = os.getpid()
    events: list[Event] = [{"pid": pid, **event} for event in recording.events]
    for sample in samples:
        _, fields, kind, inputs, outputs, start, end, thread, allocated, place = sample
        arguments = {
            "kind": kind,
            **{name: str(value) for name, value in fields.items()},
            "inputs": [f"{dtype} {shape}" for dtype, shape in inputs],
            "outputs": [f"{dtype} {shape}" for dtype, shape in outputs],
        }
        if places and place is not None:
            arguments["called at"] = place
        events.append(
            {
                "name": _name_of(sample),
                "cat": "op",
                "ph": "X",
                "ts": start * 1e6,
                "dur": (end - start) * 1e6,
                "pid": pid,
                "tid": thread,
                "args": arguments,
            }
        )
        events.append(
            {
                "name": "cpu0:0_alloc_mem",
                "ph": "C",
                "ts": end * 1e6,
                "pid": pid,
                "tid": thread,
                "args": {"value": allocated},
            }
        )
    events.sort(key=lambda event: event["ts"])
    for number in sorted({event["tid"] for event in events}):
        main = number == _core.thread_number() and threading.current_thread().name == "MainThread"
        name = "main thread" if main else f"thread {number}"
        events.append(
            {"name": "thread_name", "ph": "M", "pid": pid, "tid": number, "args": {"name": name}}
        )
    return {"traceEvents": events, "metadata": {"localTime": str(recording.wall_clock)}}

"""Inside a job: the number of the attempt, where to save, what to resume from, and the order to stop (R28-R30).

    from headrace.client import job

    model = load(job.resumed_from) if job.resumed_from else fresh()
    for step in range(steps):
        train(model)
        if job.preempting:                                        # a flag to poll, where a step is a good place to stop
            job.checkpointed(save(model, job.checkpoint_dir / f"{step}.pt"), step)
            break
    else:
        job.finished()

    @job.on_abort                                                 # or a function that is called, wherever the job is
    def save_now() -> None: ...

Strategy: the interface is files and environment variables, so any language can do the same. The node writes HEADRACE_PREEMPT_FILE. A job
that
polls it is given a grace before SIGTERM; the node knows that it polls by the file's access time, where the file system has these, and by
a file called `hook` in HEADRACE_CONTROL_DIR. A callback runs in the main thread, between two of its instructions, never beside it: a
thread would save a model while it changes. A watching thread polls the file and interrupts the main thread by a signal; when the
callbacks are done, the process exits by `SystemExit`, so that `finally` and `atexit` run.

Outside of Headrace the module does nothing: `preempting` is False, and `checkpoint_dir` is `./checkpoints`.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar, overload

import msgspec

LOOK_EVERY = 0.1
"""Seconds between two polls of the watching thread."""

ABORT_SIGNAL = signal.SIGRTMIN + 7 if hasattr(signal, "SIGRTMIN") else signal.SIGTERM
"""Signal by which the watching thread interrupts the main thread; unlikely to be used by other libraries."""

Callback = Callable[[], object]
C = TypeVar("C", bound=Callback)


class Preemption(msgspec.Struct, frozen=True):
    """Why the job has to stop: the `reason`, the key of the preempting job if there is one, the `deadline` in Unix seconds."""

    reason: str
    preemptor: str = ""
    deadline: int = 0


class _Registration(msgspec.Struct, frozen=True):
    uri: str
    step: int


id: str = os.environ.get("HEADRACE_JOB_ID", "")  # noqa: A001 - `job.id` is the natural name
"""The job's id; empty outside of Headrace."""

attempt: int = int(os.environ.get("HEADRACE_ATTEMPT") or 1)
"""Number of this attempt, from 1."""

resumed_from: str | None = os.environ.get("HEADRACE_RESUME_FROM") or None
"""The newest checkpoint that an earlier attempt registered; None without one, or if it cannot be read on this node."""

preempting: bool
"""True while the job has to stop; False again after it was suspended and resumed.

Reading it tells the node that this job polls, which gives the job a grace before SIGTERM.
"""

checkpoint_dir: Path
"""Directory where this attempt saves; it exists, and belongs to this attempt alone."""

_control = os.environ.get("HEADRACE_CONTROL_DIR", "")
_preempt_file = os.environ.get("HEADRACE_PREEMPT_FILE", "")
_finished_file = os.environ.get("HEADRACE_FINISHED_FILE", "")


class _Abort:
    """State of the order to stop, and the registered callbacks."""

    hooked = False
    handled = False
    callbacks: tuple[tuple[Callback, bool], ...] = ()


def __getattr__(name: str) -> object:
    if name == "preempting":
        _hook()
        return _is_preempted()
    if name == "checkpoint_dir":
        return _checkpoint_dir()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def preemption() -> Preemption | None:
    """Why and by when the job has to stop; None while it has not been told to."""
    if not _preempt_file:
        return None
    with contextlib.suppress(OSError, msgspec.DecodeError):
        return msgspec.json.decode(Path(_preempt_file).read_bytes(), type=Preemption)
    return None


@overload
def on_abort(callback: C, /) -> C: ...
@overload
def on_abort(*, leave: bool = True) -> Callable[[C], C]: ...
def on_abort(callback: C | None = None, /, *, leave: bool = True) -> C | Callable[[C], C]:
    """Call the decorated function, once, in the main thread, when the job is told to stop.

    Several are called in the order of their registration; an error of one does not skip the others. Afterwards the process exits: with 0,
    or
    by the first error. With `leave=False` it continues, for code that polls `preempting` or ends on its own; SIGTERM follows when the grace
    is over. Raises RuntimeError outside of the main thread.
    """

    def register(function: C) -> C:
        if threading.current_thread() is not threading.main_thread():
            raise RuntimeError("register on_abort callbacks in the main thread, or poll job.preempting")
        first = not _Abort.callbacks
        _Abort.callbacks = (*_Abort.callbacks, (function, leave))
        if first and _preempt_file:
            signal.signal(ABORT_SIGNAL, _interrupted)
            _hook()
            threading.Thread(target=_watch, name="headrace-abort", daemon=True).start()
        return function

    return register if callback is None else register(callback)


def checkpointed(uri: str | os.PathLike[str], step: int = 0) -> None:
    """Register a checkpoint that has been written completely: a path, or a file:// URI. `step` is the job's own count.

    The node checks that it exists; only then it counts, for resuming and for the cost of a preemption (R25).
    """
    if not _control:
        return
    where = os.fspath(uri)
    if "://" not in where:
        where = os.path.abspath(where)
    line = msgspec.json.encode(_Registration(where, step)) + b"\n"
    descriptor = os.open(os.path.join(_control, "checkpoints"), os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
    try:
        os.write(descriptor, line)
    finally:
        os.close(descriptor)


def finished() -> None:
    """Declare the work done: if a preemption follows, the job counts as succeeded (R30)."""
    if _finished_file:
        Path(_finished_file).touch()


def _checkpoint_dir() -> Path:
    path = Path(os.environ.get("HEADRACE_CHECKPOINT_DIR") or "checkpoints")
    path.mkdir(parents=True, exist_ok=True)
    return path


def _hook() -> None:
    """Tell the node that this job polls the preempt file."""
    if _control and not _Abort.hooked:
        _Abort.hooked = True
        with contextlib.suppress(OSError):
            Path(_control, "hook").touch()


def _is_preempted() -> bool:
    return bool(_preempt_file) and os.path.exists(_preempt_file)


def _watch() -> None:
    """Send the signal until the main thread has handled it: one sent just before the main thread starts to wait does not interrupt it.

    After a suspended job was resumed, it can be told again.
    """
    main = threading.main_thread().ident
    while main is not None:
        if not _is_preempted():
            _Abort.handled = False
        elif not _Abort.handled:
            signal.pthread_kill(main, ABORT_SIGNAL)
        time.sleep(LOOK_EVERY)


def _interrupted(_number: int, _frame: object) -> None:
    if _Abort.handled or not _is_preempted():
        return
    _Abort.handled = True
    callbacks = _Abort.callbacks
    errors = []
    for callback, _ in callbacks:
        try:
            callback()
        except Exception as error:  # noqa: BLE001 - the other callbacks may have something to save
            errors.append(error)
    if errors:
        raise errors[0]
    if any(leave for _, leave in callbacks):
        raise SystemExit(0)

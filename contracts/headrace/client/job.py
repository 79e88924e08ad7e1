"""Inside a job: which attempt this is, where to save, what to resume from, and the wish that it yields (R28-R30).

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

Strategy: everything is files and environment variables, so any language can do the same. The node writes HEADRACE_PREEMPT_FILE; who
polls it is seen to do so where the node's file system notes access times, and says so as well, by a file called `hook` in
HEADRACE_CONTROL_DIR: then there is a grace before SIGTERM. A callback
runs in the main thread, between two of its instructions, never beside it: a thread would save a model that is just being changed. A
watching thread sees the file and interrupts the main thread by a signal; when the callbacks are done, the process leaves by
`SystemExit`, so `finally` and `atexit` do their part.

Outside of Headrace all of it does nothing: `preempting` is False, and `checkpoint_dir` is `./checkpoints`.
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
"""Seconds between two looks of the watching thread."""

ABORT_SIGNAL = signal.SIGRTMIN + 7 if hasattr(signal, "SIGRTMIN") else signal.SIGTERM
"""How the watching thread interrupts the main thread; nobody else is likely to use it."""

Callback = Callable[[], object]
C = TypeVar("C", bound=Callback)


class Preemption(msgspec.Struct, frozen=True):
    """Why the job has to yield: the `reason`, the `preemptor`'s job key if there is one, the `deadline` in Unix seconds."""

    reason: str
    preemptor: str = ""
    deadline: int = 0


class _Registration(msgspec.Struct, frozen=True):
    uri: str
    step: int


id: str = os.environ.get("HEADRACE_JOB_ID", "")  # noqa: A001 - `job.id` is what anybody would write
"""The job's id; empty outside of Headrace."""

attempt: int = int(os.environ.get("HEADRACE_ATTEMPT") or 1)
"""Which attempt this is, from 1."""

resumed_from: str | None = os.environ.get("HEADRACE_RESUME_FROM") or None
"""The newest checkpoint that an earlier attempt registered; None where there is none, or where it cannot be read on this node."""

preempting: bool
"""Whether the job has to yield; False again when it was suspended and goes on. Reading it says that this job polls, so that it is given
its grace."""

checkpoint_dir: Path
"""Where this attempt saves; it exists, and belongs to this attempt alone."""

_control = os.environ.get("HEADRACE_CONTROL_DIR", "")
_preempt_file = os.environ.get("HEADRACE_PREEMPT_FILE", "")
_finished_file = os.environ.get("HEADRACE_FINISHED_FILE", "")


class _Abort:
    """What is known of the end, and who wants to hear of it."""

    hooked = False
    heard = False
    callbacks: tuple[tuple[Callback, bool], ...] = ()


def __getattr__(name: str) -> object:
    if name == "preempting":
        _hook()
        return _is_told()
    if name == "checkpoint_dir":
        return _checkpoint_dir()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def preemption() -> Preemption | None:
    """Why and by when the job has to yield; None while it has not been told to."""
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
    """Call the decorated function, once, in the main thread, whenever the job is told to yield.

    Several are called in the order of their registration; one that raises does not keep the others from their turn. Afterwards the process
    exits: with 0, or by the first error. With `leave=False` it goes on, for code that polls `preempting` or ends on its own; SIGTERM
    comes when the grace is over. Register from the main thread, else `RuntimeError`.
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

    The node looks whether it is there, and only then it counts: for resuming, and for what a preemption would cost (R25).
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
    """All the work is done: if a preemption comes now, the job has succeeded nevertheless (R30)."""
    if _finished_file:
        Path(_finished_file).touch()


def _checkpoint_dir() -> Path:
    path = Path(os.environ.get("HEADRACE_CHECKPOINT_DIR") or "checkpoints")
    path.mkdir(parents=True, exist_ok=True)
    return path


def _hook() -> None:
    """Say that this job looks for the preempt file."""
    if _control and not _Abort.hooked:
        _Abort.hooked = True
        with contextlib.suppress(OSError):
            Path(_control, "hook").touch()


def _is_told() -> bool:
    return bool(_preempt_file) and os.path.exists(_preempt_file)


def _watch() -> None:
    """A signal that comes just before the main thread begins to wait does not interrupt the wait: repeated until it is heard.

    A job that was suspended and goes on is no longer told, and can be told again.
    """
    main = threading.main_thread().ident
    while main is not None:
        if not _is_told():
            _Abort.heard = False
        elif not _Abort.heard:
            signal.pthread_kill(main, ABORT_SIGNAL)
        time.sleep(LOOK_EVERY)


def _interrupted(_number: int, _frame: object) -> None:
    if _Abort.heard or not _is_told():
        return
    _Abort.heard = True
    callbacks = _Abort.callbacks
    errors = []
    for callback, _ in callbacks:
        try:
            callback()
        except Exception as error:  # noqa: BLE001 - the others may have something to save, too
            errors.append(error)
    if errors:
        raise errors[0]
    if any(leave for _, leave in callbacks):
        raise SystemExit(0)

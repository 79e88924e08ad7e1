"""The words of the core: what it hears (events) and what it asks for (actions). Values without behaviour.

Every moment is in microseconds since 1970 by the node's clock. `lease` is a lease id throughout.
"""

from __future__ import annotations

import msgspec

from headrace.contracts.facts import AnyFact
from headrace.contracts.messages.orders import NodeAnswer, Orders, StartOrder


class Event(msgspec.Struct, frozen=True, gc=False):
    """Something that happened, at a moment."""

    at: int


class Pushed(Event, frozen=True):
    """New orders came."""

    orders: Orders


class Answered(Event, frozen=True):
    """The node asked for all that it should be running, and was told."""

    answer: NodeAnswer


class Returned(Event, frozen=True):
    """The node was out of touch for so long that it may have been given up: it has to report itself again (R32)."""


class Halted(Event, frozen=True):
    """The executor is to stop; what still runs at `deadline` is killed."""

    deadline: int


class DeviceChanged(Event, frozen=True):
    """A device is in no order, for a cause as in `device.drained`; or, with none, it is again."""

    device: str
    cause: str = ""
    code: int = 0
    message: str = ""


class Checked(Event, frozen=True):
    """The node has checked itself; `complaint` says what failed, and is empty where nothing did."""

    complaint: str = ""


class LeaseEvent(Event, frozen=True):
    """Something that happened to one lease."""

    lease: str


class Started(LeaseEvent, frozen=True):
    """The process runs; `isolation` is the level it really got."""

    isolation: str


class StartFailed(LeaseEvent, frozen=True):
    """There is no process and there will be none. `outcome` as in `lease.ended`: `exited`, `refused` or `never_started`."""

    outcome: str
    exit_code: int | None = None
    message: str = ""


class Exited(LeaseEvent, frozen=True):
    """The process is gone, and all that it started. `finished` as the job said (R30).

    `exit_code` as a shell would tell it, None where nobody can say. `at` is when it ended, which may be long ago where the executor was
    away; `seen` when that was noticed. `message` adds what is known of why.
    """

    exit_code: int | None
    finished: bool = False
    seen: int = 0
    message: str = ""


class Overran(LeaseEvent, frozen=True):
    """The job took more than it was given; `message` says of what. It is killed without further ado.

    Where that was memory of a device, `device` names it, with what was given and what was taken of it (MiB).
    """

    message: str
    device: str = ""
    limit: int = 0
    used: int = 0


class Told(LeaseEvent, frozen=True):
    """The preempt file is there (or not: see `result`); `hooked`: the job has said that it looks for it."""

    hooked: bool
    result: str = "told"


class CallbackEnded(LeaseEvent, frozen=True):
    """The abort callback is over; `result` says how, for people: `exit 0`, `failed: exit 3`, `failed: could not start: ...`."""

    result: str


class TimerFired(LeaseEvent, frozen=True):
    """The moment that `SetTimer` asked for has come; `deadline` says which one, so that a late timer is known as such."""

    deadline: int


class DevicesFree(LeaseEvent, frozen=True):
    """The devices were looked at and nothing of the lease is left on them."""


class DevicesBusy(LeaseEvent, frozen=True):
    """Something is still on the devices."""

    holder: str


class Suspended(LeaseEvent, frozen=True):
    """The processes stand still and nothing of them is left on the devices; `how`: by which means (R29)."""

    how: str


class CannotSuspend(LeaseEvent, frozen=True):
    """They run on as before; `result` says why, for people."""

    result: str


class Resumed(LeaseEvent, frozen=True):
    """The processes that were suspended run again."""


class CheckpointSeen(LeaseEvent, frozen=True):
    """The node found a checkpoint that it had not seen before (R25)."""

    uri: str
    step: int = 0


class Action(msgspec.Struct, frozen=True, gc=False):
    """Something that the executor is to do."""


class Spawn(Action, frozen=True):
    """Start the job; answer with `Started` or `StartFailed`."""

    order: StartOrder


class Unspawn(Action, frozen=True):
    """If it has not been started yet, do not, and answer with `StartFailed` (`never_started`)."""

    lease: str


class Tell(Action, frozen=True):
    """Write the preempt file and answer with `Told`.

    The file's deadline is the end of the grace that the job can use: `deadline` for a job with a hook or a callback,
    `unhooked` for one that only SIGTERM can reach.
    """

    lease: str
    reason: str
    preemptor: str
    deadline: int
    unhooked: int


class RunCallback(Action, frozen=True):
    """Run the job's abort callback, which has until `deadline`; answer with `CallbackEnded`."""

    lease: str
    deadline: int


class StopCallback(Action, frozen=True):
    """Kill the abort callback: its time is over."""

    lease: str


class Suspend(Action, frozen=True):
    """Let the job stand still, off its devices; answer with `Suspended` or `CannotSuspend`."""

    lease: str


class Resume(Action, frozen=True):
    """Take back that the job was told to stop, and let it run on; answer with `Resumed`."""

    lease: str


class Terminate(Action, frozen=True):
    """SIGTERM to every process of the job; it has exited when all of them have."""

    lease: str


class Kill(Action, frozen=True):
    """SIGKILL to every process of the job."""

    lease: str


class Verify(Action, frozen=True):
    """Look whether the devices are free; answer with `DevicesFree` or `DevicesBusy`."""

    lease: str


class SetTimer(Action, frozen=True):
    """Answer with `TimerFired` at `deadline`; a lease has one timer, a new one replaces it."""

    lease: str
    deadline: int


class Ask(Action, frozen=True):
    """Ask now for all that the node should be running; the answer comes as `Answered`."""


class Check(Action, frozen=True):
    """Check that jobs can be started here (R36); answer with `Checked`."""


class State(Action, frozen=True):
    """Write this fact to the ledger, after those before it."""

    fact: AnyFact


class Release(Action, frozen=True):
    """The lease is over: forget its timer, tidy its directories."""

    lease: str

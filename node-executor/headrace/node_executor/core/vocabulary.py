"""Events and actions of the core: values without behaviour.

Every moment is in microseconds since 1970 by the node's clock. `lease` is always a lease id.
"""

from __future__ import annotations

import msgspec

from headrace.contracts.facts import AnyFact
from headrace.contracts.messages.orders import NodeAnswer, Orders, StartOrder

EXECUTOR_STOPPED = "executor stopped"
MACHINE_STOPPED = "the machine was being shut down"


class Event(msgspec.Struct, frozen=True, gc=False):
    """An event, with its moment."""

    at: int


class Pushed(Event, frozen=True):
    """New orders arrived for the node."""

    orders: Orders


class Answered(Event, frozen=True):
    """Answer to `Ask`: all that the node should be running."""

    answer: NodeAnswer


class Returned(Event, frozen=True):
    """The node was out of touch for so long that it may have been declared lost: it has to register again (R32)."""


class Halted(Event, frozen=True):
    """The executor is to stop, for this reason; what still runs at `deadline` is killed."""

    deadline: int
    reason: str = EXECUTOR_STOPPED


class DeviceChanged(Event, frozen=True):
    """A device is drained, for a cause as in `device.drained`; without a cause it is usable again."""

    device: str
    cause: str = ""
    code: int = 0
    message: str = ""


class Checked(Event, frozen=True):
    """The node has checked itself; `complaint` is what failed, empty if nothing did."""

    complaint: str = ""


class LeaseEvent(Event, frozen=True):
    """An event of one lease."""

    lease: str


class Started(LeaseEvent, frozen=True):
    """The process runs; `isolation` is the level it really got."""

    isolation: str


class StartFailed(LeaseEvent, frozen=True):
    """The process was not started and will not be. `outcome` as in `lease.ended`: `exited`, `refused` or `never_started`."""

    outcome: str
    exit_code: int | None = None
    message: str = ""


class Exited(LeaseEvent, frozen=True):
    """The process and all that it started are gone. `finished`: the job said that all its work is done (R30).

    `exit_code` as a shell would report it, None if unknown. `at` is when it ended, which may be long ago if the executor was not running;
    `seen` is when that was noticed. `message` adds what is known of the reason.
    """

    exit_code: int | None
    finished: bool = False
    seen: int = 0
    message: str = ""


class Overran(LeaseEvent, frozen=True):
    """The job exceeded a limit; `message` says which. It is killed at once.

    If the limit was memory of a device, `device` names the device, with its limit and the use in MiB.
    """

    message: str
    device: str = ""
    limit: int = 0
    used: int = 0


class Notified(LeaseEvent, frozen=True):
    """The preempt file is written (or not: see `result`). `hooked`: the job has said that it polls the file."""

    hooked: bool
    result: str = "told"


class CallbackEnded(LeaseEvent, frozen=True):
    """The abort callback is over. `result` tells people how: `exit 0`, `failed: exit 3`, `failed: could not start: ...`."""

    result: str


class TimerFired(LeaseEvent, frozen=True):
    """The moment of `SetTimer` has come; `deadline` identifies the timer, so that a late one is recognised."""

    deadline: int


class DevicesFree(LeaseEvent, frozen=True):
    """No process of the lease is left on its devices."""


class DevicesBusy(LeaseEvent, frozen=True):
    """Processes are still on the devices."""

    holder: str


class Suspended(LeaseEvent, frozen=True):
    """The processes are frozen and off the devices; `how` is the means (R29)."""

    how: str


class CannotSuspend(LeaseEvent, frozen=True):
    """The processes run on as before; `result` tells people why."""

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
    """Cancel the start if it has not happened yet, and answer with `StartFailed` (`never_started`)."""

    lease: str


class Notify(Action, frozen=True):
    """Write the preempt file and answer with `Notified`.

    The file's deadline is the end of the grace that the job can use: `deadline` for a job with a hook or a callback, `unhooked` for one
    that only SIGTERM can reach.
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
    """Suspend the job off its devices; answer with `Suspended` or `CannotSuspend`."""

    lease: str


class Resume(Action, frozen=True):
    """Withdraw the preempt file, and let the job run on; answer with `Resumed`."""

    lease: str


class Terminate(Action, frozen=True):
    """Send SIGTERM to every process of the job; it has exited when all of them have."""

    lease: str


class Kill(Action, frozen=True):
    """Send SIGKILL to every process of the job."""

    lease: str


class Verify(Action, frozen=True):
    """Look whether the devices are free; answer with `DevicesFree` or `DevicesBusy`."""

    lease: str


class SetTimer(Action, frozen=True):
    """Answer with `TimerFired` at `deadline`. A lease has one timer; a new one replaces it."""

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

"""What a node is told (not facts): pushed for speed on `hr.orders.<node>`, and requested in full for certainty.

Strategy: level, not edge. An answer to `hr.query.orders.node.<node>` lists all that should run; a push has only what is new.
Both have `through`, the ledger sequence they reflect: a node keeps the highest it acted on and ignores older ones. It stops
a lease only on a stop order, or on the lease's absence from an answer whose `through` is not older than the lease's `granted`.
"""

from __future__ import annotations

from headrace.contracts.documents.model import Mount
from headrace.contracts.facts.fact import DeviceShare, Ladder
from headrace.contracts.values.arrays import ArrayRange
from headrace.contracts.values.value import Value

ADDRESS = "address"
"""Label with the address of a node; without it, the node's name has to resolve."""


class StartOrder(Value, frozen=True, kw_only=True):
    """Run this replica on exactly these devices. `granted` is the sequence of the grant; `resume_from` a checkpoint or empty.

    `peers`: the addresses of the nodes of all replicas, by rank.
    `secrets`: variable to reference (`file:NAME`, `env:NAME`), which the node resolves; `mounts`: the mounts of the group's rules.
    `suspended`: the job is suspended and stays so (R29); a suspended job whose order lacks it is to be resumed. `started`: the ledger has
    its
    start. Neither starts anything anew: if the lease is not on the node any more, it is lost (R32). `withheld`: the text of the job cannot
    be read now, because a key is missing: the node starts it only on an order without this.
    `account`: the number of the user's account (`account.numbered`); 0 below level 2, where the node makes it from the user's name.
    `array`: the array to which the job belongs; its index stands in its id.
    `network`: that of a container, one of `values.networks` (R44); empty below level 3, where containers have that of the host.
    """

    lease: str
    job: str
    attempt: int
    rank: int = 0
    replicas: int = 1
    peers: tuple[str, ...] = ()
    granted: int
    devices: tuple[DeviceShare, ...] = ()
    amounts: dict[str, int]
    name: str = ""
    queue: str = ""
    command: tuple[str, ...]
    env: dict[str, str] = {}
    secret_env: tuple[str, ...] = ()
    image: str = ""
    workdir: str = ""
    on_abort: tuple[str, ...] = ()
    resume_from: str = ""
    trace: str = ""
    started: bool = False
    suspended: bool = False
    withheld: bool = False
    secrets: dict[str, str] = {}
    mounts: tuple[Mount, ...] = ()
    account: int = 0
    array: ArrayRange | None = None
    network: str = ""


class StopOrder(Value, frozen=True, kw_only=True):
    """Walk this ladder for the lease (R28). `ordered` is the sequence of the order; `started` as in a start order."""

    lease: str
    ordered: int
    ladder: Ladder
    started: bool = False


class Orders(Value, frozen=True, kw_only=True):
    """A push. `number` counts pushes to this node by this feed process; after a gap the node asks for a full answer."""

    node: str
    number: int
    through: int
    starts: tuple[StartOrder, ...] = ()
    stops: tuple[StopOrder, ...] = ()


class NodeAnswer(Value, frozen=True, kw_only=True):
    """All that the node should be running, and the sequence of its own last record (0: none), for its next append.

    `last_digest` is the digest of that record (`records.digest`), by which a node whose acknowledgement was lost recognizes it. `now` is
    the log time of the answer (0: unknown), by which a node detects that its clock is ahead, and that its records would be void
    (R34). `level` is the installation's: the node states only facts of up to this level (`contracts.facts.levels`). `lost`: the node was
    given
    up, and nothing is granted on it until it registers again (R32); it may not have noticed, if only its heartbeats were lost.
    `check`: the sequence of the self-check order that the node has not answered yet (R36); 0 without one.
    """

    node: str
    through: int
    last_record: int
    last_digest: str = ""
    now: int = 0
    level: int = 1
    lost: bool = False
    check: int = 0
    starts: tuple[StartOrder, ...] = ()
    stops: tuple[StopOrder, ...] = ()


class Heartbeat(Value, frozen=True, kw_only=True):
    """On `hr.telemetry.<node>.heartbeat`: the node lives. `at` is its clock."""

    node: str
    at: int
    running: int
    last_record: int


class DeviceSample(Value, frozen=True, kw_only=True):
    """One device at one time. `busy`: percent of the time in which it computed, None if unknown; memory in MiB.

    `held`: how long leases have held it without a break, and `average`: how busy it was over that time, at most `window` (microseconds).
    `idle`: it was held and nearly unused for the whole window.
    """

    device: str
    busy: int | None = None
    memory_used: int = 0
    memory: int = 0
    unfit: str = ""
    held: int = 0
    average: int | None = None
    idle: bool = False


class LeaseSample(Value, frozen=True, kw_only=True):
    """One lease at one time: millicores that its processes used since the last sample, MiB that they hold in memory and on each device.

    `busy`: percent of its devices' time, None if unknown.
    """

    lease: str
    cpu: int = 0
    memory: int = 0
    processes: int = 0
    devices: dict[str, int] = {}
    busy: int | None = None


class Samples(Value, frozen=True, kw_only=True):
    """On `hr.telemetry.<node>.samples`: utilization of devices and leases. Not stored; a later subscriber receives the next sample."""

    node: str
    at: int
    window: int
    devices: tuple[DeviceSample, ...] = ()
    leases: tuple[LeaseSample, ...] = ()


class LogsRequest(Value, frozen=True, kw_only=True):
    """Sent to a node on `hr.logs.<node>`: the output of a job's attempt from `offset` (bytes) on."""

    job: str
    attempt: int
    rank: int = 0
    offset: int = 0
    limit: int = 256 * 1024

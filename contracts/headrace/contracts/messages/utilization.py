"""Questions to *accounting* about how much devices compute, and their answers."""

from __future__ import annotations

from headrace.contracts.values.value import Value


class UtilizationRequest(Value, frozen=True, kw_only=True):
    """To *accounting* `utilization`: the last samples of the nodes that the asker's tenant sees; to *provider* `utilization`: of all."""


class NodeLoad(Value, frozen=True, kw_only=True):
    """The last sample of a node, by column: the entries at one index are one device. `at`: when it arrived, microseconds since 1970.

    `busy`: percent of the time in which it computed, -1 if unknown; `average`: the same over the last ten minutes in which it was held;
    `memory`: MiB in use. `held`: seconds for which leases have held it without a break. `idle`: 1 if it was held and nearly unused for ten
    minutes.
    """

    node: str
    at: int
    devices: tuple[str, ...] = ()
    busy: tuple[int, ...] = ()
    average: tuple[int, ...] = ()
    memory: tuple[int, ...] = ()
    held: tuple[int, ...] = ()
    idle: tuple[int, ...] = ()


class IdleHolder(Value, frozen=True, kw_only=True):
    """A job that holds devices which compute nearly nothing: `units` of them on `node`, held for `held` seconds at `average` percent.

    `idle_at`: since when the job is marked as idle, 0: it is not; `idle_yields`: therefore it counts as borrowed (R39).
    """

    job: str
    name: str
    tenant: str
    user: str
    policy: str
    profile: str
    pool: str
    node: str
    devices: tuple[str, ...]
    units: int
    held: int
    average: int
    idle_at: int = 0
    idle_yields: bool = False


class IdleNode(Value, frozen=True, kw_only=True):
    """A ready node on which no job runs: `units` of its devices are free."""

    node: str
    pool: str
    units: int


class UtilizationAnswer(Value, frozen=True, kw_only=True):
    """`nodes`: those heard in the last minute. `holders` and `idle_nodes`: who holds devices without use, and unused nodes.

    `unknown`: number of held devices that cannot tell how much they compute.
    """

    now: int
    nodes: tuple[NodeLoad, ...] = ()
    holders: tuple[IdleHolder, ...] = ()
    idle_nodes: tuple[IdleNode, ...] = ()
    unknown: int = 0

"""What a job asks for, interned: equal requests are one object, so that all questions about them are asked once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from headrace.contracts.facts.levels import PROVISIONING
from headrace.contracts.values.amounts import CPU, GPU, GPU_UNITS, JOB, MEMORY, times
from headrace.contracts.values.isolation import rank

if TYPE_CHECKING:
    from headrace.contracts.documents.model import Profile, Topology
    from headrace.contracts.values.amounts import Amounts
    from headrace.contracts.values.isolation import Ranks


class Shape(NamedTuple):
    """What one replica needs of a node (R3): `whole` devices, `fraction` units of one, or the slice `mig` of one (R4).

    cpu in millicores, memory in MiB. `isolation`: the least that its GPU part is to be isolated, by rank. `contained`: it has an image.
    `steady`: it may not run on a spot instance.
    """

    whole: int
    fraction: int
    cpu: int
    memory: int
    models: tuple[str, ...]
    mig: str = ""
    isolation: int = 0
    contained: bool = False
    steady: bool = False

    def runs_on(self, levels: Ranks) -> bool:
        """Whether a node with these properties can run it, isolates it well enough, and is not taken back if it may not be (R38)."""
        return self.is_isolated_by(levels) and not (self.steady and levels.spot)

    def is_isolated_by(self, levels: Ranks) -> bool:
        """Whether a node that reaches these levels can run it, and keeps it as well apart from others as it asks for."""
        reached = self.isolation_on(levels)
        return reached is None or reached >= self.isolation

    def isolation_on(self, levels: Ranks) -> int | None:
        """The rank that a node of this kind reaches for the job's part of a GPU; None without a part. -1: it cannot run there."""
        if self.mig:
            return levels.container_slice if self.contained else levels.slice
        if self.fraction:
            return levels.container_fraction if self.contained else levels.fraction
        if self.whole:
            return levels.container_whole if self.contained else levels.whole
        return -1 if self.contained and levels.container < 0 else None

    @property
    def needs_device(self) -> bool:
        """Whether any GPU is needed at all."""
        return bool(self.whole or self.fraction or self.mig)


@dataclass(slots=True, frozen=True, eq=False)
class Request:
    """`amounts` is one replica's; `total` that of all replicas and the one `job` that every job takes (R2).

    Of a slice `gpu` is the charge (R4). `topology`: how the replicas of a gang stand (R40); None: anywhere.
    """

    amounts: Amounts
    replicas: int
    shape: Shape
    total: Amounts
    order: int
    topology: Topology | None = None

    @property
    def required(self) -> str:
        """The topology level in which one domain has to hold all replicas; empty: they may stand anywhere."""
        return self.topology.require if self.topology is not None else ""

    @property
    def sums(self) -> Amounts:
        """What of `total` has to be left in the sums of a pool: of slices no GPU, because geometry decides (R4)."""
        return {key: value for key, value in self.total.items() if key != GPU} if self.shape.mig else self.total

    def lease_amounts(self, rank: int) -> Amounts:
        """What the lease of one rank is charged: rank 0 carries the `job`."""
        return {**self.amounts, JOB: 1} if rank == 0 else self.amounts


def intern_request(
    known: dict[tuple[object, ...], Request],
    amounts: Amounts,
    replicas: int,
    profile: Profile | None,
    mig: str = "",
    *,
    contained: bool = False,
    steady: bool = False,
) -> Request:
    """The one `Request` for these amounts, replicas, models, slice, isolation, topology and way to run; `known`: the state's table."""
    models, least, topology = _models(profile), _least(profile), _topology(profile, replicas)
    key: tuple[object, ...] = (tuple(sorted(amounts.items())), replicas, models, mig, least, contained, steady)
    if topology is not None:
        key = (*key, topology)
    request = known.get(key)
    if request is None:
        shape = _shape(amounts, models, mig, least, contained=contained, steady=steady)
        request = known[key] = _make(dict(sorted(amounts.items())), replicas, shape, len(known), topology)
    return request


def make_request(
    amounts: Amounts,
    replicas: int,
    profile: Profile | None,
    mig: str = "",
    *,
    contained: bool = False,
    steady: bool = False,
) -> Request:
    """The same for one who only asks about it, and must leave the state alone: equal to no other, of no order."""
    shape = _shape(amounts, _models(profile), mig, _least(profile), contained=contained, steady=steady)
    return _make(amounts, replicas, shape, -1, _topology(profile, replicas))


def is_steady(profile: Profile | None, level: int, *, preemptible: bool) -> bool:
    """Whether a job may not run on spot instances (R38): it is not preemptible, and its profile does not allow it.

    `level`: of the installation.
    """
    return level >= PROVISIONING and not preemptible and (profile is None or not profile.spot)


def _models(profile: Profile | None) -> tuple[str, ...]:
    return tuple(sorted(profile.gpu_models)) if profile and profile.gpu_models else ()


def _least(profile: Profile | None) -> int:
    """The weakest isolation that it accepts, by rank; `any` is the weakest."""
    return rank(profile.isolation) if profile else 0


def _topology(profile: Profile | None, replicas: int) -> Topology | None:
    """How the replicas of a gang stand; one replica stands on one node, wherever that is."""
    return profile.topology if profile is not None and replicas > 1 else None


def _shape(amounts: Amounts, models: tuple[str, ...], mig: str, least: int, *, contained: bool, steady: bool) -> Shape:
    gpu = 0 if mig else amounts.get(GPU, 0)
    whole, fraction = (gpu // GPU_UNITS, 0) if gpu >= GPU_UNITS else (0, gpu)
    return Shape(whole, fraction, amounts.get(CPU, 0), amounts.get(MEMORY, 0), models, mig, least, contained, steady)


def _make(amounts: Amounts, replicas: int, shape: Shape, order: int, topology: Topology | None) -> Request:
    total = times(amounts, replicas)
    total[JOB] = 1
    return Request(amounts, replicas, shape, total, order, topology)

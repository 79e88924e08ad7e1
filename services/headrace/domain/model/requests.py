"""What a job asks for, interned: equal requests are one object, so that all questions about them are asked once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from headrace.contracts.facts.levels import PROVISIONING
from headrace.contracts.values.amounts import (
    CPU,
    GPU,
    GPU_MEMORY,
    GPU_UNITS,
    JOB,
    MEMORY,
    is_gpu,
    key_of_model,
    times,
    without_models,
)
from headrace.contracts.values.gpu_memory import ModelShare
from headrace.contracts.values.isolation import rank

if TYPE_CHECKING:
    from collections.abc import Sequence

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


@dataclass(slots=True, eq=False)
class ModelChoices:
    """What a job may be given, one request for each GPU model, the one tried first at the front (R42, R43).

    `memory`: what each replica asks for, in MiB; 0 if it asks for GPUs. `by_model`: each is charged the key of its model too.
    """

    memory: int
    by_model: bool
    requests: list[Request]

    @property
    def shares(self) -> list[ModelShare]:
        """What each is of its GPU model."""
        return [ModelShare(model=one.shape.models[0], gpu=one.amounts[GPU], mig=one.shape.mig) for one in self.requests]


@dataclass(slots=True, frozen=True, eq=False)
class Request:
    """`amounts` is one replica's; `total` that of all replicas and the one `job` that every job takes (R2).

    Of a slice `gpu` is the charge (R4). `topology`: how the replicas of a gang stand (R40); None: anywhere. `choices`: of a job that asks
    for GPU memory, or is charged by model, this request and those for other GPU models (R42, R43); they have one `order`.
    """

    amounts: Amounts
    replicas: int
    shape: Shape
    total: Amounts
    order: int
    topology: Topology | None = None
    choices: ModelChoices | None = None

    @property
    def first(self) -> Request:
        """Of a job with a request for each GPU model, that for the one that is tried first (R42); else the request itself."""
        return self if self.choices is None else self.choices.requests[0]

    @property
    def each(self) -> Sequence[Request]:
        """All that the job may be given, the one tried first at the front."""
        return (self,) if self.choices is None else self.choices.requests

    @property
    def required(self) -> str:
        """The topology level in which one domain has to hold all replicas; empty: they may stand anywhere."""
        return self.topology.require if self.topology is not None else ""

    @property
    def sums(self) -> Amounts:
        """What of `total` has to be left in the sums of a pool: of slices no GPU, because geometry decides (R4)."""
        return {key: value for key, value in self.total.items() if not is_gpu(key)} if self.shape.mig else self.total

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
    memory: int = 0,
    shares: Sequence[ModelShare] = (),
    by_model: bool = False,
) -> Request:
    """The one `Request` for these amounts, replicas, models, slice, isolation, topology and way to run; `known`: the state's table.

    With `shares` it is the first of those for the GPU models of a job that asks for so much GPU `memory` (R42), or is charged
    `by_model` (R43).
    """
    models, least, topology = _models(profile), _least(profile), _topology(profile, replicas)
    key: tuple[object, ...] = (tuple(sorted(amounts.items())), replicas, models, mig, least, contained, steady)
    if topology is not None:
        key = (*key, topology)
    if shares:
        key = (*key, *_choices_key(memory, shares, by_model=by_model))
    request = known.get(key)
    if request is None:
        shape = _shape(amounts, models, mig, least, contained=contained, steady=steady)
        request = _make(dict(sorted(amounts.items())), replicas, shape, len(known), topology)
        request = known[key] = _chosen(request, memory, shares, by_model=by_model) if shares else request
    return request


def intern_matched(
    known: dict[tuple[object, ...], Request], like: Request, shares: Sequence[ModelShare], *, by_model: bool
) -> Request:
    """The first of the requests for the `shares` of a job that has asked for the same as `like` so far; interned as above."""
    memory = 0 if like.choices is None else like.choices.memory
    key: tuple[object, ...] = ("matched", like.first.order, *_choices_key(memory, shares, by_model=by_model))
    request = known.get(key)
    if request is None:
        alike = _make(without_models(like.amounts), like.replicas, like.shape, len(known), like.topology)
        request = known[key] = _chosen(alike, memory, shares, by_model=by_model)
    return request


def _choices_key(memory: int, shares: Sequence[ModelShare], *, by_model: bool) -> tuple[object, ...]:
    return memory, tuple((share.model, share.gpu, share.mig) for share in shares), by_model


def make_request(
    amounts: Amounts,
    replicas: int,
    profile: Profile | None,
    mig: str = "",
    *,
    contained: bool = False,
    steady: bool = False,
    memory: int = 0,
    shares: Sequence[ModelShare] = (),
    by_model: bool = False,
) -> Request:
    """The same for one who only asks about it, and must leave the state alone: equal to no other, of no order."""
    shape = _shape(amounts, _models(profile), mig, _least(profile), contained=contained, steady=steady)
    request = _make(amounts, replicas, shape, -1, _topology(profile, replicas))
    return _chosen(request, memory, shares, by_model=by_model) if shares else request


def _chosen(like: Request, memory: int, shares: Sequence[ModelShare], *, by_model: bool) -> Request:
    """The first of the requests for these shares, each for its GPU model alone."""
    choices = ModelChoices(memory, by_model, [])
    for share in shares:
        of_model = {key_of_model(share.model): share.gpu} if by_model else {}
        amounts, shape = {**like.amounts, GPU: share.gpu, **of_model}, like.shape
        one = _shape(amounts, (share.model,), share.mig, shape.isolation, contained=shape.contained, steady=shape.steady)
        choices.requests.append(_make(dict(sorted(amounts.items())), like.replicas, one, like.order, like.topology, choices))
    return choices.requests[0]


def asked_of(request: Request) -> Amounts:
    """What one replica asks for: GPU memory as such, not the share that it is of one GPU model, and GPUs of no model."""
    if request.choices is None:
        return request.amounts
    if not request.choices.memory:
        return without_models(request.amounts)
    return {**{key: amount for key, amount in request.amounts.items() if not is_gpu(key)}, GPU_MEMORY: request.choices.memory}


def choice_at(request: Request, model: str, units: int, mig: str) -> Request:
    """Of a job with a request for each GPU model, the one for a model with this share of it, or this slice; else the request itself."""
    for one in request.each:
        if one.shape.models == (model,) and one.shape.mig == mig and one.amounts[GPU] == units:
            return one
    return request


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


def _make(
    amounts: Amounts, replicas: int, shape: Shape, order: int, topology: Topology | None, choices: ModelChoices | None = None
) -> Request:
    total = times(amounts, replicas)
    total[JOB] = 1
    return Request(amounts, replicas, shape, total, order, topology, choices)

"""What a job asks for, interned: equal requests are one object, so that all questions about them are asked once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from headrace.contracts.amounts import CPU, GPU, GPU_UNITS, JOB, MEMORY, times

if TYPE_CHECKING:
    from headrace.contracts.amounts import Amounts
    from headrace.contracts.documents import Profile


class Shape(NamedTuple):
    """What one replica needs of a node (R3). `whole` devices, or `fraction` units of one; cpu in millicores, memory in MiB."""

    whole: int
    fraction: int
    cpu: int
    memory: int
    models: tuple[str, ...]


@dataclass(slots=True, frozen=True, eq=False)
class Request:
    """`amounts` is one replica's; `total` that of all replicas and the one `job` that every job takes (R2)."""

    amounts: Amounts
    replicas: int
    shape: Shape
    total: Amounts
    order: int

    def lease_amounts(self, rank: int) -> Amounts:
        """What the lease of one rank is charged: rank 0 carries the `job`."""
        return {**self.amounts, JOB: 1} if rank == 0 else self.amounts


def intern_request(
    known: dict[tuple[object, ...], Request], amounts: Amounts, replicas: int, profile: Profile | None
) -> Request:
    """The one `Request` for these amounts, replicas and models; `known` is the state's table of them."""
    models = _models(profile)
    key = (tuple(sorted(amounts.items())), replicas, models)
    request = known.get(key)
    if request is None:
        request = known[key] = _make(dict(key[0]), replicas, models, len(known))
    return request


def make_request(amounts: Amounts, replicas: int, profile: Profile | None) -> Request:
    """The same for one who only asks about it, and must leave the state alone: equal to no other, of no order."""
    return _make(amounts, replicas, _models(profile), -1)


def _models(profile: Profile | None) -> tuple[str, ...]:
    return tuple(sorted(profile.gpu_models)) if profile else ()


def _make(amounts: Amounts, replicas: int, models: tuple[str, ...], order: int) -> Request:
    gpu = amounts.get(GPU, 0)
    whole, fraction = (gpu // GPU_UNITS, 0) if gpu >= GPU_UNITS else (0, gpu)
    shape = Shape(whole, fraction, amounts.get(CPU, 0), amounts.get(MEMORY, 0), models)
    total = times(amounts, replicas)
    total[JOB] = 1
    return Request(amounts, replicas, shape, total, order)

"""Fragmentation and the loss of slices by their definitions, without any index."""

from __future__ import annotations

from headrace.contracts.values.amounts import GPU_UNITS
from headrace.contracts.values.mig import charge, more_of, put, slices_of
from headrace.domain.indexes.fragmentation import OpenCapacity
from headrace.domain.model.requests import Shape


def by_definition(capacity: OpenCapacity, mix: list[tuple[Shape, int]]) -> int:
    """Over the mix: all that is open, less what is open on devices not too full for it, up to twice what cpu and memory suffice for."""
    return sum(weight * (sum(capacity.opens) - usable(capacity, shape)) for shape, weight in mix)


def usable(capacity: OpenCapacity, shape: Shape) -> int:
    need = GPU_UNITS if shape.whole else shape.fraction
    if not need or not fits(capacity, shape):
        return 0
    size = shape.whole * GPU_UNITS or shape.fraction
    bounds = [2 * size * (has // asked) for has, asked in ((capacity.cpu, shape.cpu), (capacity.memory, shape.memory)) if asked]
    return min([sum(units for units in capacity.opens if units >= need), *bounds])


def fits(capacity: OpenCapacity, shape: Shape) -> bool:
    enough = capacity.cpu >= shape.cpu and capacity.memory >= shape.memory and capacity.opens.count(GPU_UNITS) >= shape.whole
    return enough and max(capacity.opens, default=0) >= shape.fraction and (not shape.models or capacity.model in shape.models)


def after(capacity: OpenCapacity, shape: Shape) -> dict[int, OpenCapacity]:
    """What the room may look like with the shape in it, by the open units of the device it takes."""
    capacities = {}
    for units in {0} if not shape.fraction else {units for units in capacity.opens if units >= shape.fraction}:
        opens = list(capacity.opens)
        for _ in range(shape.whole):
            opens[opens.index(GPU_UNITS)] = 0
        if shape.fraction:
            opens[opens.index(units)] -= shape.fraction
        capacities[units] = OpenCapacity(
            capacity.model, capacity.cpu - shape.cpu, capacity.memory - shape.memory, tuple(sorted(opens))
        )
    return capacities


H100 = "H100-80GB"


def loss(often: dict[str, int], layout, start: int, name: str) -> int:
    """Over the kinds asked for (none: all), and whole devices now and then: how often x size x the units that can no longer be placed."""
    after = put(layout, start, name)
    kinds = often or dict.fromkeys(slices_of((H100,)), 1)
    if often:
        kinds = often | {"7g.80gb": often.get("7g.80gb", 0) + 1 + sum(often.values()) // 32}
    return sum(
        times * charge(kind, (H100,)) * charge(kind, (H100,)) * (more_of(H100, layout, kind) - more_of(H100, after, kind))
        for kind, times in kinds.items()
    )

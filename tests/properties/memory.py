"""Random histories of the other generators in which jobs ask for GPU memory, in pools with GPUs of several sizes (R42)."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import strategies as st
from msgspec.structs import replace

from headrace.contracts.documents import model as d
from headrace.contracts.values.amounts import GPU, GPU_MEMORY
from headrace.simulate.scenario import Moment, Nodes, Scenario
from tests.properties.crowded import crowded
from tests.properties.histories import Chance, scenarios

MODELS = ("H100-80GB", "A100-40GB", "A30-24GB")
SIZES = tuple(gigabytes * 1024 for gigabytes in (4, 8, 10, 18, 20, 36, 40, 60))


@st.composite
def of_memory(draw: Callable[[st.SearchStrategy], object]) -> Scenario:
    """Nodes of other GPU models beside those that are there, and most profiles with an amount of GPU memory."""
    base, chance = draw(st.one_of(scenarios(), crowded())), Chance(draw)
    nodes = [one for row in base.nodes for one in of_several_models(chance, row)]
    profiles = {profile.name: _of_memory(chance, profile) for profile in base.documents.profiles}
    documents = replace(base.documents, profiles=tuple(profiles.values()))
    timeline = tuple(_moment(chance, moment, profiles) for moment in base.timeline)
    return replace(base, documents=documents, nodes=tuple(nodes), timeline=timeline)


def of_several_models(chance: Chance, row: Nodes) -> list[Nodes]:
    """The row as one of H100s, and perhaps a node or two with other GPUs at the same site."""
    others = [
        replace(row, name=f"{row.name}-{model.lower()}", count=1, gpu_model=model, gpus=chance.number(1, 2))
        for model in MODELS[1:]
        if chance.coin()
    ]
    return [replace(row, gpu_model=MODELS[0]), *others]


def _of_memory(chance: Chance, profile: d.Profile) -> d.Profile:
    if chance.number(0, 3) == 0 and not profile.mig:  # what a slice by name is charged is that of the dearest model (R4)
        return profile
    request = {key: amount for key, amount in profile.request.items() if key != GPU} | {GPU_MEMORY: chance.among(SIZES)}
    models = tuple(chance.order(MODELS)[: chance.number(1, 3)]) if chance.number(0, 2) == 0 else ()
    return replace(profile, request=request, mig="", gpu_models=models)


def _moment(chance: Chance, moment: Moment, profiles: dict[str, d.Profile]) -> Moment:
    """The same; profiles that are written anew are those; some jobs ask for less."""
    if moment.apply is not None:
        again = tuple(profiles.get(one.name, one) for one in moment.apply.profiles)
        return replace(moment, apply=replace(moment.apply, profiles=again))
    submit = moment.submit
    profile = profiles.get(submit.queue.split("/")[1]) if submit is not None else None
    if submit is None or profile is None or GPU_MEMORY not in profile.request or chance.number(0, 3):
        return moment
    return replace(moment, submit=replace(submit, request={GPU_MEMORY: "4GiB"}))

"""Applies the events of a moment of the timeline to a world. Pure."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from headrace.contracts import facts as f
from headrace.contracts.facts.writers import PREEMPTION
from headrace.contracts.messages.queries import ForceRequest, NodeRequest
from headrace.contracts.messages.submissions import CancelManyRequest
from headrace.contracts.transport.codec import encode
from headrace.contracts.transport.subjects import cancel, cancel_many, node_writer, requeue
from headrace.governance.force_preempt import forcing
from headrace.governance.nodes import confirming_empty, cordoning, draining
from headrace.simulate.names import numbered
from headrace.simulate.refused import AUTHOR, Refused
from headrace.simulate.replay_facts import restate

if TYPE_CHECKING:
    from headrace.governance.decide import Operation
    from headrace.simulate.scenario import Moment
    from headrace.simulate.virtual_system import VirtualSystem

_NODE_OPERATIONS: dict[str, Callable[[NodeRequest, str], Operation]] = {
    "cordon": partial(cordoning, cordon=True),
    "uncordon": partial(cordoning, cordon=False),
    "drain": draining,
    "confirm_empty": confirming_empty,
}
_TROUBLES = {"refuse_starts": "refuse", "stall_starts": "stall", "allow_starts": ""}


def happen(world: VirtualSystem, moment: Moment) -> None:
    """Apply the event of a moment. Raises `Refused` if governance refuses it, or accepts what it should refuse."""
    if not moment.refused:
        _carry_out(world, moment)
        return
    where = f"timeline[{world.scenario.timeline.index(moment)}].refused"
    try:
        _carry_out(world, moment)
    except Refused as refusal:
        if moment.refused not in str(refusal):
            raise Refused(f"{where}: it is refused in other words: {refusal}") from None
    else:
        raise Refused(f"{where}: nothing refuses it")


def _carry_out(world: VirtualSystem, moment: Moment) -> None:
    if moment.stated:
        restate(world, moment.stated, moment.by)
    if moment.submit is not None:
        world.submit(moment.submit)
    _request_about_jobs(world, moment)
    _happen_to_job(world, moment)
    if moment.node_lost:
        world.machines.lose(moment.node_lost)
        world.append(PREEMPTION, [f.NodeLostV1(node=moment.node_lost, silent_for=0)])
    if moment.node_back:
        nodes = world.machines.nodes[moment.node_back]
        world.append(node_writer(moment.node_back), [world.machines.register(nodes, moment.node_back, world.now)])
    if moment.force:
        request = ForceRequest(job=world.names[moment.force], force=True, reason="scenario")
        world.decided(forcing(request, AUTHOR)(world.state, world.now))
    _happen_to_node(world, moment)
    if moment.node_joins is not None:
        for name in numbered(moment.node_joins.name, moment.node_joins.count):
            world.append(node_writer(name), [world.machines.register(moment.node_joins, name, world.now)])
    if moment.apply is not None:
        world.apply(moment.apply, f"timeline[{world.scenario.timeline.index(moment)}].apply.")
    if moment.delete is not None:
        world.delete(moment.delete)
    world.machines.pass_time(world.now)


def _happen_to_job(world: VirtualSystem, moment: Moment) -> None:
    """Apply an event of a running job: its end, or how it uses its GPUs."""
    for name, exit_code in ((moment.finish, 0), (moment.fail, 1)):
        if name:
            world.machines.finish(world.names[name], world.now, exit_code)
    for name, is_idle in ((moment.idle, True), (moment.busy, False)):
        if name:
            world.measure(name, idle=is_idle)


def _request_about_jobs(world: VirtualSystem, moment: Moment) -> None:
    for name, subject in ((moment.cancel, cancel), (moment.requeue, requeue)):
        if name:
            world.publish(
                subject(*world.names[name].split(".")), encode({"elements": moment.elements} if moment.elements else {})
            )
    keys = [world.names[name].split(".") for name in moment.cancel_many]
    for tenant, user in dict.fromkeys((tenant, user) for tenant, user, _ in keys):
        ids = tuple(job_id for *owner, job_id in keys if owner == [tenant, user])
        world.publish(cancel_many(tenant, user), encode(CancelManyRequest(jobs=ids)))


def _happen_to_node(world: VirtualSystem, moment: Moment) -> None:
    """Apply an event of a node: an administrator's command, or a fault."""
    for name, made in _NODE_OPERATIONS.items():
        if node := getattr(moment, name):
            begins = 0 if moment.begins is None else world.start + moment.begins
            world.decided(made(NodeRequest(node=node, begins=begins), AUTHOR)(world.state, world.now))
    for name, trouble in _TROUBLES.items():
        if node := getattr(moment, name):
            world.machines.troubles[node] = trouble

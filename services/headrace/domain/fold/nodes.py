"""The fold of what nodes say of themselves and their leases."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.contracts import facts as f
from headrace.contracts.facts.levels import PROVISIONING
from headrace.contracts.facts.nodes import Device
from headrace.contracts.messages.tokens import TokenRole
from headrace.contracts.values.amounts import GPU_UNITS
from headrace.contracts.values.isolation import ranks
from headrace.contracts.values.mig import family_of
from headrace.domain.fold.governance import join_pool
from headrace.domain.fold.node_orders import cordon, end_probation, leave
from headrace.domain.fold.nominations import lift_bar
from headrace.domain.indexes.running_index import note_running
from headrace.domain.model.attempts import DISPUTED, new_ending
from headrace.domain.model.devices import DeviceState
from headrace.domain.model.job_states import JobState
from headrace.domain.model.node_claims import FIRST_IS_APPROVED, Approval, NodeClaimsState, approval_of, believed, with_unfit
from headrace.domain.model.nodes import NodeState
from headrace.domain.state import capacity
from headrace.domain.state.idleness import unmark_idle
from headrace.domain.state.job_deadlines import watch
from headrace.domain.state.meters import charge, uncharge
from headrace.domain.state.supply import recount
from headrace.domain.state.tenant_spending import spend

if TYPE_CHECKING:
    from headrace.domain.model.attempts import Ending
    from headrace.domain.model.jobs import JobRecord, LeaseState
    from headrace.domain.state.state import State


URI_MAX = 1_024
"""A checkpoint's place stands in the grants of the next attempt; a longer one is taken for none."""


def _node_registered(state: State, fact: f.NodeRegisteredV1, sequence: int, _place: int) -> None:
    node = state.nodes.get(fact.node)
    is_new = node is None
    if node is None:
        node = state.nodes[fact.node] = NodeState(fact.node, {}, [], 0, 0, 0, 0, state.now)
    else:
        _leave_index(state, node)
    capacity.tally(state, node, -1)
    node.status, node.registered_at = "ready", state.now
    claims = NodeClaimsState(dict(fact.labels), fact.devices, fact.isolation, ranks(fact.isolation, fact.levels))
    node.claims = claims if state.terms.amended else None
    approval = state.approvals.get(fact.node)
    if approval is not None and approval.pins:
        state.approvals[fact.node] = approval_of(claims)
    state.terms.executors[fact.node] = fact.reads
    _starts_again(state, node)
    node.cpu_free += fact.cpu - node.cpu
    node.memory_free += fact.memory - node.memory
    node.cpu, node.memory = fact.cpu, fact.memory
    _take_for_true(state, node, believed(claims, approval), sequence)
    instance = state.instances.get(fact.node)
    if instance is not None and instance.lives and not instance.joined_at:
        instance.joined_at = instance.emptied_at = state.now
        state.offers.pop((instance.pool, instance.offer), None)
    if instance is not None and instance.lives and instance.released:  # it was given up before it came
        leave(state, node, instance.released)
    if is_new and node.pool and not node.leaves:
        growth = state.terms.growths.get(node.pool)
        if growth is not None and growth.open:
            growth.joined += 1


def _take_for_true(state: State, node: NodeState, claims: NodeClaimsState, sequence: int) -> None:
    """From now on the node counts as what is believed of it. Its pool's index has forgotten it already."""
    instance = state.instances.get(node.name)
    node.labels, node.isolation = dict(claims.labels), claims.isolation
    node.levels = claims.levels._replace(spot=int(instance is not None and instance.is_spot))
    _set_devices(state, node, claims.devices)
    for lease in node.leases.values():
        if lease.suspended_at:  # its devices may be gone
            state.unsettled[lease.job.key] = lease.job
    join_pool(state, node)
    capacity.tally(state, node, 1)
    _count_again(state, node)
    state.documents_sequence = sequence
    for policy in state.policies.values():
        policy.forget()


def _set_devices(state: State, node: NodeState, devices: tuple[Device, ...]) -> None:
    """The devices as reported now; what leases hold of them, and what is kept of them, stays so, even of one that was away for a while."""
    since = {device.name: device.unfit_at for device in node.devices}
    node.devices = [
        DeviceState(
            device.device,
            device.model,
            device.memory,
            GPU_UNITS,
            mig=device.mig,
            family=family_of(device.model, device.memory) if device.mig else "",
            unfit=device.unfit,
            unfit_at=(since.get(device.device) or state.now) if device.unfit else 0,
            nvlink=device.nvlink if state.terms.level >= PROVISIONING else "",
        )
        for device in devices
    ]
    node.by_name = there = {device.name: device for device in node.devices}
    for lease in node.leases.values():
        for share in capacity.held_by(lease).devices:
            if share.device in there:
                there[share.device].take(share, 1)
    places = [place for preemption in state.preemptions.values() if preemption.kept for place in preemption.places]
    for place in places:
        for share in place.devices if place.node == node.name else ():
            if share.device in there:
                there[share.device].keep(share, 1)
    node.some_deny_units = any(device.denies_units for device in node.devices)
    node.has_nvlink = any(device.nvlink for device in node.devices)
    models = sorted({device.model for device in devices})
    node.model = "+".join(models)


def _node_approved(state: State, fact: f.NodeApprovedV1, sequence: int, _place: int) -> None:
    """What the node has reported already is judged by it at once."""
    approval = state.approvals[fact.node] = Approval(dict(fact.labels), fact.gpus, fact.isolation, fact.joins)
    node = state.nodes.get(fact.node)
    if node is None or node.claims is None:
        return
    _leave_index(state, node)
    capacity.tally(state, node, -1)
    _take_for_true(state, node, believed(node.claims, approval), sequence)


def keep_claims(state: State) -> None:
    """What nodes have when the level is raised stays approved; of those that have a token and have not come, what they say first."""
    for node in state.nodes.values():
        devices = tuple(
            Device(device=one.name, model=one.model, memory=one.memory, mig=one.mig, unfit=one.unfit, nvlink=one.nvlink)
            for one in node.devices
        )
        node.claims = NodeClaimsState(dict(node.labels), devices, node.isolation, node.levels)
    for token in state.tokens.known.values():
        if token.role == TokenRole.NODE and not token.revoked_at:
            known = state.nodes.get(token.handle)
            claims = known.claims if known is not None else None
            state.approvals[token.handle] = approval_of(claims) if claims is not None else FIRST_IS_APPROVED


def _device_drained(state: State, fact: f.DeviceDrainedV1, _sequence: int, _place: int) -> None:
    _set_unfit(state, fact.node, fact.device, fact.message or fact.cause)


def _device_returned(state: State, fact: f.DeviceReturnedV1, _sequence: int, _place: int) -> None:
    _set_unfit(state, fact.node, fact.device, "")


def _set_unfit(state: State, name: str, device: str, why: str) -> None:
    """What a device can give has changed, as if it had gone or come (R6); leases on it stay."""
    node = state.nodes.get(name)
    mine = next((one for one in node.devices if one.name == device), None) if node is not None else None
    if node is not None and node.claims is not None:
        node.claims = with_unfit(node.claims, device, why)
    if node is None or mine is None or mine.unfit == why:
        return
    mine.unfit, mine.unfit_at = why, state.now if why else 0
    node.some_deny_units = any(one.denies_units for one in node.devices)
    _count_again(state, node)


def _node_stopped(state: State, fact: f.NodeStoppedV1, _sequence: int, _place: int) -> None:
    node = state.nodes.get(fact.node)
    if node is not None:
        node.stopped_through = fact.through if state.terms.amended else 0
    set_status(state, fact.node, "stopped")


def _node_checked(state: State, fact: f.NodeCheckedV1, _sequence: int, _place: int) -> None:
    """On probation the node is given one job, and its earlier refusals no longer count (R36)."""
    node = state.set_aside.get(fact.node)
    if node is None or node.probation is None or node.probation.stage != "checks":
        return
    if not fact.passed:
        node.probation.stage, node.probation.message = "failed", fact.message
        return
    node.probation.stage = "tries"
    _starts_again(state, node)
    cordon(state, node.name, "")


def set_status(state: State, name: str, status: str) -> None:
    """The node is no longer (or again) there to be granted; its leases stay until they are ended."""
    node = state.nodes.get(name)
    if node is None:
        return
    node.status, node.status_at = status, state.now
    _count_again(state, node)
    for lease in node.leases.values():
        state.unsettled[lease.job.key] = lease.job


def _lease_started(state: State, fact: f.LeaseStartedV1, _sequence: int, _place: int) -> None:
    lease = held(state, fact.job, fact.attempt, fact.rank)
    if lease is None or lease.started_at:
        return
    job = lease.job
    lease.started_at = state.now
    node = state.nodes[lease.node]
    _starts_again(state, node)
    if node.probation is not None and node.probation.job == job.key:
        end_probation(state, node.name)
        _reopen(state, node)
    if all(other.started_at for other in job.leases.values()) and len(job.leases) == job.request.replicas:
        job.started_at = job.attempts[-1].started_at = state.now
        if job.state is JobState.STARTING:
            job.state = JobState.RUNNING
        for other in job.leases.values():
            if not other.charged:  # charged since its grant where that was made before rules were amended
                charge(other, capacity.held_by(other).amounts, state.now)
        watch(state, job)
        state.stir()
        lift_bar(state, job.key)


def _lease_overran(_state: State, _fact: f.LeaseOverranV1, _sequence: int, _place: int) -> None:
    """The node kills it, and says next how it ended: that is what counts."""


def _starts_again(state: State, node: NodeState) -> None:
    """Starts that it refused before do not count as a row any more (R36)."""
    node.refusals = {}
    state.refusing.pop(node.name, None)


def _lease_rung(state: State, fact: f.LeaseRungV1, _sequence: int, _place: int) -> None:
    lease = held(state, fact.job, fact.attempt, fact.rank)
    preemption = state.preemptions.get(lease.job.yields_to) if lease is not None else None
    if preemption is not None and fact.rung == "told":
        preemption.signalled_at = max(preemption.signalled_at, state.now)


def _checkpoint_registered(state: State, fact: f.CheckpointRegisteredV1, _sequence: int, _place: int) -> None:
    """It counts while the attempt is whole: after a loss the next one resumes from what was registered before the loss (R32)."""
    job = state.jobs.get(fact.job)
    if job is None or job.attempt != fact.attempt or not job.leases or len(fact.uri) > URI_MAX:
        return
    if all(ending.outcome != "revoked" for ending in job.endings):
        job.checkpoint, job.checkpoint_at, job.checkpoint_attempt = fact.uri, state.now, fact.attempt
        job.paused_saved = job.paused
        note_running(state.running, job)


def _lease_ended(state: State, fact: f.LeaseEndedV1, _sequence: int, _place: int) -> None:
    lease = held(state, fact.job, fact.attempt, fact.rank)
    if lease is None:
        return
    outcome = fact.outcome
    if outcome == "refused" and fact.held_by and state.terms.amended:
        outcome = DISPUTED
    elif outcome == "refused":
        node = state.nodes[lease.node]
        node.refusals[fact.job] = fact.message
        state.refusing[node.name] = node
    ending = new_ending(
        fact.rank,
        outcome,
        fact.exit_code,
        finished=fact.finished,
        stopping=fact.stopping,
        message=fact.message,
        node=lease.node,
    )
    release(state, lease, ending, state.now - max(0, fact.at - fact.exited_at))


def _leave_index(state: State, node: NodeState) -> None:
    """Removes the node from the index of its pool, before it becomes another."""
    pool = state.pool_of(node)
    if pool is not None:
        pool.index.remove(node)


def _count_again(state: State, node: NodeState) -> None:
    """Works out the capacity of its pool anew: the node brings something else now, and reclaims may have become possible."""
    pool = state.pool_of(node)
    if pool is not None:
        pool.index.put(node)
        recount(pool, node)
        state.stir()
        pool.openings += 1


def _reopen(state: State, node: NodeState) -> None:
    """Whether anything may be granted on it has changed."""
    pool = state.pool_of(node)
    if pool is not None:
        pool.index.put(node)
        pool.openings += 1


def release(state: State, lease: LeaseState, ending: Ending, exited_at: int) -> None:
    """The lease holds nothing any more; the allocator has to settle what follows."""
    job = lease.job
    pool = state.pools[lease.pool]
    if lease.overdue:
        capacity.count_overdue(state, pool, lease, -1)
    if lease.idle_at:
        unmark_idle(state, lease)
    capacity.give_back(state, job, pool, capacity.held_by(lease))
    uncharge(lease, state.now)
    if lease.yields:
        capacity.yield_use(state, job, pool, capacity.held_by(lease), -1)
    node = state.nodes.get(lease.node)
    if node is not None:
        node.leases.pop(f"{job.key}/{lease.rank}", None)
        instance = state.instances.get(node.name)
        if instance is not None:
            instance.emptied_at, instance.used = state.now, True
            spend(state, lease)
        if node.probation is not None and node.probation.job == job.key:  # it never ran: the next one is tried
            node.probation.job = ""
            _reopen(state, node)
    del job.leases[lease.rank]
    job.endings += (ending,)
    if not job.leases:
        job.policy.jobs.pop(job.key, None)
        state.suspended.pop(job.key, None)
        note_left(state, job, exited_at)
    watch(state, job)
    state.unsettled[job.key] = job
    state.stir()
    pool.openings += lease.overdue or (not job.preemptible and job.time_limit is None)  # it was not to be counted on


def lack(state: State, job: JobRecord, rank: int) -> None:
    """A replica of a gang was granted a node that had left: the attempt cannot become whole (R35)."""
    job.endings += (new_ending(rank, "revoked", message="node_stopped"),)
    state.unsettled[job.key] = job


def note_left(state: State, job: JobRecord, exited_at: int) -> None:
    """A victim has gone: note when, for the three parts of a preemption's time."""
    preemption = state.preemptions.get(job.yields_to)
    if preemption is None:
        return
    preemption.leaving.discard(job.key)
    preemption.exited_at = max(preemption.exited_at, exited_at)
    preemption.released_at = state.now
    if not preemption.leaving:
        preemption.all_left_at = state.now


def held(state: State, key: str, attempt: int, rank: int) -> LeaseState | None:
    """The lease, if it is still held by this attempt; facts of superseded attempts do not count (R32)."""
    job = state.jobs.get(key)
    return job.leases.get(rank) if job is not None and job.attempt == attempt else None


HANDLERS: dict[type, Any] = {
    f.NodeApprovedV1: _node_approved,
    f.NodeRegisteredV1: _node_registered,
    f.NodeStoppedV1: _node_stopped,
    f.NodeCheckedV1: _node_checked,
    f.DeviceDrainedV1: _device_drained,
    f.DeviceReturnedV1: _device_returned,
    f.LeaseStartedV1: _lease_started,
    f.LeaseOverranV1: _lease_overran,
    f.LeaseRungV1: _lease_rung,
    f.CheckpointRegisteredV1: _checkpoint_registered,
    f.LeaseEndedV1: _lease_ended,
}

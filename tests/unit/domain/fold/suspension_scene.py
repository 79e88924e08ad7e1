"""A small installation in which jobs are suspended and resumed."""

from __future__ import annotations

from headrace.contracts import facts as f
from headrace.contracts.documents.model import PreemptionTerms
from headrace.contracts.values.amounts import GPU_UNITS
from tests.unit.domain.hall import Hall
from tests.unit.domain.snapshot import differences, kept, naive


def suspended(job, rank=0):
    return f.LeaseSuspendedV1(job=job.key, attempt=job.attempt, rank=rank, at=0, how="sigstop")


class Scene(Hall):
    """`v` of a policy that suspends runs on both GPUs of a node."""

    def __init__(self, replicas=1, **more):
        super().__init__(nodes=2, devices=2)
        self.policy("low", size=2, replicas=replicas, terms=PreemptionTerms(on_preempt="suspend"), reservation=1)
        places = [(f"n{number + 1}", 0, 2) for number in range(replicas)]
        self.job = self.run("low", "v", *places, **more)

    def stop_it(self, cause="preempted", then="suspend"):
        self.stop(self.job, cause, then)

    def suspend(self, *ranks):
        for rank in ranks or (0,):
            self.append_facts(f"node.n{rank + 1}", suspended(self.job, rank))

    def free(self, node="n1"):
        return [device.free // GPU_UNITS for device in self.state.nodes[node].devices]

    def adds_up(self):
        return differences(kept(self.state), naive(self.state))

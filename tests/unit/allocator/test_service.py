from __future__ import annotations

from headrace.allocator import service
from headrace.contracts.facts import JobAdmittedV1, LeaseGrantedV1
from headrace.contracts.facts.fact import DeviceShare
from headrace.contracts.values.amounts import GPU, GPU_UNITS, JOB
from headrace.service import hosting
from headrace.service.hosting import alone
from tests.unit.service import bus as b


async def test_a_job_on_the_ledger_is_granted_there(monkeypatch):
    bus = b.Bus()
    bus.hall("n1")
    bus.state("admission", JobAdmittedV1(job=b.JOB, policy="q", profile="one", request={GPU: GPU_UNITS}))
    monkeypatch.setattr(hosting, "JetStreamLog", bus.log)
    monkeypatch.setattr(hosting.Snapshots, "over", bus.over)
    monkeypatch.setattr(hosting, "wall_clock", bus.clock)
    monkeypatch.setattr(hosting, "freeze_present_objects", lambda: None)
    async with b.running(alone(service.PART)(bus.service("allocator"))):
        await b.until(lambda: bus.stated("allocator"))
    assert bus.stated("allocator") == [
        LeaseGrantedV1(
            job=b.JOB,
            attempt=1,
            node="n1",
            pool="hall",
            devices=(DeviceShare(device="gpu0", units=GPU_UNITS),),
            amounts={GPU: GPU_UNITS, JOB: 1},
        )
    ]
    assert list(bus.subscriptions) == ["hr.query.allocator.>"]

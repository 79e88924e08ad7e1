"""Records of a small site, each in the name of its writer."""

from __future__ import annotations

from headrace.bus.nats.jetstream import JetStreamLog
from headrace.contracts import facts as f
from headrace.contracts.documents.model import Group, Policy, PolicyProfile, Pool, Profile, Tenant
from headrace.contracts.facts.fact import DeviceShare
from headrace.contracts.facts.nodes import Device
from headrace.contracts.facts.records import Record, digest
from headrace.contracts.messages.submissions import JobText
from headrace.contracts.transport.codec import encode
from headrace.contracts.transport.subjects import LEDGER_STREAM, ledger
from headrace.contracts.values.amounts import GPU_UNITS
from headrace.service.fold import wall_clock

GPU = {"gpu": GPU_UNITS}


def job(number):
    return f"acme.alice.01k{number:023d}"


class Writers:
    """Appends records in the name of the login."""

    def __init__(self, login):
        self._login = login
        self._logs = {}
        self._last = {}

    async def append_facts(self, by, *facts):
        if by not in self._logs:
            self._logs[by] = JetStreamLog(await self._login(by.replace(".", "-")), LEDGER_STREAM)
        sequence, prev = self._last.get(by, (0, ""))
        record = Record(
            by=by, now=wall_clock(), engine="test", as_of=0, prev="" if by.startswith("node.") else prev, facts=facts
        )
        payload = encode(record)
        sequence = await self._logs[by].append(ledger(by), payload, sequence)
        self._last[by] = (sequence, digest(payload))
        return sequence

    async def documents(self):
        await self.append_facts(
            "governance",
            f.TenantAppliedV1(author="acme.alice", tenant=Tenant(name="acme")),
            f.GroupAppliedV1(author="acme.alice", group=Group(tenant="acme", name="dev", members=("alice",))),
            f.PoolAppliedV1(author="acme.alice", pool=Pool(name="hall", selector={})),
            f.ProfileAppliedV1(author="acme.alice", profile=Profile(name="one", request=GPU, pools=("hall",))),
            f.PolicyAppliedV1(
                author="acme.alice",
                policy=Policy(tenant="acme", name="dev", group="dev", profiles=(PolicyProfile(name="one"),)),
            ),
        )
        devices = tuple(Device(device=f"g{number}", model="H100-80GB", memory=1) for number in range(8))
        await self.append_facts("node.gpu01", f.NodeRegisteredV1(node="gpu01", devices=devices, cpu=1, memory=1, at=0))

    async def admit(self, keyring, number):
        text = keyring.seal("acme", encode(JobText(command=("train", str(number)))), job(number))
        return await self.append_facts(
            "admission", f.JobAdmittedV1(job=job(number), policy="dev", profile="one", request=GPU, text=text)
        )

    async def grant(self, number):
        device = DeviceShare(device=f"g{number}", units=GPU_UNITS)
        return await self.append_facts(
            "allocator",
            f.LeaseGrantedV1(job=job(number), attempt=1, node="gpu01", pool="hall", devices=(device,), amounts=GPU),
        )

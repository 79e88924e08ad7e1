"""Ledgers made up for the books, and what they add up to when the facts are read one by one."""

from __future__ import annotations

import random
from typing import Any

from headrace.accounting.books.meter import PREEMPTIBLE
from headrace.contracts import facts as f
from headrace.contracts.documents.model import Group, Policy, PolicyProfile, Pool, Profile
from headrace.contracts.facts import Fact
from headrace.contracts.facts.records import Record, digest
from headrace.contracts.transport.codec import decode, encode
from headrace.contracts.transport.subjects import ledger
from headrace.contracts.values.amounts import GPU_UNITS
from headrace.contracts.values.durations import SECOND
from headrace.contracts.values.ids import NODE_WRITER, job_key, make_job_id


class History:
    """Records of a ledger, made up, in the order in which they are appended."""

    def __init__(self) -> None:
        self.records: list[tuple[str, bytes]] = []
        self.now = SECOND
        self._prev: dict[str, str] = {}

    def append_facts(self, by: str, *facts: Fact) -> int:
        prev = "" if by.startswith(NODE_WRITER) else self._prev.get(by, "")
        payload = encode(Record(by=by, now=self.now, engine="test", as_of=len(self.records), prev=prev, facts=facts))
        return self.append_bytes(by, payload)

    def append_bytes(self, by: str, payload: bytes) -> int:
        self._prev[by] = digest(payload)
        self.records.append((ledger(by), payload))
        return len(self.records)

    def begin(self, *policies: str) -> None:
        pool = Pool(name="hq", selector={"site": "hq"}, price={"gpu": "2.5", "memory": "0.003"}, reserved_price={"gpu": "1.75"})
        profile = Profile(name="any", request={"gpu": GPU_UNITS}, pools=("hq",))
        self.append_facts(
            "governance", f.PoolAppliedV1(author="a.b", pool=pool), f.ProfileAppliedV1(author="a.b", profile=profile)
        )
        devices = tuple(f.nodes.Device(device=f"gpu{n}", model="H100", memory=80_000) for n in range(8))
        for node in ("n1", "n2"):
            self.append_facts(
                f"node.{node}",
                f.NodeRegisteredV1(node=node, labels={"site": "hq"}, devices=devices, cpu=10**9, memory=10**9, at=self.now),
            )
        for policy in policies:
            self.reserve(policy, 5)

    def reserve(self, policy: str, gpus: int, tenant: str = "acme") -> None:
        document = Policy(
            tenant=tenant,
            name=policy,
            group=policy,
            profiles=(PolicyProfile(name="any"),),
            reservation={"gpu": gpus * GPU_UNITS, "cpu": 4_000},
        )
        self.append_facts("governance", f.PolicyAppliedV1(author="a.b", policy=document))

    def price(self, gpu: str) -> None:
        pool = Pool(name="hq", selector={"site": "hq"}, price={"gpu": gpu, "cpu": "0.04"})
        self.append_facts("governance", f.PoolAppliedV1(author="a.b", pool=pool))

    def admit(self, number: int, policy: str, gpus: int, tenant: str = "acme", user: str = "alice", **more: Any) -> str:
        key = job_key(tenant, user, make_job_id(number, bytes(10)))
        fact = f.JobAdmittedV1(job=key, policy=policy, profile="any", request={"gpu": gpus * GPU_UNITS}, **more)
        self.append_facts("admission", fact, f.WishesJudgedV1(through=number))
        return key

    def grant(self, key: str, gpus: int, attempt: int = 1, node: str = "n1") -> None:
        amounts = {"gpu": gpus * GPU_UNITS, "cpu": 1_000, "memory": 64, "job": 1}
        self.append_facts("allocator", f.LeaseGrantedV1(job=key, attempt=attempt, node=node, pool="hq", amounts=amounts))

    def release(self, key: str, at: int, attempt: int = 1, node: str = "n1", **more: Any) -> None:
        facts = {"outcome": "exited", "exit_code": 0, "exited_at": at, "at": at} | more
        self.append_facts(f"node.{node}", f.LeaseEndedV1(job=key, attempt=attempt, **facts))


def busy(
    seed: int,
    jobs: int,
    policies: tuple[str, ...] = ("rnd", "dev"),
    *,
    service_accounts: tuple[str, ...] = (),
    step: int = SECOND,
) -> History:
    """Many jobs at once: some preempted, some known late, reservations and prices that change, `step` at most between two records.

    With service accounts: some of the jobs are theirs, and at the end some jobs run and wait on.
    """
    chance = random.Random(seed)
    history = History()
    history.begin(*policies)
    for name in service_accounts:
        group = Group(tenant="acme", name="robots", service_accounts=(name,))
        history.append_facts("governance", f.GroupAppliedV1(author="a.b", group=group))
    holding: dict[str, tuple[int, str]] = {}
    number = 0
    last = 3 if service_accounts else 0
    while number < jobs or len(holding) > last:
        history.now += chance.randint(0, step)
        what = chance.random()
        if number < jobs and (what < 0.5 or not holding):
            number += 1
            gpus = chance.randint(1, 4)
            who = {"user": chance.choice(("alice", *service_accounts)), "labels": {"project": f"x{number % 3}"}}
            key = history.admit(number, chance.choice(policies), gpus, preemptible=chance.random() < 0.7, **who)
            if service_accounts and chance.random() < 0.3:  # it waits; and some are cancelled
                if chance.random() < 0.7:
                    history.now += chance.randint(0, step)
                    history.append_facts("allocator", f.JobEndedV1(job=key, attempt=0, state="cancelled", cause="cancelled"))
                continue
            node = chance.choice(("n1", "n2"))
            history.grant(key, gpus, node=node)
            holding[key] = (1, node)
            if chance.random() < 0.8:
                history.append_facts(
                    f"node.{node}", f.LeaseStartedV1(job=key, attempt=1, at=history.now - chance.randint(0, 1_000))
                )
        elif service_accounts and what < 0.52:
            history.price(f"{chance.randint(0, 9)}.{chance.randint(0, 999_999):06}")
        elif what < 0.55:
            history.reserve(chance.choice(policies), chance.randint(0, 9))
        else:
            key = chance.choice(sorted(holding))
            attempt, node = holding.pop(key)
            if chance.random() < 0.3:
                fact = f.CheckpointRegisteredV1(job=key, attempt=attempt, uri="file:///c", step=1, at=history.now)
                history.append_facts(f"node.{node}", fact)
            late = chance.choice((0, 1_000, SECOND, 3 * SECOND, 60 * SECOND))
            history.release(key, history.now - late, attempt, node)
            if attempt == 1 and chance.random() < 0.3:
                history.append_facts("allocator", f.JobRequeuedV1(job=key, attempt=attempt, cause="preempted"))
                history.grant(key, 1, attempt + 1, node)
                holding[key] = (attempt + 1, node)
            else:
                history.append_facts(
                    "allocator", f.JobEndedV1(job=key, attempt=attempt, state="succeeded", cause="exited", exit_code=0)
                )
    return history


def added_up(history: History) -> dict[tuple[int, str, int], tuple[int | None, int, int]]:
    """Usage from the facts alone, the slow way: at every moment, who holds what in R17's order."""
    policy_of: dict[str, tuple[str, bool]] = {}
    leases: dict[str, list[Any]] = {}
    reserved: dict[tuple[str, str], list[tuple[int, int, int]]] = {}
    for sequence, (_, payload) in enumerate(history.records, 1):
        record = decode(payload, Record)
        for place, fact in enumerate(record.facts):
            match fact:
                case f.JobAdmittedV1():
                    policy_of[fact.job] = (fact.policy, fact.preemptible)
                case f.PolicyAppliedV1():
                    for key in ("gpu", "cpu"):
                        amount = (fact.policy.reservation or {})[key]
                        reserved.setdefault((fact.policy.name, key), []).append((record.now, sequence, amount))
                case f.LeaseGrantedV1():
                    policy, preemptible = policy_of[fact.job]
                    number = sequence * 1_000 + place
                    order = number + PREEMPTIBLE if preemptible else number
                    leases[f"{fact.job}/{fact.attempt}"] = [policy, order, fact.amounts, record.now, None, record.now]
                case f.LeaseStartedV1() | f.CheckpointRegisteredV1():
                    lease = leases[f"{fact.job}/{fact.attempt}"]
                    lease[5] = max(lease[5], min(fact.at, record.now))
                case f.LeaseEndedV1():
                    lease = leases[f"{fact.job}/{fact.attempt}"]
                    lease[4] = max(lease[5], min(fact.at, record.now))
                case _:
                    pass
    usage: dict[tuple[int, str, int], tuple[int | None, int, int]] = {}
    for policy in {lease[0] for lease in leases.values()}:
        for key in ("gpu", "cpu", "memory", "job"):
            lines = [(order, amounts[key], g, e) for name, order, amounts, g, e, _ in leases.values() if name == policy]
            _add_up(key, sorted(lines), sorted(reserved.get((policy, key), [])), usage)
    return usage


def _add_up(key: str, lines: list[Any], reserved: list[tuple[int, int, int]], usage: dict[Any, Any]) -> None:
    moments = {moment for _, _, g, e in lines for moment in (g, e) if moment is not None} | {at for at, _, _ in reserved}
    now: dict[int, tuple[int, int, int]] = {}
    for moment in sorted(moments):
        left = next((amount for at, _, amount in reversed(reserved) if at <= moment), 0)
        split = {}
        for order, amount, granted, ended in lines:
            if granted <= moment and (ended is None or moment < ended):
                covered = min(left, amount)
                left -= covered
                split[order] = (covered, amount - covered)
        for order in [order for order in now if split.get(order) != now[order][1:]]:
            since, *units = now.pop(order)
            usage[order & (PREEMPTIBLE - 1), key, since] = (moment, *units)
        for order, units in split.items():
            now.setdefault(order, (moment, *units))
    for order, (since, *units) in now.items():
        usage[order & (PREEMPTIBLE - 1), key, since] = (None, *units)

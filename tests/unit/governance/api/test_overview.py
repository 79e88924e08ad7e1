"""Overviews: what is in the columns, who sees whose jobs, and what a watch sends."""

from __future__ import annotations

import random
from types import SimpleNamespace

import pytest
from google.protobuf.json_format import MessageToDict

from headrace.bus.memory import MemoryLog
from headrace.contracts import facts as f
from headrace.contracts.api import overview_pb2 as pb
from headrace.contracts.facts.records import Record
from headrace.contracts.messages.utilization import NodeLoad, UtilizationAnswer
from headrace.contracts.transport.codec import encode
from headrace.contracts.values.amounts import GPU_UNITS
from headrace.contracts.values.durations import SECOND
from headrace.governance.api.context import CallContext
from headrace.governance.api.errors import ApiError
from headrace.governance.api.overview import EVENTS_MAX, Overviews, overview_of
from headrace.identity.caller import Caller, Denied, Role
from headrace.service.recent_records import RecentRecords
from headrace.views.audit_lines import lines_of
from headrace.views.job_index import queue_counts
from headrace.views.visibility import ALL_TENANTS

POLICIES = """
tenants: [{name: acme}, {name: other}]
groups:
  - {name: dev, tenant: acme, members: [ann]}
  - {name: dev, tenant: other, members: [eve]}
policies:
  - {name: dev, tenant: acme, group: dev, profiles: [one, three], reservation: {gpu: 4}}
  - {name: dev, tenant: other, group: dev, profiles: [one]}
"""


@pytest.fixture
def shared(site):
    """Two tenants with one running job each on the node w1, and one waiting job."""
    site.write(POLICIES)
    site.own = site.job("dev/three", 3, tenant="acme", on="w1")
    site.strange = site.job("dev/one", 1, tenant="other", user="eve", on="w1")
    site.job("dev/one", 1, tenant="acme")
    return site


def overview(site, tenant: str) -> dict:
    return MessageToDict(
        overview_of(site.state, queue_counts(site.state), tenant, site.state.now), preserving_proto_field_name=True
    )


def test_the_provider_sees_every_device_and_who_holds_it(shared) -> None:
    found = overview(shared, "")
    assert found["nodes"] == {
        "name": ["e1", "w1"],
        "pool": ["east", "west"],
        "state": ["ready", "ready"],
        "model": ["H100-80GB"] * 2,
    }
    assert found["devices"]["node"] == [0] * 4 + [1] * 10
    assert found["devices"]["used"] == [0] * 4 + [GPU_UNITS] * 4 + [0] * 6
    assert found["devices"]["shares"] == {
        "device": [4, 5, 6, 7],
        "holder": [0, 0, 0, 1],
        "units": [GPU_UNITS] * 4,
        "mig": [""] * 4,
        "start": [0] * 4,
    }
    assert found["holders"] == {
        "id": [key.split(".")[2] for key in (shared.own, shared.strange)],
        "display_name": [""] * 2,
        "tenant": ["acme", "other"],
        "user": ["ann", "eve"],
        "queue": ["dev/three", "dev/one"],
        "state": ["running"] * 2,
        "since": ["0"] * 2,
    }
    assert [queue["name"] for queue in found["queues"]] == [
        "tenants/acme/queues/dev/one",
        "tenants/acme/queues/dev/three",
        "tenants/other/queues/dev/one",
    ]


def test_nodes_are_in_the_order_in_which_people_look_for_them(site) -> None:
    site.append_facts(*(f.NodeRegisteredV1(node=name, labels={}, devices=(), cpu=1, memory=1, at=1) for name in ("w10", "w2")))
    assert overview(site, "")["nodes"]["name"] == ["e1", "w1", "w2", "w10"]


def test_a_tenant_sees_what_others_use_only_as_a_sum_by_device(shared) -> None:
    found = overview(shared, "acme")
    assert found["devices"]["used"] == [0] * 4 + [GPU_UNITS] * 4 + [0] * 6
    assert found["devices"]["shares"]["device"] == [4, 5, 6]
    assert found["holders"]["user"] == ["ann"]
    text = str(found)
    assert "other" not in text
    assert "eve" not in text


def test_what_is_unfit_or_was_given_back_is_shown_so(shared) -> None:
    shared.release(shared.own)
    shared.state.nodes["w1"].devices[9].unfit = "XID 79"
    found = overview(shared, "")
    assert found["devices"]["used"][4:8] == [0, 0, 0, GPU_UNITS]
    assert found["devices"]["unfit"] == [""] * 13 + ["XID 79"]
    assert found["holders"]["user"] == ["eve"]


def test_nodes_have_the_maintenance_that_is_ahead_and_only_the_provider_sees_who_ordered_it(shared) -> None:
    assert "maintenance" not in overview(shared, "")["nodes"]
    drain = f.NodeDrainScheduledV1(node="w1", author="default.root", reason="a new fan", begins=7_200 * SECOND)
    window = f.MaintenanceStatedV1(pool="east", begins=3_600 * SECOND, ends=9_000 * SECOND, reason="new drivers")
    shared.append_facts(drain, window)
    found = {
        "node": [0, 1],
        "kind": ["window", "drain"],
        "begin": ["3600", "7200"],
        "end": ["9000", "0"],
        "reason": ["new drivers", "a new fan"],
        "scheduled_by": ["", "default.root"],
    }
    assert overview(shared, "")["nodes"]["maintenance"] == found
    assert overview(shared, "acme")["nodes"]["maintenance"] == found | {
        "reason": ["new drivers", ""],
        "scheduled_by": ["", ""],
    }


class Backend(SimpleNamespace):
    """The part of the API's context that overviews use."""

    def __init__(self, site, ledger=None, kept: int = 2_000) -> None:
        recent = RecentRecords(site.state.sequence, kept)
        index = SimpleNamespace(lines=queue_counts(site.state))
        ledger = ledger or MemoryLog(lambda: 0, after=site.state.sequence)
        super().__init__(state=site.state, recent=recent, job_index=index, now=lambda: site.state.now, ledger=ledger)


def record_of(site, sequence: int) -> Record:
    return Record(by="allocator", now=sequence, engine="test", as_of=0, facts=tuple(site.facts[sequence]))


def called(backend, role: Role = Role.PROVIDER_ADMIN, tenant: str = "default") -> CallContext:
    return CallContext(Caller(role, tenant, "ann"), "WatchOverview", 5.0, backend)


def happen(site, backend, *keys: str) -> None:
    """A record for each job: it ends."""
    for key in keys:
        before = site.state.sequence
        site.release(key)
        for sequence in range(before + 1, site.state.sequence + 1):
            facts = site.facts[sequence]
            backend.recent.note(Record(by="allocator", now=sequence, engine="test", as_of=0, facts=facts), sequence)


@pytest.fixture
def recorded(shared):
    """`shared`, which remembers the facts of each record."""
    shared.facts = {}
    append_facts = shared.append_facts

    def remember(*facts, by="governance"):
        append_facts(*facts, by=by)
        shared.facts[shared.state.sequence] = facts

    shared.append_facts = remember
    return shared


async def test_a_watch_begins_with_everything_and_goes_on_with_what_changes(recorded) -> None:
    backend = Backend(recorded)
    watch = Overviews().watch_overview(pb.WatchOverviewRequest(), called(backend))
    first = await anext(watch)
    assert first.overview.sequence == str(recorded.state.sequence)
    assert list(first.events) == []
    happen(recorded, backend, recorded.own)
    second = await anext(watch)
    assert second.overview.devices.used[4] == 0
    assert [event.type for event in second.events] == ["lease.ended.v1", "job.ended.v1"]
    assert second.sequence == str(recorded.state.sequence)
    await watch.aclose()


async def test_loads_are_sent_once_they_are_known_and_again_when_they_or_the_devices_change(recorded) -> None:
    load = NodeLoad(node="w1", at=5, devices=("gpu0",), busy=(40,), average=(40,), memory=(0,), held=(0,), idle=(1,))
    answers = [None, UtilizationAnswer(now=1, nodes=(load,))]
    answers += [answers[1], UtilizationAnswer(now=2)]
    loads = SimpleNamespace(last=lambda _call: answers.pop(0))
    watch = Overviews(0.01, loads).watch_overview(pb.WatchOverviewRequest(), called(Backend(recorded)))
    sent = [await anext(watch) for _ in range(4)]
    await watch.aclose()
    assert [change.HasField("loads") for change in sent] == [False, True, False, True]
    device = len(recorded.state.nodes["e1"].devices)
    assert (sent[1].loads.busy[device], sent[1].loads.idle[device]) == (40, 1)
    assert set(sent[3].loads.busy) == {-1}


async def test_a_quiet_watch_shows_that_it_is_alive(recorded) -> None:
    watch = Overviews(alive_every=0.01).watch_overview(pb.WatchOverviewRequest(), called(Backend(recorded)))
    await anext(watch)
    alive = await anext(watch)
    assert not alive.HasField("overview")
    assert alive.sequence == str(recorded.state.sequence)
    await watch.aclose()


async def test_a_watch_goes_on_after_the_record_that_its_reader_saw_last(recorded) -> None:
    backend = Backend(recorded)
    seen = recorded.state.sequence
    happen(recorded, backend, recorded.own, recorded.strange)
    watch = Overviews().watch_overview(pb.WatchOverviewRequest(since=str(seen + 2)), called(backend))
    first = await anext(watch)
    assert [int(event.sequence) for event in first.events] == [seen + 3, seen + 4]
    await watch.aclose()


async def test_a_tenant_hears_nothing_of_the_jobs_of_others(recorded) -> None:
    backend = Backend(recorded)
    happen(recorded, backend, recorded.strange)
    watch = Overviews().watch_overview(pb.WatchOverviewRequest(), called(backend, Role.TENANT_ADMIN, "acme"))
    assert list((await anext(watch)).events) == []
    await watch.aclose()


async def test_of_too_many_events_the_latest_are_sent_and_the_others_are_counted(recorded) -> None:
    backend = Backend(recorded)
    before = recorded.state.sequence
    happen(recorded, backend, recorded.own)
    ended = recorded.facts[before + 2]
    for sequence in range(before + 3, before + 303):
        backend.recent.note(Record(by="allocator", now=sequence, engine="test", as_of=0, facts=ended), sequence)
    watch = Overviews().watch_overview(pb.WatchOverviewRequest(since=str(before)), called(backend))
    first = await anext(watch)
    assert (len(first.events), first.left_out) == (EVENTS_MAX, 302 - EVENTS_MAX)
    await watch.aclose()


async def union(backend, tenant: str, since: int, chance: random.Random, **asked) -> list[tuple[str, int, str, str]]:
    """The events of watches up to the last record: the reader of each goes away after some answers, and the next goes on from there."""
    role = Role.PROVIDER_ADMIN if tenant == ALL_TENANTS else Role.TENANT_ADMIN
    found = []
    while since < backend.state.sequence:
        request = pb.WatchOverviewRequest(since=str(since), every_event=True, **asked)
        watch = Overviews().watch_overview(request, called(backend, role, tenant or "default"))
        for _ in range(chance.randrange(1, 3)):
            change = await anext(watch)
            assert not change.left_out
            found += [(event.sequence, event.number, event.text, event.rule) for event in change.events]
            since = int(change.sequence)
            if since == backend.state.sequence:
                break
        await watch.aclose()
    return found


@pytest.mark.parametrize("tenant", [ALL_TENANTS, "acme"])
@pytest.mark.parametrize("kept", [10_000, 100], ids=["in memory", "in the ledger"])
async def test_watches_that_end_anywhere_give_every_event_of_the_ledger_once(recorded, tenant, kept) -> None:
    chance, before = random.Random(30), recorded.state.sequence
    log = MemoryLog(lambda: 0, after=before)
    backend = Backend(recorded, ledger=log, kept=kept)
    happen(recorded, backend, recorded.own)
    some = [fact for facts in recorded.facts.values() for fact in facts]
    for sequence in range(recorded.state.sequence + 1, recorded.state.sequence + 400):
        recorded.facts[sequence] = chance.sample(some, chance.randrange(1, len(some) + 1))
        recorded.state.sequence = sequence
        backend.recent.note(record_of(recorded, sequence), sequence)
    records = {sequence: record_of(recorded, sequence) for sequence in recorded.facts}
    for sequence, record in records.items():
        log.append_now("hr.ledger.allocator", encode(record), None, str(sequence))
    lines = [line for sequence, record in records.items() for line in lines_of(record, sequence, tenant, recorded.state)]
    assert len(lines) > 2 * EVENTS_MAX

    def events(nouns: str) -> list[tuple[str, int, str, str]]:
        return [(str(line.sequence), line.place, line.text, line.rule) for line in lines if line.type.startswith(nouns)]

    assert await union(backend, tenant, before, chance) == events("")
    assert await union(backend, tenant, before, chance, nouns=["lease"]) == events("lease.")


async def test_a_watch_of_one_tenant_has_its_queues_jobs_and_events_and_those_of_no_tenant(recorded) -> None:
    backend = Backend(recorded)
    seen = recorded.state.sequence
    happen(recorded, backend, recorded.own, recorded.strange)
    request = pb.WatchOverviewRequest(since=str(seen), tenants=["other"])
    watch = Overviews().watch_overview(request, called(backend))
    first = await anext(watch)
    await watch.aclose()
    assert {event.about.split(".")[0] for event in first.events} == {"other"}
    assert [queue.name for queue in first.overview.queues] == ["tenants/other/queues/dev/one"]
    assert set(first.overview.holders.tenant) <= {"other"}
    assert len(first.overview.devices.used) == 14


async def test_a_watch_sends_the_parts_that_are_asked_for(recorded) -> None:
    backend = Backend(recorded)
    watch = Overviews().watch_overview(pb.WatchOverviewRequest(parts=["pools", "nodes"]), called(backend))
    found = (await anext(watch)).overview
    await watch.aclose()
    assert {field.name for field, _ in found.ListFields()} == {"sequence", "time", "tip", "pools", "nodes"}


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"nouns": ["jobs"]}, "nouns: 'jobs' is not known; there are .*job"),
        ({"parts": ["everything"]}, "parts: 'everything' is not known; there are .*pools"),
        ({"tenants": ["A B"]}, "tenants: write a name"),
    ],
)
async def test_what_cannot_be_watched_is_told(recorded, asked, says) -> None:
    watch = Overviews().watch_overview(pb.WatchOverviewRequest(**asked), called(Backend(recorded)))
    with pytest.raises(ApiError, match=says):
        await anext(watch)


async def test_a_tenant_watches_no_other(recorded) -> None:
    request = pb.WatchOverviewRequest(tenants=["other"])
    watch = Overviews().watch_overview(request, called(Backend(recorded), Role.TENANT_ADMIN, "acme"))
    with pytest.raises(Denied):
        await anext(watch)


async def test_a_record_that_does_not_exist_yet_is_refused_as_a_beginning(recorded) -> None:
    watch = Overviews().watch_overview(pb.WatchOverviewRequest(since="999"), called(Backend(recorded)))
    with pytest.raises(ApiError, match=f"since: the ledger ends with record {recorded.state.sequence}"):
        await anext(watch)


async def test_the_overview_of_now_names_the_record_that_it_reflects(recorded) -> None:
    found = await Overviews().get_overview(pb.GetOverviewRequest(), called(Backend(recorded)))
    assert (found.sequence, found.tip) == (str(recorded.state.sequence),) * 2

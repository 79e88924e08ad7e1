"""The status of the installation: what the client reads is what the services said."""

from __future__ import annotations

from types import SimpleNamespace

from google.protobuf.json_format import MessageToDict
from msgspec import Raw

from headrace.client.status_answers import installation
from headrace.contracts.messages.installation import FollowerStatus, InstallationView, StreamStatus
from headrace.contracts.messages.queries import Answer, ServiceView
from headrace.contracts.transport.codec import encode
from headrace.governance.api.context import CallContext
from headrace.governance.api.status import NAMES, get_status
from headrace.identity.caller import Caller, Role
from headrace.nats_client.errors import LogUnavailable, NoListener

ROOT = Caller(Role.PROVIDER_VIEWER, "default", "eve")
FEED = ServiceView(
    service="feed", folded=17, now=5, engine="headrace/0", detail={"jobs": 3}, reads=3, level=2, trouble="slow disk"
)
GOVERNANCE = ServiceView(
    service="governance", folded=20, now=5, engine="headrace/0", newest=3, held_back=("feed is not there",)
)


class Bus:
    """Answers for these services; `ledger`: the servers' description of the ledger."""

    def __init__(self, ledger: bytes, *views: ServiceView) -> None:
        self._ledger = ledger
        self._views = {view.service: view for view in views}

    async def ask(self, subject: str, within: float) -> SimpleNamespace:
        assert within > 0
        if subject.startswith("$JS"):
            if not self._ledger:
                raise LogUnavailable("no server")
            return SimpleNamespace(data=self._ledger)
        _, _, name, what, tenant, user = subject.split(".")
        assert (what, tenant, user) == ("status", "default", "governance")
        if name not in self._views:
            raise NoListener(subject)
        return SimpleNamespace(data=encode(Answer(sequence=1, body=Raw(encode(self._views[name])))))


async def read(bus: Bus) -> InstallationView:
    found = await get_status(None, CallContext(ROOT, "GetStatus", 5.0, SimpleNamespace(connection=bus)))
    return installation(MessageToDict(found, preserving_proto_field_name=True))


async def test_each_service_is_told_as_it_reports_itself_and_who_is_silent_as_silent():
    view = await read(Bus(b'{"config": {}, "state": {"last_seq": 20}}', FEED, GOVERNANCE))
    silent: dict[str, ServiceView | None] = dict.fromkeys(NAMES)
    assert view == InstallationView(tip=20, services=silent | {"feed": FEED, "governance": GOVERNANCE})
    assert {"allocator", "allocator-standby", "callout"} <= set(view.services)


async def test_of_several_servers_the_leader_and_the_followers_are_told():
    replicas = b'[{"name": "b", "current": true, "lag": 2}, {"name": "c", "offline": true}]'
    led = b'{"state": {"last_seq": 9}, "cluster": {"leader": "a", "replicas": %s}}' % replicas
    view = await read(Bus(led))
    followers = (FollowerStatus("b", current=True, lag=2), FollowerStatus("c", offline=True))
    assert (view.tip, view.ledger) == (9, StreamStatus("a", followers))
    assert (await read(Bus(b'{"state": {"last_seq": 9}, "cluster": {}}'))).ledger == StreamStatus()


async def test_without_a_server_there_is_no_last_record():
    assert (await read(Bus(b""))).tip == 0
    assert (await read(Bus(b"no json"))).tip == 0

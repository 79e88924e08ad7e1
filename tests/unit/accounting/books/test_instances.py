from __future__ import annotations

from headrace.accounting.books.noted_facts import NOTED
from headrace.accounting.books.rows import InstanceRow, Position, RowChanges
from headrace.contracts import facts as f
from tests.unit.provisioner.cloud import OFFERS, Cloud


def test_an_instance_is_noted_as_it_is_now_once_for_a_stretch():
    site, changes = Cloud(offers=OFFERS), RowChanges(Position(0, "", 0), Position(0, "", 0))
    (name,) = site.ordered()
    began = site.now
    site.wait(5)
    site.made(name)
    NOTED[f.InstanceCreatedV1](site.state, changes, f.InstanceCreatedV1(instance=name, provider_id="p", at=1), 1)
    site.wait(5)
    site.join(name)
    NOTED[f.NodeRegisteredV1](site.state, changes, f.NodeRegisteredV1(node=name, cpu=1, memory=1, at=1), 2)
    NOTED[f.NodeRegisteredV1](site.state, changes, f.NodeRegisteredV1(node="other", cpu=1, memory=1, at=1), 3)
    assert changes.instances == {
        name: InstanceRow(
            instance=name,
            pool="cloud",
            provider="local",
            provider_id=f"p/{name}",
            offer="spot",
            market="spot",
            price=1_000_000,
            ordered_at=began,
            created_at=began + 5,
            joined_at=began + 10,
            ended_at=None,
            cause="",
        )
    }

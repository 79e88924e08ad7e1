from __future__ import annotations

from headrace.contracts import facts as f
from headrace.domain.model.time_rules import Closing
from headrace.domain.snapshots.snapshot import copy_of, dump, load
from tests.unit.domain.site import Site
from tests.unit.domain.snapshot import differences, snapshot


def test_what_is_closed_survives_snapshots():
    site = Site()
    site.append_facts(f.ObjectClosedV1(author="a.b", kind="policy", tenant="default", name="dev", mode="drain"))

    (closing,) = load(dump(site.state)).terms.closings.values()

    assert isinstance(closing, Closing)
    assert (closing.kind, closing.tenant, closing.name, closing.mode, closing.at) == (
        "policy",
        "default",
        "dev",
        "drain",
        site.now,
    )
    assert differences(snapshot(load(dump(site.state))), snapshot(site.state)) == []
    assert differences(snapshot(copy_of(site.state)), snapshot(site.state)) == []

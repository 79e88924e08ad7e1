"""The node's own account of a device: it takes nothing that does not fit, even if it is ordered (R3, R4)."""

from __future__ import annotations

import pytest

from headrace.contracts.facts.fact import DeviceShare
from headrace.contracts.facts.nodes import Device
from headrace.node_executor.core.device_holdings import DeviceHoldings

CUT = Device(device="gpu0", model="H100-80GB", memory=81_920, mig=True)
PLAIN = Device(device="gpu0", model="H100-80GB", memory=81_920)


def units(count: int) -> DeviceShare:
    return DeviceShare(device="gpu0", units=count)


def cut(name: str, start: int) -> DeviceShare:
    return DeviceShare(device="gpu0", units=1, mig=name, start=start)


@pytest.mark.parametrize(
    ("device", "there", "asked", "objection"),
    [
        pytest.param(PLAIN, [], units(126_000), "", id="a free device"),
        pytest.param(PLAIN, [units(63_000)], units(63_000), "", id="the other half"),
        pytest.param(PLAIN, [units(63_000)], units(63_001), "is not free", id="one unit too many"),
        pytest.param(PLAIN, [], cut("3g.40gb", 4), "is not in MIG mode", id="a slice of what is not cut"),
        pytest.param(CUT, [], units(1), "is in MIG mode: it is given in slices only", id="a fraction of what is cut"),
        pytest.param(CUT, [cut("4g.40gb", 0)], cut("3g.40gb", 4), "", id="beside it, whatever the charges"),
        pytest.param(CUT, [cut("3g.40gb", 0)], cut("4g.40gb", 0), "is not free", id="on top of it"),
        pytest.param(CUT, [], cut("3g.40gb", 2), "is not free", id="where no such slice begins"),
        pytest.param(CUT, [], cut("3g.20gb", 0), "is not free", id="of another model"),
    ],
)
def test_what_a_device_takes(device, there, asked, objection):
    holding = DeviceHoldings(device)
    for share in there:
        holding.take(share)
    assert holding.objection(asked) == objection


def test_giving_back_undoes_taking():
    for device, share in ((PLAIN, units(5)), (CUT, cut("3g.40gb", 4))):
        holding = DeviceHoldings(device)
        holding.take(share)
        holding.give_back(share)
        assert (holding.free, holding.slices) == (126_000, ())

"""A machine: what of it counts as capacity, and what may be granted on it."""

from __future__ import annotations

import pytest

from headrace.contracts.values.amounts import GPU_UNITS
from headrace.domain.model.devices import DeviceState
from headrace.domain.model.nodes import NodeState


@pytest.mark.parametrize(
    ("free", "nominated", "units"),
    [
        pytest.param(GPU_UNITS, 0, GPU_UNITS, id="all of it"),
        pytest.param(GPU_UNITS, 1, GPU_UNITS - 1, id="what is kept is not open"),
        pytest.param(5, 9, 0, id="more is kept than is free yet: nothing is open, and not less"),
    ],
)
def test_the_units_of_a_device_that_any_job_may_be_granted(free, nominated, units):  # R27
    assert DeviceState("gpu0", "H100", 80, free, nominated).open == units


@pytest.mark.parametrize(
    ("status", "cordoned", "healthy", "grantable"),
    [
        pytest.param("ready", "", True, True, id="ready"),
        pytest.param("ready", "new fans", True, False, id="cordoned: it counts as capacity, and takes nothing new"),
        pytest.param("lost", "", False, False, id="lost"),
        pytest.param("stopped", "", False, False, id="stopped"),
    ],
)
def test_which_nodes_count_and_which_take_work(status, cordoned, healthy, grantable):  # R6
    node = NodeState("n1", {}, [], 0, 0, 0, 0, 0, status=status, cordoned=cordoned)
    assert (node.healthy, node.grantable) == (healthy, grantable)

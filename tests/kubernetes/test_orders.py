"""Random orders of everything that can happen around the bridge; `make test-k8s-orders` plays 10,000."""

from __future__ import annotations

import os

import pytest
import structlog

from tests.kubernetes.orders import Play
from tests.properties.campaign import examples

ORDERS = int(os.environ.get("HEADRACE_K8S_ORDERS", examples(60, whole_from=50)))
FIRST = int(os.environ.get("HEADRACE_K8S_FIRST", "1"))
AT_ONCE = 6
"""Orders in one test, so that several processes share them."""


@pytest.mark.parametrize("first", range(FIRST, FIRST + ORDERS, AT_ONCE))
def test_no_pod_runs_without_a_lease_and_no_lease_is_held_without_its_pod(first):
    granted = 0
    with structlog.testing.capture_logs():
        for seed in range(first, min(first + AT_ONCE, FIRST + ORDERS)):
            play = Play(seed)
            try:
                play.run()
            except Exception as error:
                error.add_note(f"order {seed}")
                raise
            granted += play.granted
    assert granted > 0

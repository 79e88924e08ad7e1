from __future__ import annotations

from google.protobuf.json_format import MessageToDict

from headrace.contracts.messages.utilization import IdleHolder, IdleNode, NodeLoad, UtilizationAnswer
from headrace.contracts.values.amounts import GPU_UNITS
from headrace.governance.api.utilization import message_of


def test_the_last_samples_are_columns_of_devices_and_amounts_are_gpus() -> None:
    load = NodeLoad(
        node="n1", at=5, devices=("gpu0", "gpu1"), busy=(3, -1), average=(2, -1), memory=(7, 0), held=(9, 0), idle=(1, 0)
    )
    holder = IdleHolder(
        job="acme.alice.01h",
        name="notebook",
        tenant="acme",
        user="alice",
        policy="rnd",
        profile="any",
        pool="hq",
        node="n1",
        devices=("gpu0",),
        units=GPU_UNITS // 2,
        held=900,
        average=2,
    )
    unused = IdleNode(node="n2", pool="hq", units=8 * GPU_UNITS)
    answer = UtilizationAnswer(now=1_000_000, nodes=(load,), holders=(holder,), idle_nodes=(unused,), unknown=1)
    assert MessageToDict(message_of(answer), preserving_proto_field_name=True) == {
        "time": "1970-01-01T00:00:01Z",
        "devices": {
            "node": ["n1", "n1"],
            "name": ["gpu0", "gpu1"],
            "busy": [3, -1],
            "average": [2, -1],
            "memory": [7, 0],
            "held": [9, 0],
            "idle": [1, 0],
        },
        "holders": [
            {
                "job": "tenants/acme/jobs/01h",
                "display_name": "notebook",
                "user": "alice",
                "queue": "rnd/any",
                "pool": "hq",
                "node": "n1",
                "devices": ["gpu0"],
                "gpus": "1/2",
                "held": "900",
                "average": 2,
            }
        ],
        "idle_nodes": [{"node": "n2", "pool": "hq", "gpus": "8"}],
        "unknown": 1,
    }

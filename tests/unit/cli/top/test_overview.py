"""What `headrace top` draws, computed from overviews."""

from __future__ import annotations

from headrace.cli.top.overview import (
    COLOURS,
    FREE,
    OTHERS,
    UNFIT,
    EventRow,
    IdleRow,
    NodeCells,
    PoolRow,
    QueueRow,
    events_of,
    faint,
    picture_of,
)
from tests.unit.cli.top.overviews import JOB, overview


def test_a_picture_has_pools_queues_and_a_colour_for_every_gpu() -> None:
    picture = picture_of(overview())
    assert picture.pools == (PoolRow("hall", "2", "1", "0", "1", "4"),)
    assert picture.queues == (QueueRow("acme", "dev/one", 1, 2, "1.5", "2", "0", "3", COLOURS[0]),)
    assert picture.nodes == (NodeCells("n1", "ready", (COLOURS[0], OTHERS, FREE)), NodeCells("n2", "lost", (UNFIT,)))
    assert (picture.sequence, picture.running, picture.waiting) == (7, 1, 2)


def test_idle_gpus_are_faint_and_their_holders_and_nodes_without_work_are_named() -> None:
    picture = picture_of(overview(), {"busy": [0, -1, -1, -1], "idle": [1, 0, 0, 0]})
    assert picture.idle == (IdleRow(f"…{JOB[-6:]}", "ann", "dev/one", "1", "n1"),)
    assert picture.nodes[0].colours == (faint(COLOURS[0]), OTHERS, FREE)
    assert (picture.idle_gpus, picture.idle_nodes) == (1, 0)
    without = overview()
    without["nodes"]["state"][1] = "ready"
    assert picture_of(without).idle_nodes == 1


def test_an_empty_installation_has_an_empty_picture() -> None:
    picture = picture_of({"sequence": "1"})
    assert (picture.pools, picture.queues, picture.nodes, picture.running) == ((), (), (), 0)


def test_events_name_users_and_the_ends_of_ids() -> None:
    event = {"sequence": "9", "time": "2026-11-26T14:02:11Z", "text": "granted", "about": f"acme.ann.{JOB}", "rule": "R15"}
    assert events_of({"events": [event]}) == [EventRow(9, "14:02:11", "granted", f"ann …{JOB[-6:]}", "R15")]

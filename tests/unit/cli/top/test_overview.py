"""What `headrace top` draws, computed from overviews."""

from __future__ import annotations

import msgspec

from headrace.cli.top.answers import Loads, Overview, Part, decode_change, decode_overview
from headrace.cli.top.overview import (
    COLOURS,
    FREE,
    OTHERS,
    UNFIT,
    EventRow,
    IdleRow,
    NodeCells,
    Picture,
    Pictures,
    PoolRow,
    QueueRow,
    events_of,
    faint,
    picture_of,
)
from tests.unit.cli.top.overviews import GPU, JOB, overview


def read(answer: dict) -> Overview:
    return decode_overview(msgspec.json.encode(answer))


def loads(*idle: int) -> Loads:
    return Loads(idle=msgspec.Raw(msgspec.json.encode(idle)))


def test_a_picture_has_pools_queues_and_a_colour_for_every_gpu() -> None:
    picture = picture_of(read(overview()))
    assert picture.pools == (PoolRow("hall", "2", "1", "0", "1", "4"),)
    assert picture.queues == (QueueRow("acme", "dev/one", 1, 2, "1.5", "2", "0", "3", COLOURS[0]),)
    assert picture.nodes == (NodeCells("n1", "ready", (COLOURS[0], OTHERS, FREE)), NodeCells("n2", "lost", (UNFIT,)))
    assert (picture.sequence, picture.running, picture.waiting) == (7, 1, 2)


def test_idle_gpus_are_faint_and_their_holders_and_nodes_without_work_are_named() -> None:
    picture = picture_of(read(overview()), loads(1, 0, 0, 0))
    assert picture.idle == (IdleRow(f"…{JOB[-6:]}", "ann", "dev/one", "1", "n1"),)
    assert picture.nodes[0].colours == (faint(COLOURS[0]), OTHERS, FREE)
    assert (picture.idle_gpus, picture.idle_nodes) == (1, 0)
    without = overview()
    without["nodes"]["state"][1] = "ready"
    assert picture_of(read(without)).idle_nodes == 1


def test_an_empty_installation_has_an_empty_picture() -> None:
    picture = picture_of(read({"sequence": "1"}))
    assert (picture.pools, picture.queues, picture.nodes, picture.running) == ((), (), (), 0)


def test_events_name_users_and_the_ends_of_ids() -> None:
    event = {"sequence": "9", "time": "2026-11-26T14:02:11Z", "text": "granted", "about": f"acme.ann.{JOB}", "rule": "R15"}
    assert events_of(decode_change(msgspec.json.encode({"events": [event]}))) == [
        EventRow(9, "14:02:11", "granted", f"ann …{JOB[-6:]}", "R15")
    ]


def test_loads_of_other_devices_are_left_out() -> None:
    assert picture_of(read(overview()), loads(1, 1)).idle_gpus == 0


def test_a_gpu_has_the_colour_of_the_policy_that_holds_most_of_it() -> None:
    answer = overview()
    second = answer["queues"][0] | {"name": "tenants/acme/queues/eval/one", "policy": "eval"}
    answer["queues"].append(second)
    answer["holders"] = {"id": [JOB, JOB], "tenant": ["acme"] * 2, "user": ["ann"] * 2, "queue": ["dev/one", "eval/one"]}
    answer["devices"]["shares"] = {"device": [0, 1, 0], "holder": [0, 0, 1], "units": [GPU // 4, GPU, GPU // 2]}
    assert picture_of(read(answer)).nodes[0].colours == (COLOURS[1], COLOURS[0], FREE)


def test_a_picture_after_others_is_that_of_the_answer_alone() -> None:
    """Answers in which something else changes each time: what a job holds, what is kept, unfit or idle, colours, nodes."""
    first, moved, kept, none, renamed = (overview(sequence) for sequence in range(5))
    moved["devices"]["shares"]["device"] = [1]
    kept["devices"] |= {"used": [GPU, 0, 0, 0], "kept": [0, GPU, 0, 0], "unfit": ["", "", "XID 79", ""]}
    none["queues"] = []
    renamed["nodes"] |= {"name": ["n1", "n3"], "state": ["cordoned", "ready"]}
    renamed["devices"] |= {"node": [0, 1, 0, 1]}
    answers = [(one, idle) for one in (first, moved, kept, none, renamed, first) for idle in ((0, 0, 0, 0), (1, 1, 0, 0))]
    pictures = Pictures()
    found = [pictures.of(read(answer), loads(*idle)) for answer, idle in answers]
    alone: list[Picture] = [picture_of(read(answer), loads(*idle)) for answer, idle in answers]
    assert found == alone
    assert found[0].nodes != found[2].nodes != found[4].nodes


def test_a_part_is_decoded_again_only_if_its_bytes_are_others() -> None:
    part = Part[list[int]](list[int])
    first = part.of(msgspec.Raw(b"[1,2]"))
    assert part.of(msgspec.Raw(b"[1,2]")) is first
    assert (part.of(msgspec.Raw(b"[3]")), part.of(msgspec.Raw())) == ([3], [])


def test_a_node_on_which_nothing_changed_is_the_same_as_before() -> None:
    pictures = Pictures()
    before = pictures.of(read(overview()))
    changed = overview()
    changed["devices"]["shares"]["device"] = [1]
    after = pictures.of(read(changed))
    assert (after.nodes[0] == before.nodes[0], after.nodes[1] is before.nodes[1]) == (False, True)

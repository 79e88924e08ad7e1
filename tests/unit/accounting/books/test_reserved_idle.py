from __future__ import annotations

from typing import Any

from headrace.accounting.books.books import Books
from headrace.contracts import facts as f
from headrace.contracts.documents.model import Pool
from headrace.contracts.facts.fact import DeviceShare, Ladder, Place
from tests.unit.accounting.conftest import GPU, SECOND, Story, Tables


def place(*gpus: int) -> Place:
    shares = tuple(DeviceShare(device=f"gpu{gpu}", units=GPU) for gpu in gpus)
    return Place(node="n1", devices=shares, amounts={"gpu": len(gpus) * GPU})


def idle_rows(tables: Tables) -> list[tuple[str, float, float | None, float]]:
    """(policy, since, until, GPUs), times in seconds."""
    rows = sorted(row for row in tables.kept.values() if row.key == "gpu")
    return [
        (row.policy, row.since / SECOND, None if row.until is None else row.until / SECOND, row.units / GPU) for row in rows
    ]


def grant(story: Story, at: float, key: str, *gpus: int, **more: Any) -> None:
    story.grant(at, key, len(gpus), devices=place(*gpus).devices, **more)


def preempting(story: Story) -> tuple[str, str, str]:
    """At 10 s a job takes four GPUs that two others hold, one each, and two that are free."""
    story.policy(0, "low", 0)
    story.policy(0, "high", 4)
    victims = [story.submit(1, number, "low", 1) for number in (1, 2)]
    for gpu, victim in enumerate(victims):
        grant(story, 2, victim, gpu)
        story.start(2, victim)
    preemptor = story.submit(9, 3, "high", 4)
    taken = tuple(f.preemption.Victim(job=victim, attempt=1, policy="low", lost=0) for victim in victims)
    ordered = f.PreemptionOrderedV1(
        preemption="p1", job=preemptor, pool="hq", cause="reclaim", victims=taken, places=(place(0, 1, 2, 3),), rule="R23"
    )
    story.append_facts(10, "allocator", ordered)
    return victims[0], victims[1], preemptor


def test_what_is_nominated_is_kept_as_soon_as_it_is_not_held_and_until_the_preemptor_does(
    story: Story, tables: Tables
) -> None:  # R27, R37
    first, second, preemptor = preempting(story)
    story.end(14, first)
    story.end(19, second, reported=20)
    grant(story, 25, preemptor, 0, 1, 2, 3)
    tables.settle(story.books)
    assert idle_rows(tables) == [("high", 10, 14, 2), ("high", 14, 20, 3), ("high", 20, 25, 4)]
    gpu_seconds = 2 * 4 + 3 * 6 + 4 * 5
    assert sum(sums[-2] for row, sums in tables.days.items() if row[8] == "gpu") == gpu_seconds * GPU * SECOND


def test_a_nomination_that_ends_keeps_nothing_more(story: Story, tables: Tables) -> None:  # R27
    _, _, preemptor = preempting(story)
    story.append_facts(30, "allocator", f.NominationEndedV1(preemption="p1", job=preemptor, why="it took too long"))
    tables.settle(story.books)
    assert idle_rows(tables) == [("high", 10, 30, 2)]


def test_the_new_place_of_a_suspended_job_is_kept_from_the_order_to_move_until_it_has_it(
    amended: Story, tables: Tables
) -> None:  # R29, R37
    """It is charged for no GPU meanwhile, and what was lost is what ran since its last checkpoint."""

    def stop(cause: str, then: str) -> f.StopOrderedV1:
        return f.StopOrderedV1(job=job, attempt=1, ladder=Ladder(cause=cause, callback_grace=0, term_grace=0, then=then))

    amended.policy(0, "low", 0)
    job = amended.submit(1, 1, "low", 1)
    grant(amended, 2, job, 0)
    amended.start(3, job)
    amended.append_facts(5, "allocator", stop("preempted", "suspend"))
    amended.append_facts(10, "node.n1", f.LeaseSuspendedV1(job=job, attempt=1, at=10 * SECOND))
    moved = f.MoveOrderedV1(job=job, attempt=1, pool="hq", places=(place(1),))
    amended.append_facts(20, "allocator", moved, stop("moved", "requeue"))
    amended.end(22, job)
    amended.append_facts(23, "allocator", f.JobRequeuedV1(job=job, attempt=1, cause="moved"))
    grant(amended, 24, job, 1, attempt=2)
    tables.settle(amended.books)

    assert idle_rows(tables) == [("low", 20, 24, 1)]
    assert [(row.since, row.until) for row in tables.suspensions.values()] == [(10 * SECOND, 22 * SECOND)]
    used = [(since, use.until) for (_, key, since), use in tables.usage.items() if key == "gpu"]
    lost = [(row["lost_from"], row["lost_until"]) for row in tables.leases.values() if row["lost_from"] is not None]
    assert (used, lost) == ([(3 * SECOND, 10 * SECOND)], [(3 * SECOND, 22 * SECOND)])


def test_what_is_kept_for_one_that_has_waited_long_is_what_is_free_of_its_places(story: Story, tables: Tables) -> None:  # R16
    story.policy(0, "low", 0)
    holder, waiter = story.submit(1, 1, "low", 1), story.submit(1, 2, "low", 2)
    grant(story, 2, holder, 0)
    story.append_facts(5, "allocator", f.HoldPlacedV1(job=waiter, pool="hq", places=(place(0, 1),)))
    story.end(8, holder)
    story.append_facts(12, "allocator", f.HoldLiftedV1(job=waiter, pool="hq", why="it is its turn"))
    tables.settle(story.books)
    assert idle_rows(tables) == [("low", 5, 8, 1), ("low", 8, 12, 2)]


def test_on_a_node_that_is_lost_nothing_is_kept(story: Story, tables: Tables) -> None:
    preempting(story)
    story.append_facts(12, "preemption", f.NodeLostV1(node="n1", silent_for=SECOND))
    tables.settle(story.books)
    assert idle_rows(tables) == [("high", 10, 12, 2)]


def test_on_a_node_that_leaves_with_its_instance_nothing_is_kept(amended: Story, tables: Tables) -> None:  # R38
    preempting(amended)
    offer = f.provisioning.OfferTaken(name="default")
    order = {"instance": "n1", "pool": "hq", "provider": "local", "offer": offer, "token": "t", "expires": 1}
    amended.append_facts(11, "provisioner", f.InstanceOrderedV1(**order))
    amended.append_facts(12, "provisioner", f.InstanceEndedV1(instance="n1", cause="vanished", at=12 * SECOND))
    tables.settle(amended.books)
    assert idle_rows(tables) == [("high", 10, 12, 2)]


def test_on_a_node_that_is_removed_nothing_is_kept(amended: Story, tables: Tables) -> None:  # R38
    preempting(amended)
    amended.append_facts(12, "governance", f.NodeRemovedV1(author="default.ann", node="n1"))
    tables.settle(amended.books)
    assert idle_rows(tables) == [("high", 10, 12, 2)]


def test_books_opened_again_go_on_with_what_is_kept(story: Story, tables: Tables) -> None:
    first, second, preemptor = preempting(story)
    tables.settle(story.books)
    assert idle_rows(tables) == [("high", 10, None, 2)]
    story.books = Books(story.ledger.state, tables.position)
    tables.restore(story.books, 0)
    story.end(14, first)
    story.end(14, second)
    grant(story, 15, preemptor, 0, 1, 2, 3)
    tables.settle(story.books)
    assert idle_rows(tables) == [("high", 10, 14, 2), ("high", 14, 15, 4)]


def test_a_key_of_the_pool_is_kept_as_far_as_no_job_in_the_pool_holds_it(story: Story, tables: Tables) -> None:  # R5, R37
    pool = Pool(name="hq", selector={"site": "hq"}, capacity={"license/abaqus": 3})
    story.append_facts(0, "governance", f.PoolAppliedV1(author="a.b", pool=pool))
    story.policy(0, "low", 0)
    holder, waiter, later = (story.submit(1, number, "low", 1) for number in (1, 2, 3))
    held = f.LeaseGrantedV1(
        job=holder,
        attempt=1,
        node="n1",
        pool="hq",
        devices=place(9).devices,
        amounts={"gpu": GPU, "license/abaqus": 2, "job": 1},
    )
    story.append_facts(2, "allocator", held)
    for at, key, gpu in ((5, waiter, 0), (6, later, 1)):
        amounts = {"gpu": GPU, "license/abaqus": 2, "job": 1}
        places = (Place(node="n1", devices=place(gpu).devices, amounts=amounts),)
        story.append_facts(at, "allocator", f.HoldPlacedV1(job=key, pool="hq", places=places))
    tables.settle(story.books)
    story.books = Books(story.ledger.state, tables.position)
    tables.restore(story.books, 0)
    story.end(8, holder)
    story.append_facts(12, "allocator", f.HoldLiftedV1(job=waiter, pool="hq", why="it is its turn"))
    tables.settle(story.books)
    rows = sorted(row for row in tables.kept.values() if row.key == "license/abaqus")
    second = [(row.job, row.since // SECOND, None if row.until is None else row.until // SECOND, row.units) for row in rows]
    assert second == [(waiter, 5, 8, 1), (waiter, 8, 12, 2), (later, 8, 12, 1), (later, 12, None, 2)]
    assert {row.node for row in rows} == {"n1"}

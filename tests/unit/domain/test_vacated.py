"""Where a preemptor would go once others have left (R26)."""

from headrace.contracts.amounts import JOB
from headrace.contracts.facts.fact import Place
from headrace.domain.vacated import leaving_anyway, places_without
from tests.unit.domain.hall import Hall, gpus, shares


def full(size=4, replicas=1):
    hall = Hall(nodes=2, devices=4)
    hall.policy("lender", size=2)
    hall.policy("owner", reservation=8, size=size, replicas=replicas)
    victims = [hall.run("lender", f"v{number}", (f"n{1 + number // 2}", 2 * (number % 2), 2)) for number in range(4)]
    return hall, victims, hall.admit("owner", "o")


def places(hall, job, gone):
    return places_without(hall.state, job, hall.pool, gone, list(hall.state.nodes.values()))


def test_nothing_fits_while_nobody_has_left_and_sums_alone_do_not_do():
    hall, (first, _, third, _), job = full()
    assert places(hall, job, []) is None
    assert places(hall, job, [first, third]) is None


def test_both_of_one_node_make_room_there():
    hall, (_, _, third, fourth), job = full()
    assert places(hall, job, [third, fourth]) == (Place(node="n2", devices=shares(0, 4), amounts=gpus(4) | {JOB: 1}),)


def test_a_gang_takes_what_several_nodes_give():
    hall, (first, _, third, _), job = full(size=2, replicas=2)
    assert places(hall, job, [first, third]) == (
        Place(node="n1", devices=shares(0, 2), amounts=gpus(2) | {JOB: 1}),
        Place(node="n2", devices=shares(0, 2), amounts=gpus(2)),
    )


def test_who_leaves_anyway_is_counted_on_until_it_is_overdue():
    hall, (first, second, *_), job = full()
    hall.stop(first)
    assert [lease.job for lease in leaving_anyway(hall.state.nodes["n1"])] == [first]
    assert places(hall, job, [second])[0].node == "n1"
    first.leases[0].overdue = True
    assert places(hall, job, [second]) is None


def test_what_is_kept_for_another_is_not_there():
    hall, (first, second, *_), job = full()
    hall.order(hall.admit("owner", "other"), [first, second], ("n1", 0, 4))
    assert places(hall, job, [first, second]) is None

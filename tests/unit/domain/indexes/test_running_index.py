"""R24, R25: jobs that might yield stand in the order of their grants, and nobody is passed over."""

from headrace.contracts import facts as f
from headrace.domain.indexes import running_index
from headrace.domain.indexes.running_index import Shelf, shelves_of
from tests.unit.domain.hall import Hall


def standing(policy):
    """(grant, job, since, site) of each, by pool and request."""
    return {
        (pool, request.order): [
            row
            for block in shelf.blocks
            for row in zip(block.grants, [job.key for job in block.jobs], block.sinces, block.sites, strict=True)
        ]
        for pool, there in shelves_of(policy).by_pool.items()
        for request, shelf in there.items()
    }


def anew(policy):
    """The same, made from the policy's jobs as they are now."""
    kept, policy.shelves = policy.shelves, None
    found = standing(policy)
    policy.shelves = kept
    return found


def lending(jobs=4):
    hall = Hall(devices=jobs)
    hall.policy("lender", size=1)
    policy = hall.state.policies["acme", "lender"]
    shelves_of(policy)
    return hall, policy, [hall.run("lender", f"v{number}", ("n1", number, 1)) for number in range(jobs)]


def test_nothing_is_kept_of_a_policy_of_which_nobody_has_asked():
    hall = Hall(devices=1)
    hall.policy("lender", size=1)
    hall.run("lender", "v", ("n1", 0, 1))
    assert hall.state.policies["acme", "lender"].shelves is None


def test_what_is_kept_is_what_would_be_made_anew():
    hall, policy, (first, saved, ended, stopped) = lending()
    assert standing(policy) == anew(policy)
    hall.later(5)
    hall.say("node.n1", f.CheckpointRegisteredV1(job=saved.key, attempt=1, uri="u", at=hall.now))
    hall.end(ended)
    assert standing(policy) == anew(policy)
    (rows,) = standing(policy).values()
    assert [row[1:] for row in rows] == [
        (first.key, first.started_at, "n1"),
        (saved.key, hall.now, "n1"),
        (stopped.key, stopped.started_at, "n1"),
    ]


def test_a_job_that_has_not_started_has_nothing_to_lose_and_one_that_may_not_yield_stands_nowhere():
    hall, policy, (_, *others) = lending(2)
    for job in others:
        hall.end(job)
    waiting = hall.admit("lender", "w")
    hall.grant(waiting, ("n1", 1, 1))
    (rows,) = standing(policy).values()
    assert rows[-1][1:] == (waiting.key, running_index.NOTHING_YET, "n1")
    waiting.preemptible = False
    running_index.shelve(waiting)
    assert standing(policy) == anew(policy)
    assert running_index.may_yield(waiting) is False


def test_it_is_known_who_stands_alone_on_one_node_with_all_that_its_request_asks_for():
    hall = Hall(nodes=2, devices=2)
    hall.policy("gang", size=1, replicas=2)
    hall.policy("lender", size=1)
    gang = hall.run("gang", "g", ("n1", 0, 1), ("n2", 0, 1))
    alone, other = (hall.run("lender", name, (name, 1, 1)) for name in ("n1", "n2"))
    other.leases[0].amounts = {}
    assert [running_index.site_of(job) for job in (gang, alone, other)] == ["", "n1", ""]


def test_it_is_known_who_has_a_minimum_run_time_of_its_own_also_when_a_block_is_cut(monkeypatch):  # R29
    monkeypatch.setattr(running_index, "BLOCK_MAX", 4)
    _, _, (free, guarded) = lending(2)
    guarded.min_runtime = 1
    shelf = Shelf()
    for grant in range(12):
        shelf.put(grant, guarded if grant % 3 else free)
    assert [sorted(block.guarded) for block in shelf.blocks] == [
        [grant for grant in block.grants if grant % 3] for block in shelf.blocks
    ]
    shelf.put(1, free)
    shelf.drop(2)
    assert set().union(*(block.guarded for block in shelf.blocks)) == {4, 5, 7, 8, 10, 11}


def test_blocks_stay_short_in_order_and_are_never_empty(monkeypatch):
    monkeypatch.setattr(running_index, "BLOCK_MAX", 4)
    _, _, jobs = lending(1)
    shelf, grants = Shelf(), [number * 7 % 30 for number in range(30)]
    for grant in grants:
        shelf.put(grant, jobs[0])
    assert [grant for block in shelf.blocks for grant in block.grants] == sorted(grants)
    assert max(len(block.jobs) for block in shelf.blocks) <= 4
    assert {block.span for block in shelf.blocks} == {(jobs[0].started_at, jobs[0].started_at)}
    for grant in grants[:-1]:
        shelf.drop(grant)
    assert [list(block.grants) for block in shelf.blocks] == [grants[-1:]]
    shelf.drop(grants[-1])
    assert shelf.blocks == []

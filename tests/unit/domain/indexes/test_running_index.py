"""R24, R25: jobs that might yield stand in the order of their grants, and no job is passed over."""

from headrace.contracts import facts as f
from headrace.domain.indexes import running_index
from headrace.domain.indexes.running_index import RequestBucket, note_running
from tests.unit.domain.hall import Hall


def rows_of(index):
    """(grant, job, since, site) of each, by pool and request."""
    return {
        (pool, request.order): [
            row
            for block in bucket.blocks
            for row in zip(block.grants, [job.key for job in block.jobs], block.sinces, block.sites, strict=True)
        ]
        for pool, there in index.by_pool.items()
        for request, bucket in there.items()
    }


def standing(hall, policy):
    """The rows that the state keeps of a policy."""
    return rows_of(hall.state.jobs_that_may_yield()[policy])


def anew(policy):
    """The same, made from the policy's jobs as they are now."""
    running = {}
    for job in policy.jobs.values():
        note_running(running, job)
    return rows_of(running[policy])


def lending(jobs=4):
    hall = Hall(devices=jobs)
    hall.policy("lender", size=1)
    policy = hall.state.policies["acme", "lender"]
    return hall, policy, [hall.run("lender", f"v{number}", ("n1", number, 1)) for number in range(jobs)]


def test_a_policy_has_an_index_while_a_job_of_it_might_yield():
    hall = Hall(devices=1)
    hall.policy("lender", size=1)
    seen = [dict(hall.state.jobs_that_may_yield())]
    job = hall.run("lender", "v", ("n1", 0, 1))
    seen.append({policy.key: rows_of(index) != {} for policy, index in hall.state.jobs_that_may_yield().items()})
    hall.end(job)
    assert [*seen, hall.state.jobs_that_may_yield()] == [{}, {("acme", "lender"): True}, {}]


def test_what_is_kept_is_what_would_be_made_anew():
    hall, policy, (first, saved, ended, stopped) = lending()
    assert standing(hall, policy) == anew(policy)
    hall.later(5)
    hall.append_facts("node.n1", f.CheckpointRegisteredV1(job=saved.key, attempt=1, uri="u", at=hall.now))
    hall.end(ended)
    assert standing(hall, policy) == anew(policy)
    (rows,) = standing(hall, policy).values()
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
    (rows,) = standing(hall, policy).values()
    assert rows[-1][1:] == (waiting.key, running_index.NOTHING_YET, "n1")
    waiting.preemptible = False
    note_running(hall.state.jobs_that_may_yield(), waiting)
    assert standing(hall, policy) == anew(policy)
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
    bucket = RequestBucket()
    for grant in range(12):
        bucket.put(grant, guarded if grant % 3 else free)
    assert [sorted(block.guarded) for block in bucket.blocks] == [
        [grant for grant in block.grants if grant % 3] for block in bucket.blocks
    ]
    bucket.put(1, free)
    bucket.drop(2)
    assert set().union(*(block.guarded for block in bucket.blocks)) == {4, 5, 7, 8, 10, 11}


def test_blocks_stay_short_in_order_and_are_never_empty(monkeypatch):
    monkeypatch.setattr(running_index, "BLOCK_MAX", 4)
    _, _, jobs = lending(1)
    bucket, grants = RequestBucket(), [number * 7 % 30 for number in range(30)]
    for grant in grants:
        bucket.put(grant, jobs[0])
    assert [grant for block in bucket.blocks for grant in block.grants] == sorted(grants)
    assert max(len(block.jobs) for block in bucket.blocks) <= 4
    assert {block.span for block in bucket.blocks} == {(jobs[0].started_at, jobs[0].started_at)}
    for grant in grants[:-1]:
        bucket.drop(grant)
    assert [list(block.grants) for block in bucket.blocks] == [grants[-1:]]
    bucket.drop(grants[-1])
    assert bucket.blocks == []


def test_a_job_that_was_never_read_has_no_place_in_the_index():
    hall, policy, (first, *others) = lending(3)
    for job in others:
        hall.end(job)
    index = hall.state.jobs_that_may_yield()[policy]
    assert ([row[1] for row in next(iter(rows_of(index).values()))], index.is_empty) == ([first.key], False)
    index.put(first)  # as it is now: it stands once
    assert [len(rows) for rows in rows_of(index).values()] == [1]
    index.drop(first)
    assert (rows_of(index), index.is_empty) == ({}, True)


def test_the_index_is_built_at_the_first_query_and_kept_from_then_on():
    hall, policy, (_, ended) = lending(2)
    assert hall.state.running is None
    assert standing(hall, policy) == anew(policy)
    hall.end(ended)
    assert standing(hall, policy) == anew(policy)

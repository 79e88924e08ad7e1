"""R15's order is composed in one place: `ranking` joins its parts, and `place_in_line` is the part that orders one group's jobs."""

from __future__ import annotations

import ast

from tests.architecture.tree import parsed, sources

RANKING = "services/headrace/domain/queueing/ranking.py"
ORDERING = tuple(
    f"services/headrace/{name}/" for name in ("admission", "allocator", "domain", "feed", "preemption", "simulate", "views")
)
PENDING = "services/headrace/domain/indexes/pending.py"


def orders(tree: ast.AST) -> set[str]:
    """What a module's tuples join by themselves: jobs by age, or the ranks of a group and of a job."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Tuple):
            fields = {part.attr for one in node.elts for part in ast.walk(one) if isinstance(part, ast.Attribute)}
            starred = [ast.unparse(part.value).rpartition(".")[2] for part in node.elts if isinstance(part, ast.Starred)]
            if {"admitted_at", "order"} <= fields:
                found.add("age")
            places = [part for part in starred if part == "place" or part.startswith("place_in_line(")]
            if "static" in starred or (places and len(starred) > 1):
                found.add("rank")
    return found


def test_nothing_but_ranking_and_the_line_of_pending_jobs_composes_the_order():
    composing = {path: found for path in sources() if path.startswith(ORDERING) and (found := orders(parsed(path)))}

    assert composing == {PENDING: {"age"}, RANKING: {"rank"}}


def test_an_order_of_ones_own_is_found():
    age = "key = (-job.priority, job.last_since or job.admitted_at, job.order, job.key)"
    rank = "key = (*compose(static, share), *place_in_line(job))"

    assert [orders(ast.parse(text)) for text in (age, rank, "pair = (job, *places)")] == [{"age"}, {"rank"}, set()]

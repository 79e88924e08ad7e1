from __future__ import annotations

from headrace.contracts import facts as f
from headrace.domain.known_ids import known_digest
from tests.unit.domain.hall import Hall


def test_an_id_is_known_by_what_was_first_submitted_under_it_admitted_or_not():
    hall = Hall()
    hall.policy("p")
    job = hall.admit("p", "j")
    job.digest = "a"
    hall.say("admission", f.JobRejectedV1(job="acme.u.k", policy="p", profile="p", reason="TOO_FAST", message="m", digest="b"))
    assert [known_digest(hall.state, key) for key in (job.key, "acme.u.k", "acme.u.l")] == ["a", "b", None]

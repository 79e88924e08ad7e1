from __future__ import annotations

import msgspec

from headrace.client.submissions import make_submission
from headrace.contracts.transport.digests import submission_digest

SUBMISSION = make_submission(["python", "train.py"], id="01jd3v8k5w2m4x6z8b0c2e4g6h", trace="")


def test_the_digest_names_the_content_and_the_queue():
    changes = ({}, {"name": "x"}, {"retries": 1}, {"command": ("y",)}, {"env": {"A": "1"}})
    digests = {submission_digest("ml", "two", msgspec.structs.replace(SUBMISSION, **change)) for change in changes}
    assert len(digests | {submission_digest("ml", "one", SUBMISSION), submission_digest("nl", "two", SUBMISSION)}) == 7
    assert all(len(digest) == 16 for digest in digests)


def test_the_trace_and_the_member_it_is_for_are_not_content():
    changed = msgspec.structs.replace(SUBMISSION, on_behalf_of="ann", trace="00-ab-cd-01")
    assert submission_digest("ml", "two", changed) == submission_digest("ml", "two", SUBMISSION)


def test_a_dependency_has_one_digest_with_its_default_written_or_left_out():
    other = "01jd3v8k5w2m4x6z8b0c2e4g6j"
    digests = {
        submission_digest("ml", "two", make_submission(["true"], id=SUBMISSION.id, trace="", after=[after]))
        for after in (other, f"{other}:ok", f"acme.ann.{other}:ok")
    }
    any_end = make_submission(["true"], id=SUBMISSION.id, trace="", after=[f"{other}:any"])
    assert len(digests) == 1
    assert submission_digest("ml", "two", any_end) not in digests

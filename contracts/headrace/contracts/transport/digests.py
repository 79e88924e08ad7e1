"""Digests: of the content submitted under an id, which detects the same id with other content (R14), and of texts."""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING

from headrace.contracts.transport.encoding import encode

if TYPE_CHECKING:
    from headrace.contracts.messages.submissions import JobSubmission

_NO_CONTENT = frozenset({"trace", "on_behalf_of"})
"""Fields that are not content: the trace, and the owner, who is part of the job's key."""


def text_digest(text: str) -> str:
    """32 hexadecimal digits over a text."""
    return blake2b(text.encode(), digest_size=16).hexdigest()


def submission_digest(policy: str, profile: str, submission: JobSubmission) -> str:
    """16 hexadecimal digits over the queue and the content of a job as submitted."""
    content = tuple(_content(submission, name) for name in submission.__struct_fields__ if name not in _NO_CONTENT)
    if not submission.array:
        content = content[:-1]  # as before there were arrays
    return blake2b(encode((policy, profile, *content)), digest_size=8).hexdigest()


def _content(submission: JobSubmission, name: str) -> object:
    """A field as it is digested: a dependency always with its `when`, because a default is encoded or not by how it was written."""
    if name == "after":
        return [{"job": one.job, "when": one.when} for one in submission.after]
    return getattr(submission, name)

"""What a client knows of a job that it has submitted."""

from __future__ import annotations

from typing import NamedTuple

from headrace.contracts.values.ids import JobKey


class SubmittedJob(NamedTuple):
    """A job that is durably submitted. `id` is its ULID, `key` its full name, `<tenant>.<user>.<id>`.

    `digest` identifies the submitted content: a query with it tells whether the id belongs to another job (R14).
    """

    id: str
    key: JobKey
    digest: str = ""

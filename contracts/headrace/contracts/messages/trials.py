"""Whether submissions would be admitted, asked of *admission* before they are published (`headrace submit --dry-run`)."""

from __future__ import annotations

import msgspec

from headrace.contracts.values.value import Value


class TrialRequest(Value, frozen=True, kw_only=True):
    """To *admission* `judge`: what would result from this message, if it were published on this subject of SUBMIT."""

    subject: str
    message: msgspec.Raw


class Verdict(Value, frozen=True, kw_only=True):
    """What would result from one submission: `job` is its key; without a `reason` it would be admitted, or is a job already.

    `message` says why it would be rejected, or what the GPU memory that it asks for is of each GPU model (R42).
    """

    job: str
    reason: str = ""
    message: str = ""


class TrialAnswer(Value, frozen=True, kw_only=True):
    """One verdict for each submission, in order. `costs`: what nodes would cost that are created for those that are admitted, in lines."""

    verdicts: tuple[Verdict, ...]
    costs: tuple[str, ...] = ()

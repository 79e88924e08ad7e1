"""Whether so little storage is left that no more jobs are admitted: a floor is kept for those that write what already is. Pure.

NATS refuses every writer alike when a server's storage is used up, the deciders and the cure included. So new work is refused before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.contracts import facts as f
from headrace.contracts.messages.queries import ApplyAnswer
from headrace.governance.decide import Decision

if TYPE_CHECKING:
    from headrace.contracts.messages.tokens import StorageReport
    from headrace.domain.model.state import State
    from headrace.governance.decide import Wish

SCARCE_FROM, AMPLE_BELOW = 90, 85
"""Percent of a server's storage."""
GIB = 1024**3


def is_scarce(report: StorageReport, *, was: bool) -> bool:
    """Whether it is now; between the two bounds it stays as it was."""
    if report.limit <= 0:
        return False
    return 100 * report.used >= (AMPLE_BELOW if was else SCARCE_FROM) * report.limit


def reporting(report: StorageReport) -> Wish:
    """The wish that it be known how much is left; nothing where that is known."""

    def wish(state: State, _now: int) -> Decision:
        answer = ApplyAnswer(changes=(), applied=True)
        scarce = is_scarce(report, was=state.terms.scarce)
        if not state.terms.amended or scarce == state.terms.scarce:
            return Decision(answer)
        return Decision(answer, (f.StorageStatedV1(scarce=scarce, used=report.used, limit=report.limit),))

    return wish


def trouble(state: State, report: StorageReport | None) -> str:
    """What is said in the status while it is scarce, with the way out; empty where it is not."""
    if not state.terms.scarce:
        return ""
    much = f"{report.used / GIB:.1f} of {report.limit / GIB:.1f} GiB" if report is not None else f"more than {SCARCE_FROM} %"
    return (
        f"the streams take {much} of a NATS server's storage: no job is admitted until it is below {AMPLE_BELOW} %; make room with "
        "`headrace audit export`, `headrace archive check` and `headrace archive purge --keep 30d`, or give the server a larger disk"
    )

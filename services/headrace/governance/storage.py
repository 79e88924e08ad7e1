"""Admission stops while storage is scarce: a reserve is kept for the services that write about admitted jobs. Pure.

NATS refuses every writer alike when a server's storage is used up, including those that free it. So new work is refused earlier.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.contracts import facts as f
from headrace.contracts.messages.queries import ApplyAnswer
from headrace.governance.decide import Decision

if TYPE_CHECKING:
    from headrace.contracts.messages.tokens import StorageReport
    from headrace.domain.state.state import State
    from headrace.governance.decide import Operation

SCARCE_FROM, AMPLE_BELOW = 90, 85
"""Percent of a server's storage at which scarcity begins, and below which it ends."""
GIB = 1024**3


def is_scarce(report: StorageReport, *, was: bool) -> bool:
    """True if storage is scarce; between the two bounds, `was`."""
    if report.limit <= 0:
        return False
    return 100 * report.used >= (AMPLE_BELOW if was else SCARCE_FROM) * report.limit


def reporting(report: StorageReport) -> Operation:
    """Operation that states whether storage is scarce; without effect if that is stated already."""

    def operation(state: State, _now: int) -> Decision:
        answer = ApplyAnswer(changes=(), applied=True)
        scarce = is_scarce(report, was=state.terms.scarce)
        if not state.terms.amended or scarce == state.terms.scarce:
            return Decision(answer)
        return Decision(answer, (f.StorageStatedV1(scarce=scarce, used=report.used, limit=report.limit),))

    return operation


def trouble(state: State, report: StorageReport | None) -> str:
    """Status text while storage is scarce, with the way out; otherwise empty."""
    if not state.terms.scarce:
        return ""
    much = f"{report.used / GIB:.1f} of {report.limit / GIB:.1f} GiB" if report is not None else f"more than {SCARCE_FROM} %"
    return (
        f"the streams take {much} of a NATS server's storage: no job is admitted until it is below {AMPLE_BELOW} %; make room with "
        "`headrace audit export`, `headrace archive check` and `headrace archive purge --keep 30d`, or give the server a larger disk"
    )

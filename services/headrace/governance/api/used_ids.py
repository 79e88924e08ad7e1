"""Job ids in use: the same id is the same job; with other content it is refused (R14).

Strategy: admission decides, but the API's caller does not see its refusal. So an id is compared with the fold's before anything is stored,
and once more afterwards, because another caller may have been first. Ids that this process is submitting and that admission has not judged
are remembered, so that of two concurrent requests the second is refused as well.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from grpc import StatusCode

from headrace.contracts.values.reasons import REJECT_SENTENCES, RejectReason
from headrace.domain.state.used_ids import ID_OF_ANOTHER, is_of_another, known_digest
from headrace.governance.api.errors import ApiError, Violation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from headrace.domain.state.state import State


class _Claim(NamedTuple):
    """An id that is being submitted. `key`: the job's; `sequence`: of its message in SUBMIT; 0 until it is stored."""

    key: str
    digest: str
    sequence: int = 0


class UsedIds:
    """Ids with the digests of their submissions: those of the fold, and those being submitted."""

    def __init__(self) -> None:
        self._claims: dict[str, _Claim] = {}

    @contextmanager
    def claim(self, keys: Sequence[str], digests: Sequence[str], state: State) -> Iterator[Callable[[int], None]]:
        """Reserve these jobs' ids while they are being stored. Yields a function that takes the sequence in SUBMIT once they are.

        Raises ApiError (`ID_REUSED`) if one of them belongs to another job; then nothing has been stored.
        """
        self._forget(state.judged)
        before: dict[str, _Claim] = {}
        for index, (key, digest) in enumerate(zip(keys, digests, strict=True)):
            name = _name(state, key)
            claimed = self._claims.get(name) or before.get(name)
            known = known_digest(state, key) or (claimed.digest if claimed is not None else None)
            _compare(state, index, key, digest, known, anothers=claimed is not None and claimed.key != key)
            before[name] = _Claim(key, digest)
        fresh = {name: claim for name, claim in before.items() if name not in self._claims}
        self._claims |= fresh

        def stored(sequence: int) -> None:
            self._claims |= {name: claim._replace(sequence=sequence) for name, claim in fresh.items()}

        try:
            yield stored
        except BaseException:
            for name in fresh:
                self._claims.pop(name, None)
            raise

    def check(self, keys: Sequence[str], digests: Sequence[str], state: State) -> None:
        """Raise ApiError (`ID_REUSED`) if one of these ids has been judged to belong to another job meanwhile."""
        for index, (key, digest) in enumerate(zip(keys, digests, strict=True)):
            _compare(state, index, key, digest, known_digest(state, key))

    def _forget(self, judged: int) -> None:
        """Remove ids that admission has judged: the fold knows them, or counted them as excess refusals."""
        while self._claims:  # in the order of their insertion
            name, claim = next(iter(self._claims.items()))
            if not 0 < claim.sequence <= judged:
                return
            del self._claims[name]


def _name(state: State, key: str) -> str:
    """Scope and id: ids are unique in the tenant; below level 2, per user."""
    tenant, _, job_id = key.split(".")
    return f"{tenant}.{job_id}" if state.terms.amended else key


def _compare(state: State, index: int, key: str, digest: str, known: str | None, *, anothers: bool = False) -> None:
    if anothers or is_of_another(state, key):
        why = ID_OF_ANOTHER
    elif known is not None and known != digest:
        why = REJECT_SENTENCES[RejectReason.ID_REUSED]
    else:
        return
    message, field = f"{key.rpartition('.')[2]}: {why}", f"jobs[{index}].id"
    raise ApiError(StatusCode.ALREADY_EXISTS, RejectReason.ID_REUSED, f"{field}: {message}", Violation(field, message))

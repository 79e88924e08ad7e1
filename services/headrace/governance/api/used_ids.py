"""The same id is the same job; with other content it is refused, and the caller is told (R14).

Strategy: admission decides, but says so where the caller does not look. So an id is compared with what the fold knows before anything is
stored, and once more behind it, because somebody else may have been first. What this process has under way and admission has not judged is
remembered, so that of two requests at the same time the second one is told as well.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from grpc import StatusCode

from headrace.contracts.values.reasons import REJECT_SENTENCES, RejectReason
from headrace.domain.model.used_ids import ID_OF_ANOTHER, is_of_another, known_digest
from headrace.governance.api.errors import ApiError, Violation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from headrace.domain.model.state import State


class _Claim(NamedTuple):
    """An id that is being submitted. `key`: the job's; `sequence`: of SUBMIT, by which it is stored; 0 until it is."""

    key: str
    digest: str
    sequence: int = 0


class UsedIds:
    """Ids with what was submitted under them: those of the fold, and those under way."""

    def __init__(self) -> None:
        self._claims: dict[str, _Claim] = {}

    @contextmanager
    def claim(self, keys: Sequence[str], digests: Sequence[str], state: State) -> Iterator[Callable[[int], None]]:
        """Hold these jobs' ids while they are being stored; what is yielded takes the sequence in SUBMIT by which they are.

        Raises `ApiError` (`ID_REUSED`) where any of them is another job's, and then nothing has been stored.
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
        """Raises `ApiError` (`ID_REUSED`) where one of these ids has been judged to be another job's meanwhile."""
        for index, (key, digest) in enumerate(zip(keys, digests, strict=True)):
            _compare(state, index, key, digest, known_digest(state, key))

    def _forget(self, judged: int) -> None:
        """Forget those that admission has judged: the fold knows them, or counted them in a flood of refusals."""
        while self._claims:  # the oldest stand first
            name, claim = next(iter(self._claims.items()))
            if not 0 < claim.sequence <= judged:
                return
            del self._claims[name]


def _name(state: State, key: str) -> str:
    """Under what an id is held: in its tenant; below level 2 each user has ids of their own."""
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

"""Answers requests for the output of a job (`hr.logs.<node>`)."""

from __future__ import annotations

import os

from headrace.contracts.messages.orders import LogsRequest
from headrace.contracts.messages.queries import LogsAnswer
from headrace.contracts.values.ids import IdError, split_job_key
from headrace.node_executor.files.workspace import Workspace
from headrace.node_executor.runtimes.job_log import MARK, pieces

PIECE_MAX = 1024 * 1024
"""Maximum bytes of output in one answer; even with every byte escaped in JSON, the answer stays below the maximum message of the bus."""


def read_log(workspace: Workspace, request: LogsRequest, *, alive: bool) -> LogsAnswer:
    """Return the requested piece of a job's output. `alive`: the replica still runs here, so more may come.

    A character that the end of the piece would cut in two is left for the next one.
    """
    try:
        split_job_key(request.job)
    except IdError as error:
        return LogsAnswer(ended=True, error=str(error))
    offset = max(0, request.offset)
    limit = min(max(1, request.limit), PIECE_MAX)
    parts = pieces(workspace.log(request.job, request.attempt, request.rank))
    which = max(number for number, (start, _) in enumerate(parts) if start <= offset)
    try:
        data, size = _read(parts[which], offset, limit)
        skipped = 0
        if offset >= size and which + 1 < len(parts):  # the pieces between the head and the end were dropped
            which += 1
            skipped, offset = parts[which][0] - offset, parts[which][0]
            data, size = _read(parts[which], offset, limit)
    except FileNotFoundError:
        return LogsAnswer(next_offset=offset, ended=not alive)
    except OSError as error:
        return LogsAnswer(next_offset=offset, ended=True, error=f"the output cannot be read: {error.strerror}")
    last = which + 1 == len(parts)
    if alive or not last or offset + len(data) < size:
        data = _whole_characters(data)
    end = offset + len(data)
    text = data.decode("utf-8", "replace")
    if skipped:
        text = f"\n{MARK}{skipped} bytes in between were dropped\n{text}"
    return LogsAnswer(data=text, next_offset=end, ended=not alive and last and end >= size)


def _read(piece: tuple[int, str], offset: int, limit: int) -> tuple[bytes, int]:
    """Return the log from `offset` and the offset of its end, both counted from the beginning of the whole output. Raises `OSError`."""
    start, path = piece
    with open(path, "rb") as file:
        size = start + file.seek(0, os.SEEK_END)
        file.seek(offset - start)
        return file.read(limit), size


def _whole_characters(data: bytes) -> bytes:
    """Return the data without an incomplete UTF-8 character at its end, unless that is all of it."""
    for back in range(1, min(4, len(data)) + 1):
        byte = data[-back]
        if byte >= 0xC0:
            needed = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return data[:-back] if needed > back and back < len(data) else data
        if byte < 0x80:
            return data
    return data

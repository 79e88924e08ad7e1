"""Calls of the owner while the gateway is away: straight to *governance*, which is run for as long as the call takes if it is away too.

Strategy: *governance* is the only writer of its facts, also here. Its own socket is asked first. If it does not answer there, it is run
once more as a process of its own; if the supervisor's instance comes back meanwhile, one of the two loses its next append and starts
again (decision 9).
"""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
from google.protobuf.json_format import MessageToDict, ParseDict
from google.protobuf.message_factory import GetMessageClass
from google.rpc import error_details_pb2, status_pb2
from grpc_health.v1 import health_pb2, health_pb2_grpc

from headrace.client.errors import Refused, Unreachable
from headrace.contracts.facts.writers import GOVERNANCE
from headrace.contracts.schemas import protocol
from headrace.identity.owner import LOCAL
from headrace.supervisor.errors import InstallationError
from headrace.supervisor.installation import Installation
from headrace.supervisor.processes import process_specs
from headrace.supervisor.processes.pidfile import read_running

ANSWERS_WITHIN = 2.0
STARTS_WITHIN = 60.0
CALL_WITHIN = 30.0
LOOK_EVERY = 0.1
STOPS_WITHIN = 10.0
_DETAILS = "grpc-status-details-bin"


class DirectApi:
    """The API on the socket of *governance*, without the gateway. `password`: the owner's."""

    def __init__(self, socket: Path, password: str) -> None:
        self._channel = grpc.aio.insecure_channel(f"unix:{socket}")
        self._shown = (("authorization", f"Bearer {password}"), (LOCAL, "1"))

    async def close(self) -> None:
        await self._channel.close()

    async def answers(self) -> bool:
        """True if the API is served there now."""
        try:
            answer = await health_pb2_grpc.HealthStub(self._channel).Check(
                health_pb2.HealthCheckRequest(), timeout=ANSWERS_WITHIN
            )
        except grpc.aio.AioRpcError:
            return False
        return bool(answer.status == health_pb2.HealthCheckResponse.SERVING)

    async def call(self, method: str, request: Mapping[str, Any]) -> dict[str, Any]:
        """The answer of a method as JSON with the names of the protos. Raises Refused, Unreachable."""
        (found,) = (one for one in protocol.methods() if one.name == method)
        ask: Any = self._channel.unary_unary(
            protocol.path_of(found),
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=GetMessageClass(found.output_type).FromString,
        )
        message = ParseDict(dict(request), GetMessageClass(found.input_type)())
        try:
            answer = await ask(message, metadata=self._shown, timeout=CALL_WITHIN)
        except grpc.aio.AioRpcError as error:
            raise _refusal(error) from None
        reply: dict[str, Any] = MessageToDict(answer, preserving_proto_field_name=True)
        return reply


def _refusal(error: grpc.aio.AioRpcError) -> Refused | Unreachable:
    packed = next((value for key, value in error.trailing_metadata() or () if key == _DETAILS), None)
    if packed is None:
        return Unreachable(f"{GOVERNANCE} does not answer: {error.details()}")
    reason = "REFUSED"
    for detail in status_pb2.Status.FromString(packed).details:
        info = error_details_pb2.ErrorInfo()
        if detail.Unpack(info):
            reason = info.reason
    return Refused(reason, str(error.details()))


async def call(installation: Installation, method: str, request: Mapping[str, Any]) -> dict[str, Any]:
    """The answer of a method of the API to the owner of an installation that is up. Raises Refused, Unreachable, InstallationError."""
    async with _governance(installation) as api:
        return await api.call(method, request)


@asynccontextmanager
async def _governance(installation: Installation) -> AsyncIterator[DirectApi]:
    """The supervisor's *governance*, or one that is run until the block ends."""
    password = installation.owner().password
    api = DirectApi(installation.api_socket(), password)
    try:
        if await api.answers():
            yield api
            return
    finally:
        await api.close()
    with tempfile.TemporaryDirectory(prefix="headrace-") as folder:
        socket = Path(folder) / "once.sock"
        process, api = _start(installation, socket), DirectApi(socket, password)
        try:
            await _until_answers(api, process, installation)
            yield api
        finally:
            await api.close()
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                await asyncio.to_thread(process.wait, STOPS_WITHIN)
            process.kill()


def _log_of(installation: Installation) -> Path:
    return installation.logs / f"{GOVERNANCE}-once.log"


def _start(installation: Installation, socket: Path) -> subprocess.Popen[bytes]:
    running = read_running(installation)
    if running is None:
        raise InstallationError(f"Headrace is not up in {installation.directory}; `headrace up` starts it")
    program = process_specs.governance_once(installation, running.url, socket)
    path = _log_of(installation)
    path.touch(0o600)
    with path.open("ab") as log:
        return subprocess.Popen(program.argv, env=program.env, stdout=log, stderr=log, cwd=installation.directory)  # noqa: S603 - our own program


async def _until_answers(api: DirectApi, process: subprocess.Popen[bytes], installation: Installation) -> None:
    deadline = asyncio.get_running_loop().time() + STARTS_WITHIN
    while not await api.answers():
        ended = process.poll()
        if ended is not None or asyncio.get_running_loop().time() > deadline:
            why = "does not answer" if ended is None else f"ended with exit code {ended}"
            raise Unreachable(f"{GOVERNANCE} is away, and another instance of it {why}: more in {_log_of(installation)}")
        await asyncio.sleep(LOOK_EVERY)

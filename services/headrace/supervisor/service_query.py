"""What one service reports about itself, asked over NATS as the operator of the installation: this works without the API."""

from __future__ import annotations

from headrace.client import Client, HeadraceError, connect
from headrace.contracts.messages.queries import Answer, ServiceView
from headrace.contracts.transport import subjects
from headrace.contracts.transport.codec import Malformed, decode
from headrace.contracts.values.ids import DEFAULT_TENANT
from headrace.supervisor.installation import OPERATOR, Installation

ANSWER_WITHIN = 2.0


def operator_client(installation: Installation) -> Client:
    """Client with the operator's login, which only the account of the installation can read."""
    return connect(data=installation.directory, credentials=installation.credentials / f"{OPERATOR}.json")


async def ask_service(client: Client, name: str, within: float = ANSWER_WITHIN) -> ServiceView | None:
    """What a service reports to the operator; None if it does not answer in time; `within` in seconds."""
    subject = subjects.query(name, "status", DEFAULT_TENANT, OPERATOR)
    try:
        answer = decode(await client.ask(subject, within=within), Answer)
        return decode(bytes(answer.body), ServiceView)
    except (HeadraceError, Malformed):
        return None

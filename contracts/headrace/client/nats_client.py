"""A NATS client that reconnects when its permission has expired, and shows its token again."""

from __future__ import annotations

from nats import errors

from headrace.nats_client.reconnecting import ReturningClient

EXPIRED = "authentication expired"


class ReconnectingClient(ReturningClient):
    """A client that reconnects on an expired permission; nats-py itself would close for good."""

    async def _process_err(self, err_msg: str) -> None:
        if EXPIRED in err_msg.lower():
            await self._process_op_err(errors.StaleConnectionError())
        else:
            await super()._process_err(err_msg)

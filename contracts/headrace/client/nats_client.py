"""nats-py, told that a permission which has run out is no goodbye: whoever is let in for a while comes back and shows its token again."""

from __future__ import annotations

from nats import errors

from headrace.nats_client.reconnecting import ReturningClient

EXPIRED = "authentication expired"


class ReconnectingClient(ReturningClient):
    """The client of nats-py, which for its own part would close for good when the server says that the time is over."""

    async def _process_err(self, err_msg: str) -> None:
        if EXPIRED in err_msg.lower():
            await self._process_op_err(errors.StaleConnectionError())
        else:
            await super()._process_err(err_msg)

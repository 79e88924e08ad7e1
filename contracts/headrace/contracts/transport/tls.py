"""Whom to believe over TLS: the certificate authority that `HEADRACE_CA` names (a file), else those of this machine."""

from __future__ import annotations

import os
import ssl
from collections.abc import Mapping

CA = "HEADRACE_CA"
SECURE = "tls://"


class Distrust(ValueError):
    """The file of the authority cannot be used; one line with the way out."""


def trust(url: str, ca: str = "", environment: Mapping[str, str] = os.environ) -> ssl.SSLContext | None:
    """What a client needs for an address that begins with `tls://`; None for one that does not."""
    if not url.startswith(SECURE):
        return None
    file = environment.get(CA) or ca
    try:
        return ssl.create_default_context(cafile=file or None)
    except (OSError, ssl.SSLError) as error:
        raise Distrust(f"{CA}: {file} cannot be used as a certificate authority: {error}") from None

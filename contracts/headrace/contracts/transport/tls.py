"""The trusted certificate authorities: the file in `HEADRACE_CA`, else those of this machine."""

from __future__ import annotations

import os
import ssl
from collections.abc import Mapping

CA = "HEADRACE_CA"
SECURE = "tls://"


class CertificateError(ValueError):
    """The file of the certificate authority cannot be used; the text is one line with the way out."""


def tls_context(url: str, ca: str = "", environment: Mapping[str, str] = os.environ) -> ssl.SSLContext | None:
    """The TLS settings for an address that begins with `tls://`, else None. Raises CertificateError."""
    return trust_file(ca, environment) if url.startswith(SECURE) else None


def trust_file(ca: str = "", environment: Mapping[str, str] = os.environ) -> ssl.SSLContext:
    """The TLS settings for any address. Raises CertificateError."""
    file = environment.get(CA) or ca
    try:
        return ssl.create_default_context(cafile=file or None)
    except (OSError, ssl.SSLError) as error:
        raise CertificateError(f"{CA}: {file} cannot be used as a certificate authority: {error}") from None

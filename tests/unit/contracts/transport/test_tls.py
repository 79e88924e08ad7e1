"""Which addresses take TLS, and whom they believe."""

from __future__ import annotations

import ssl

import pytest

from headrace.contracts.transport.tls import CertificateError, tls_context
from headrace.supervisor.network.certificates import development


def test_an_address_without_tls_needs_no_certificate():
    assert tls_context("nats://127.0.0.1:4222", "/no/such/file", {}) is None


def test_an_address_with_tls_believes_only_who_is_named(tmp_path):
    ca = development(tmp_path, ["localhost"]).ca
    for context in (tls_context("tls://a:1", ca, {}), tls_context("tls://a:1", "", {"HEADRACE_CA": ca})):
        assert [dict(pair[0] for pair in one["subject"]) for one in context.get_ca_certs()] == [
            {"commonName": "Headrace development authority"}
        ]
        assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, True)


def test_without_a_name_the_machines_own_authorities_are_believed():
    assert tls_context("tls://a:1", "", {}).verify_mode is ssl.CERT_REQUIRED


@pytest.mark.parametrize("content", [None, b"", b"no certificate"])
def test_a_file_that_is_not_an_authority_is_named(tmp_path, content):
    file = tmp_path / "ca.pem"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(CertificateError, match=r"HEADRACE_CA: .*ca\.pem cannot be used as a certificate authority"):
        tls_context("tls://a:1", "", {"HEADRACE_CA": str(file)})

"""The development authority and what it certifies."""

from __future__ import annotations

import asyncio
import ssl
import stat
from contextlib import suppress
from pathlib import Path

import pytest
from cryptography import x509

from headrace.supervisor.network import certificates
from headrace.supervisor.network.certificates import development

NAMES = ["127.0.0.1", "localhost", "gpu01.example"]


def served(directory, names=NAMES):
    files = development(directory, names)
    return files, x509.load_pem_x509_certificate(Path(files.certificate).read_bytes())


def test_keys_are_their_owners_alone(tmp_path):
    files, _ = served(tmp_path / "tls")
    for name in ("ca.key", "server.key"):
        assert stat.S_IMODE((tmp_path / "tls" / name).stat().st_mode) == 0o600
    assert files.key == str(tmp_path / "tls" / "server.key")


def test_a_certificate_is_for_every_name_and_is_not_an_authority_itself(tmp_path):
    files, server = served(tmp_path)
    names = server.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert sorted(str(name.value) for name in names) == sorted(NAMES)
    assert server.extensions.get_extension_for_class(x509.BasicConstraints).value.ca is False
    server.verify_directly_issued_by(x509.load_pem_x509_certificate(Path(files.ca).read_bytes()))


def test_what_is_good_is_kept_and_another_name_is_certified_by_the_same_authority(tmp_path):
    files, first = served(tmp_path)
    authority = Path(files.ca).read_bytes()
    assert served(tmp_path, NAMES[:1])[1] == first
    _, second = served(tmp_path, [*NAMES, "other.example"])
    assert second != first
    assert Path(files.ca).read_bytes() == authority


@pytest.mark.parametrize("damaged", ["server.pem", "ca.pem"])
def test_what_is_damaged_or_about_to_end_is_made_anew(tmp_path, monkeypatch, damaged):
    _, first = served(tmp_path)
    (tmp_path / damaged).write_text("nothing")
    _, second = served(tmp_path)
    assert second != first
    monkeypatch.setattr(certificates, "RENEWED", certificates.SERVER_LIVES)
    assert served(tmp_path)[1] != second


async def test_a_client_believes_it_by_name_and_no_other_client_does(tmp_path):
    files, _ = served(tmp_path)
    own = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    own.load_cert_chain(files.certificate, files.key)

    async def greet(_reader, writer):
        with suppress(OSError):
            writer.write(b"hello")
            await writer.drain()
            writer.close()

    server = await asyncio.start_server(greet, "127.0.0.1", 0, ssl=own)
    port = server.sockets[0].getsockname()[1]
    believing, doubting = ssl.create_default_context(cafile=files.ca), ssl.create_default_context()

    async def served_text(context, name):
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context, server_hostname=name)
        received = await reader.read()
        writer.close()
        return received

    async with server:
        assert [await served_text(believing, name) for name in NAMES] == [b"hello"] * 3
        for context, name in ((believing, "evil.example"), (doubting, "localhost")):
            with pytest.raises(ssl.SSLCertVerificationError):
                await served_text(context, name)

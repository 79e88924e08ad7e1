"""Certificates for development: a private authority and a certificate for this machine, made once and renewed in time.

Files in the data directory: `tls/ca.pem` (give it to clients), `tls/ca.key`, `tls/server.pem`, `tls/server.key`; keys 0600. Trust this
authority only if you trust everyone who may read that directory; in production use your own certificates.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

AUTHORITY_LIVES = timedelta(days=3_650)
SERVER_LIVES = timedelta(days=397)
RENEWED = timedelta(days=30)
"""Time before its end at which a certificate is renewed."""


class Certificates(msgspec.Struct, frozen=True, kw_only=True):
    """Files: a server's certificate and key, and the authority that clients trust (empty: one that every machine knows)."""

    certificate: str
    key: str
    ca: str = ""


def development(directory: Path, names: Iterable[str]) -> Certificates:
    """Return the certificate for these names and addresses, made if the existing one does not cover all of them."""
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    wanted = sorted(set(names))
    files = Certificates(
        certificate=str(directory / "server.pem"), key=str(directory / "server.key"), ca=str(directory / "ca.pem")
    )
    now = datetime.now(UTC)
    if not _is_good(directory, wanted, now):
        authority, signing = _authority(directory, now)
        _certify(directory, authority, signing, wanted, now)
    return files


def _is_good(directory: Path, names: list[str], now: datetime) -> bool:
    try:
        authority = x509.load_pem_x509_certificate((directory / "ca.pem").read_bytes())
        server = x509.load_pem_x509_certificate((directory / "server.pem").read_bytes())
        server.verify_directly_issued_by(authority)
        held = server.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except Exception:  # noqa: BLE001 - whatever is wrong with what lies there, it is made anew
        return False
    has = {str(name.value) for name in held}
    ends = min(authority.not_valid_after_utc, server.not_valid_after_utc)
    return has.issuperset(names) and ends > now + RENEWED and (directory / "server.key").exists()


def _authority(directory: Path, now: datetime) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    """Return the existing authority if it is valid for a while, else a new one."""
    try:
        known = x509.load_pem_x509_certificate((directory / "ca.pem").read_bytes())
        key = load_pem_private_key((directory / "ca.key").read_bytes(), None)
        if isinstance(key, ec.EllipticCurvePrivateKey) and known.not_valid_after_utc > now + SERVER_LIVES:
            return known, key
    except (OSError, ValueError):
        pass
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Headrace development authority")])
    usage = x509.KeyUsage(
        digital_signature=False,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=True,
        crl_sign=True,
        encipher_only=False,
        decipher_only=False,
    )
    made = (
        _builder(name, name, key.public_key(), now, AUTHORITY_LIVES)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    _write_key(directory / "ca.key", key)
    (directory / "ca.pem").write_bytes(made.public_bytes(Encoding.PEM))
    return made, key


def _certify(
    directory: Path, authority: x509.Certificate, signing: ec.EllipticCurvePrivateKey, names: list[str], now: datetime
) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "headrace")])
    server = (
        _builder(subject, authority.subject, key.public_key(), now, SERVER_LIVES)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName([_named(name) for name in names]), critical=False)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signing.public_key()), critical=False)
        .sign(signing, hashes.SHA256())
    )
    _write_key(directory / "server.key", key)
    (directory / "server.pem").write_bytes(server.public_bytes(Encoding.PEM))


def _builder(
    subject: x509.Name, issuer: x509.Name, public: ec.EllipticCurvePublicKey, now: datetime, lives: timedelta
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=5))
        .not_valid_after(now + lives)
    )


def _named(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _write_key(path: Path, key: ec.EllipticCurvePrivateKey) -> None:
    path.touch(mode=0o600)
    path.chmod(0o600)
    path.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))

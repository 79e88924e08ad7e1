"""Options of `headrace up` for addresses and TLS certificates."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from headrace.cli.arguments import Failed
from headrace.supervisor.network.certificates import Certificates
from headrace.supervisor.network.ports import LOOPBACK, WILDCARDS

if TYPE_CHECKING:
    from headrace.cli.arguments import Parser
    from headrace.supervisor.installation import Settings


def add_listening(parser: Parser) -> None:
    """Add the options for the address, certificates, and whether others may log in although jobs can read everything."""
    secure = parser.add_mutually_exclusive_group()
    secure.add_argument(
        "--dev-ca", action="store_true", help="TLS with certificates of a private authority in DATA/tls, for development"
    )
    secure.add_argument("--tls-cert", metavar="FILE", help="TLS with this certificate; requires --tls-key")
    secure.add_argument("--no-tls", action="store_true", help="no TLS, and the loopback only, as by default")
    parser.add_argument("--tls-key", metavar="FILE", help="the certificate's key")
    parser.add_argument(
        "--tls-ca", metavar="FILE", help="the certificate authority that clients trust (default: those of their machine)"
    )
    parser.add_argument(
        "--listen", metavar="ADDRESS", help="where to listen (default: 127.0.0.1); other addresses than the loopback need TLS"
    )
    parser.add_argument(
        "--jobs-are-trusted",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="let other users log in (--listen, tokens, an OpenID provider) although all jobs here run under your account (default: no)",
    )
    parser.add_argument("--reached-as", metavar="NAME", help="the name in the URLs (default: 127.0.0.1)")


def listening(last: Settings, args: argparse.Namespace) -> Settings:
    """Settings with the address and TLS options applied. Raises `Failed` if it would listen beyond this machine without TLS."""
    if bool(args.tls_cert) != bool(args.tls_key):
        raise Failed("--tls-cert and --tls-key go together")
    settings = last
    if args.no_tls:
        settings = msgspec.structs.replace(last, tls=None, dev_ca=False, listen=LOOPBACK, reached_as=LOOPBACK)
    elif args.dev_ca:
        settings = msgspec.structs.replace(last, tls=None, dev_ca=True)
    elif args.tls_cert:
        files = {name: str(Path(file).absolute()) for name, file in _files(args).items()}
        for name, file in files.items():
            if not os.access(file, os.R_OK):
                raise Failed(f"--tls-{name}: {file} cannot be read")
        tls = Certificates(certificate=files["cert"], key=files["key"], ca=files.get("ca", ""))
        settings = msgspec.structs.replace(last, tls=tls, dev_ca=False)
    given = {name: getattr(args, name) for name in ("listen", "reached_as") if getattr(args, name) is not None}
    settings = msgspec.structs.replace(settings, **given)
    if settings.listen not in (LOOPBACK, *WILDCARDS):
        raise Failed(
            f"--listen: invalid address {settings.listen!r}: write {LOOPBACK}, or {' or '.join(sorted(WILDCARDS))} for every address"
        )
    if settings.listen != LOOPBACK and settings.tls is None and not settings.dev_ca:
        raise Failed(f"--listen: beyond {LOOPBACK} TLS is required: --tls-cert and --tls-key, or --dev-ca for development")
    return settings


def _files(args: argparse.Namespace) -> dict[str, str]:
    given = {"cert": args.tls_cert, "key": args.tls_key, "ca": args.tls_ca}
    return {name: file for name, file in given.items() if file}

"""Files of an installation that its parts read when they start. One that cannot be read keeps a part from coming back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from headrace.client.endpoint import read_endpoint, read_login
from headrace.client.errors import Unreachable
from headrace.identity.providers import ISSUERS, ProviderError, read_providers
from headrace.supervisor.errors import InstallationError
from headrace.supervisor.installation import Installation


def broken_files(installation: Installation) -> list[str]:
    """What is wrong with the files, one line each that names the file; empty if all of them can be read."""
    return list(_problems(installation))


def _problems(installation: Installation) -> Iterator[str]:
    try:
        tls = installation.settings().tls
    except InstallationError as error:
        yield str(error)
        tls = None
    for file in (tls.certificate, tls.key) if tls is not None else ():
        if not Path(file).is_file():
            yield f"{file} is missing, the certificate or the key that the installation was started with"
    try:
        read_endpoint(installation.directory)
    except Unreachable as error:
        yield f"{error}; `headrace up` writes it again"
    for path in sorted(installation.credentials.glob("*.json")):
        try:
            read_login(path)
        except Unreachable as error:
            yield f"{error}; put it back from a backup"
    try:
        read_providers(installation.directory / ISSUERS)
    except ProviderError as error:
        yield str(error)

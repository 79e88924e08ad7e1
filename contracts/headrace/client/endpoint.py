"""The address of the installation, and the login to use: two small files that `headrace up` writes, or the environment.

The data directory of an installation holds `endpoint.json` (the address, and the owner's login) and `credentials/`, one file per login.
`HEADRACE_URL` and `HEADRACE_CREDENTIALS` (the path of a login file) replace them, or `HEADRACE_TOKEN`: a bearer token made by
`headrace token create`, or a provider's, for which `HEADRACE_TENANT` and `HEADRACE_USER` name the tenant and the user.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple, TypeVar

import msgspec

from headrace.client.errors import Unreachable
from headrace.contracts.messages.tokens import read_bearer
from headrace.contracts.values.ids import DEFAULT_TENANT, is_token

URL = "HEADRACE_URL"
CREDENTIALS = "HEADRACE_CREDENTIALS"
DATA = "HEADRACE_DATA"
TOKEN = "HEADRACE_TOKEN"  # noqa: S105 - the name of the variable
TENANT = "HEADRACE_TENANT"
USER = "HEADRACE_USER"

DEFAULT_DATA = "~/.local/share/headrace"
ENDPOINT_FILE = "endpoint.json"

T = TypeVar("T")


class Login(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One login. `kind` is `user`, `admin` (may act as any user), `service`, `operator` or `node`; the password is a secret."""

    name: str
    password: str
    kind: str = "user"
    tenant: str = ""
    user: str = ""
    node: str = ""


class Endpoint(msgspec.Struct, frozen=True, kw_only=True):
    """`url` of the NATS servers; `credentials`: path of the owner's login, relative to this file; `api`: the API's address.

    `local`: the API's socket, for the owner of the installation on the same machine. `ca`: path of the certificate authority's file,
    relative as well; empty: the authorities of this machine.
    """

    url: str
    credentials: str
    api: str = ""
    local: str = ""
    ca: str = ""


class ConnectionTarget(NamedTuple):
    """Address and login. `ca`: file of the trusted certificate authority, see `contracts.transport.tls`."""

    url: str
    login: Login
    ca: str = ""


def data_directory(given: str | Path | None = None, environment: Mapping[str, str] = os.environ) -> Path:
    """The directory of the installation: `given`, else `HEADRACE_DATA`, else `~/.local/share/headrace`."""
    return Path(given or environment.get(DATA) or DEFAULT_DATA).expanduser().absolute()


def find(
    url: str | None = None,
    credentials: str | Path | None = None,
    data: str | Path | None = None,
    environment: Mapping[str, str] = os.environ,
) -> ConnectionTarget:
    """Address and login: the arguments, else the environment's, else those of the installation on this machine.

    Raises Unreachable if none of them is set.
    """
    url = url or environment.get(URL)
    login = _login(credentials, environment)
    if url and login is not None:
        return ConnectionTarget(url, login)
    directory = data_directory(data, environment)
    endpoint = read_endpoint(directory)
    if endpoint is None:
        missing = "" if url is None else f"; {URL} is set, so {CREDENTIALS} has to name a login file, or {TOKEN} to be a token"
        raise Unreachable(f"no Headrace in {directory}{missing}. Start one with `headrace up`, or name it with {DATA}")
    return ConnectionTarget(
        url or endpoint.url, login or read_login(directory / endpoint.credentials), ca_file(endpoint, directory)
    )


def read_endpoint(directory: Path) -> Endpoint | None:
    """Addresses of the installation in a directory; None without one. Raises Unreachable if the file is damaged."""
    path = directory / ENDPOINT_FILE
    return _read(path, Endpoint) if path.exists() else None


def ca_file(endpoint: Endpoint, directory: Path) -> str:
    """Path of the file of the certificate authority; empty: the authorities of this machine."""
    return str(directory / endpoint.ca) if endpoint.ca else ""


def _login(credentials: str | Path | None, environment: Mapping[str, str]) -> Login | None:
    """The given login, else the environment's, a token before a file; None if none is set."""
    token, login_file = environment.get(TOKEN), environment.get(CREDENTIALS)
    if credentials is None and token:
        return bearer_login(token, environment.get(TENANT, ""), environment.get(USER, ""))
    named = credentials or login_file
    return read_login(Path(named).expanduser()) if named else None


def bearer_login(token: str, tenant: str = "", user: str = "") -> Login:
    """The login of the bearer of a token: NATS receives it as the password. Tenant and user in the token override the arguments."""
    bearer = read_bearer(token)
    if bearer is not None:
        tenant, user = bearer.tenant or DEFAULT_TENANT, bearer.handle
    if not is_token(tenant) or not is_token(user):
        raise Unreachable(
            f"{TOKEN} does not say whose it is: set {TENANT} and {USER} to the tenant and the handle it speaks for"
        )
    return Login(name=f"{tenant}_{user}", password=token, tenant=tenant, user=user)


def read_login(path: Path) -> Login:
    """The login in a file. Raises Unreachable if it cannot be read."""
    return _read(path, Login)


def _read(path: Path, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except OSError as error:
        raise Unreachable(f"{path} cannot be read: {error.strerror or error}") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Unreachable(f"{path} is damaged: {error}") from None

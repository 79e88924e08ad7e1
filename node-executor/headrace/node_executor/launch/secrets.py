"""Secrets by reference: `file:NAME` and `env:NAME`, resolved on the node, for the tenant of the job only.

A provider returns the value of one name of one tenant, or None. Values are never written, logged or sent.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Protocol

from headrace.node_executor.runtimes import COMMAND_UNUSABLE, CannotStart

SECRET_BYTES_MAX = 64 * 1024
FROM_ENVIRONMENT = "HEADRACE_SECRET_"

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")


class SecretProvider(Protocol):
    """A source of secrets."""

    def value(self, tenant: str, name: str) -> str | None:
        """Return the value of that name for this tenant, or None."""


class Files:
    """One file for each secret: `DIRECTORY/TENANT/NAME`; a newline at its end does not count."""

    def __init__(self, directory: str) -> None:
        self._directory = directory

    def value(self, tenant: str, name: str) -> str | None:
        try:
            with open(os.path.join(self._directory, tenant, name), encoding="utf-8") as file:
                return file.read(SECRET_BYTES_MAX).rstrip("\n")
        except (OSError, UnicodeDecodeError):
            return None


class Environment:
    """Variables of the executor: `HEADRACE_SECRET_<TENANT>__<NAME>`, the tenant in capitals and with `_` for `-`.

    Two pairs of tenant and name may lead to the same variable (`acme--dev` with `KEY`, `acme` with `DEV__KEY`): then the variable is not
    used for either. `exact_variable` gives the name to write instead, which is unique for every pair.
    """

    def __init__(self, own: Mapping[str, str]) -> None:
        self._own = own

    def value(self, tenant: str, name: str) -> str | None:
        exact = self._own.get(exact_variable(tenant, name))
        if exact is not None or _may_be_anothers(tenant, name):
            return exact
        return self._own.get(f"{FROM_ENVIRONMENT}{tenant.upper().replace('-', '_')}__{name}")


def exact_variable(tenant: str, name: str) -> str:
    """The variable that has this secret of this tenant and no other: `HEADRACE_SECRET__ACMEddDEV__KEY`.

    Two underscores, the tenant in capitals with a small `d` for each `-`, two underscores, the name. The tenant then has no underscore,
    so the second pair of underscores ends it.
    """
    return f"{FROM_ENVIRONMENT}_{tenant.upper().replace('-', 'd')}__{name}"


def _may_be_anothers(tenant: str, name: str) -> bool:
    """True if the short form is ambiguous: if the first two underscores in a row may not be those behind the tenant."""
    return "--" in tenant or tenant.startswith("-") or tenant.endswith("-") or "__" in name or name.startswith("_")


class SecretResolver:
    """Resolves references of orders. A variable without a reference is the tenant's file of the same name."""

    def __init__(self, providers: Mapping[str, SecretProvider]) -> None:
        self._providers = providers

    def resolve(self, tenant: str, variable: str, reference: str = "") -> str:
        """Return the value. Raises `CannotStart` if this node does not have it, which is the job's fault."""
        if _VARIABLE.fullmatch(variable) is None:
            raise CannotStart(f"{variable!r} cannot be the name of a secret", COMMAND_UNUSABLE)
        kind, _, name = (reference or f"file:{variable}").partition(":")
        provider = self._providers.get(kind)
        if provider is None or _NAME.fullmatch(name) is None:
            raise CannotStart(f"{reference[:140]!r} does not refer to a secret of this node", COMMAND_UNUSABLE)
        value = provider.value(tenant, name)
        if value is None:
            where = f" (from {reference})" if reference else ""
            where += f", which would be the variable {exact_variable(tenant, name)} of its executor," if kind == "env" else ""
            raise CannotStart(f"this node has no secret {variable}{where} of tenant {tenant}", COMMAND_UNUSABLE)
        return value

    def registry_login(self, tenant: str, image: str) -> str:
        """Return `USER:PASSWORD` for the image's registry, the tenant's file `registry.HOST`; "" without one. Raises `CannotStart`.

        A user cannot have it as a variable, because no variable has a name with a dot.
        """
        host = registry_of(image)
        name = f"registry.{host.replace(':', '_')}"
        value = (self._providers["file"].value(tenant, name) if _NAME.fullmatch(name) else None) or ""
        if value and not all(value.partition(":")):
            raise CannotStart(f"the secret {name} of tenant {tenant} is not USER:PASSWORD on this node")
        return value


def registry_of(image: str) -> str:
    """Return the host of an image's registry, with its port if it has one."""
    host, slash, _ = image.partition("/")
    return host if slash and ("." in host or ":" in host or host == "localhost") else "docker.io"


def references(directory: str, own: Mapping[str, str]) -> SecretResolver:
    """Return all providers of a node."""
    return SecretResolver({"file": Files(directory), "env": Environment(own)})

"""`headrace token create`, `list`, `revoke`: credentials for people, service accounts and nodes, from the embedded issuer."""

from __future__ import annotations

import argparse
from collections.abc import Awaitable

from msgspec.structs import replace

from headrace.cli.arguments import Failed, Nouns, Parser, add_command, add_json, add_where_options, asking, client, span
from headrace.cli.away import ordered
from headrace.cli.output.formatting import ago, as_json
from headrace.cli.output.tables import table
from headrace.cli.resources.approve import add_claims, claims_of
from headrace.client import Client, Refused
from headrace.client.api_writes import TENANTS_OWN
from headrace.contracts.messages.queries import ApplyAnswer
from headrace.contracts.messages.tokens import NodeClaims, RevokeRequest, TokenRequest, TokenRole, TokensAnswer
from headrace.contracts.values.durations import format_time
from headrace.contracts.values.ids import DEFAULT_TENANT

PROVIDERS_PERSON = "admin"
"""Name of an administrator or viewer if none is given."""


def add(nouns: Nouns) -> None:
    token = add_command(
        nouns,
        "token",
        _nothing,
        "create, list and revoke tokens",
        "headrace token create --user alice\nheadrace token list\nheadrace token revoke ID --reason 'a lost laptop'",
    )
    verbs = token.add_subparsers(title="verbs", metavar="VERB", required=True, parser_class=Parser)
    _add_create(verbs)
    verb = add_command(verbs, "list", list_tokens, "list the tokens that have not expired", "headrace token list --tenant acme")
    verb.add_argument("--tenant", default="", help="of this tenant only")
    add_where_options(verb)
    add_json(verb)
    verb = add_command(
        verbs,
        "revoke",
        revoke,
        "make a token invalid, at once and everywhere",
        """headrace token revoke 01jd3v8k5w2m4x6z8b0c2e4g6h
        headrace token revoke --tenant acme --user alice --reason 'left the company'     all tokens of alice, of every issuer
        headrace token revoke --node gpu01""",
    )
    verb.add_argument("token", metavar="ID", nargs="?", default="", help="the token's id, as `headrace token list` shows it")
    whose = verb.add_mutually_exclusive_group()
    whose.add_argument(
        "--user", "--service-account", dest="bearer", metavar="NAME", default="", help="all tokens of this bearer"
    )
    whose.add_argument("--node", metavar="NAME", default="", help="all tokens of this node")
    verb.add_argument("--tenant", default="", help="the bearer's tenant (default: the caller's)")
    verb.add_argument("--reason", default="", help="stored with the fact")
    add_where_options(verb)


def _add_create(verbs: Nouns) -> None:
    verb = add_command(
        verbs,
        "create",
        create,
        "print a new token; it is shown once, and not stored",
        """headrace token create --user alice --tenant acme
        headrace token create --service-account ci --tenant acme --expires 90d
        headrace token create --node gpu01 --labels site=hq --gpus 8 --isolation hardware --expires 365d
        headrace token create --admin ops
        HEADRACE_TOKEN=$(headrace token create --user alice) headrace jobs""",
    )
    whose = verb.add_mutually_exclusive_group(required=True)
    whose.add_argument("--user", metavar="NAME", help="for a person in a group or document of the tenant")
    whose.add_argument("--service-account", metavar="NAME", help="for a service account of a group of the tenant")
    whose.add_argument("--node", metavar="NAME", help="for a node executor")
    whose.add_argument(
        "--admin", metavar="NAME", nargs="?", const=PROVIDERS_PERSON, help="for an administrator of the installation"
    )
    whose.add_argument(
        "--viewer", metavar="NAME", nargs="?", const=PROVIDERS_PERSON, help="for a viewer of the whole installation"
    )
    verb.add_argument("--tenant", default="", help="the bearer's tenant (default: the caller's)")
    add_claims(
        verb.add_argument_group(
            "what a node may report about itself (otherwise `headrace node approve` is needed); what is omitted stays as it was"
        )
    )
    verb.add_argument(
        "--expires", type=span, default=0, metavar="SPAN", help="how long it is valid (default: 30d, at most 366d)"
    )
    verb.add_argument("--reason", default="", help="stored with the fact")
    add_where_options(verb)
    add_json(verb)


def _as_itself(args: argparse.Namespace) -> argparse.Namespace:
    """Options of the caller: the login of the environment; `--tenant` and `--user` name the bearer here."""
    return argparse.Namespace(data=args.data, server=args.server, context=args.context, tenant="", user="")


def _nothing(args: argparse.Namespace) -> int:
    raise AssertionError(args)


@asking
async def create(args: argparse.Namespace) -> int:
    """Print the token alone on standard output, so that it can be assigned to a variable."""
    role = next(role for role in TokenRole if getattr(args, role.replace("-", "_"), None) is not None)
    handle = getattr(args, role.replace("-", "_"))
    claims = claims_of(args)
    if claims != NodeClaims() and role is not TokenRole.NODE:
        raise Failed("--labels, --gpus and --isolation are for tokens of --node")
    async with client(_as_itself(args)) as hr:
        request = TokenRequest(
            role=role,
            handle=handle,
            tenant=args.tenant or (hr.tenant if role in TENANTS_OWN else ""),
            lifetime=args.expires,
            reason=args.reason,
            claims=claims if claims != NodeClaims() else None,
        )
        answer = await hr.create_token(request)
    print(as_json(answer) if args.json else answer.token)
    return 0


@asking
async def list_tokens(args: argparse.Namespace) -> int:
    """Print the tokens that have not expired."""
    async with client(_as_itself(args)) as hr:
        found = (await _tokens(hr, args.tenant)).tokens
    heads = ("ID", "ROLE", "TENANT", "NAME", "BY", "MADE", "EXPIRES", "REVOKED")
    rows = (
        (
            one.id,
            one.role,
            one.tenant,
            one.handle,
            one.author,
            ago(one.created_at),
            format_time(one.expires_at),
            ago(one.revoked_at) if one.revoked_at else "",
        )
        for one in found
    )
    print(as_json(found) if args.json else table(heads, rows) if found else "No tokens; `headrace token create` makes one.")
    return 0


async def _tokens(hr: Client, tenant: str) -> TokensAnswer:
    """The tokens of a tenant; without one all, or those of the caller's tenant if the caller may not see all."""
    try:
        return await hr.tokens(tenant)
    except Refused as refusal:
        if tenant or refusal.code != "NOT_ALLOWED":
            raise
    return await hr.tokens(hr.tenant)


def revoke(args: argparse.Namespace) -> int:
    """Revoke one token, or all of a bearer."""
    if not (args.token or args.bearer or args.node):
        raise Failed(
            "name a token by its id, or its bearer with --user, --service-account or --node; `headrace token list` shows them"
        )
    tenant = "" if args.node or args.token else args.tenant or DEFAULT_TENANT
    request = RevokeRequest(token=args.token, tenant=tenant, handle=args.bearer or args.node, reason=args.reason)

    def asked(hr: Client) -> Awaitable[ApplyAnswer]:
        return hr.revoke(replace(request, tenant=hr.tenant) if tenant and not args.tenant else request)

    if args.token:
        method, fields = "RevokeToken", {"name": f"tokens/{args.token}"}
    else:
        method, fields = "RevokeBearer", {"handle": request.handle} | ({"parent": f"tenants/{tenant}"} if tenant else {})
    answer = ordered(_as_itself(args), asked, method, fields | {"reason": args.reason})
    (change,) = answer.changes
    print(f"{change.name} was revoked before" if change.action == "keep" else f"{change.name} is revoked")
    return 0

"""`headrace burst ...`: the instances of pools that create their nodes, their offers, and what would be ordered (R38)."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping

import msgspec

from headrace.cli.arguments import Nouns, Parser, add_command, add_login_options, asking, client, natural
from headrace.cli.output.formatting import ago, as_json, local
from headrace.cli.output.tables import table
from headrace.contracts.messages.burst import InstanceView, OfferView, PlanAnswer

OK = "ok"


def add(nouns: Nouns) -> None:
    burst = add_command(
        nouns,
        "burst",
        _nothing,
        "instances of pools that create their nodes, and what they cost",
        "headrace burst list\nheadrace burst offers\nheadrace burst plan cloud --nodes 2\nheadrace burst end cloud-1f2e3d4c",
    )
    verbs = burst.add_subparsers(title="verbs", metavar="VERB", required=True, parser_class=Parser)
    add_login_options(
        add_command(
            verbs,
            "list",
            instances,
            "list the instances that exist, and those that ended within the last hour",
            "headrace burst list",
        )
    )
    listing = add_command(
        verbs,
        "offers",
        offers,
        "list the offers of every pool, in the order in which they are tried",
        """headrace burst offers
        headrace burst offers --check

        --check asks the providers whether they would accept orders: credentials, rights, and what the document says of machines. It orders
        nothing, and does not say whether something is sold out. The command exits with 1 if an offer would be refused.""",
    )
    listing.add_argument("--check", action="store_true", help="ask the providers whether they would accept orders")
    add_login_options(listing)
    plan = add_command(
        verbs,
        "plan",
        show_plan,
        "show what would be ordered if a pool needed nodes now, and the least that it costs; nothing is ordered",
        "headrace burst plan cloud\nheadrace burst plan cloud --nodes 4 --json",
    )
    plan.add_argument("pool", metavar="POOL")
    plan.add_argument("--nodes", type=natural, default=1, metavar="N", help="number of nodes (default: 1)")
    add_login_options(plan)
    end = add_command(
        verbs,
        "end",
        end_instance,
        "end an instance: its jobs are stopped, with time to save their work, and requeued; then it is ended",
        "headrace burst end cloud-1f2e3d4c",
    )
    end.add_argument("instance", metavar="NAME")
    add_login_options(end)


def _nothing(args: argparse.Namespace) -> int:
    raise AssertionError(args)


@asking
async def instances(args: argparse.Namespace) -> int:
    """Print the instances, the newest first."""
    async with client(args) as hr:
        found = await hr.instances()
    print(
        as_json(found) if args.json else instance_table(found) if found else "No instances; a pool with `burst:` orders them."
    )
    return 0


def instance_table(found: Iterable[InstanceView]) -> str:
    """Table of the instances."""
    heads = ("INSTANCE", "POOL", "STAGE", "CAUSE", "OFFER", "MARKET", "PRICE", "COST", "JOBS", "ORDERED", "MESSAGE")
    return table(
        heads,
        (
            (
                *(one.instance, one.pool, one.stage, one.cause, one.offer, one.market, one.price, one.cost),
                *(one.jobs or "", ago(one.ordered_at), one.message),
            )
            for one in found
        ),
    )


@asking
async def offers(args: argparse.Namespace) -> int:
    """Print the offers of every pool."""
    async with client(args) as hr:
        found = await hr.offers()
        checked = sorted({one.pool for one in found if one.provider != "none"}) if args.check else ()
        checks = {(pool, one.offer): one.problem or OK for pool in checked for one in (await hr.check_offers(pool)).offers}
    if args.json:
        rows = msgspec.to_builtins(found)
        print(as_json([row | {"check": checks.get((row["pool"], row["offer"]), "")} for row in rows] if args.check else rows))
    else:
        print(offer_table(found, checks) if found else "No offers; a pool with `burst:` has some.")
    return int(any(check != OK for check in checks.values()))


def offer_table(found: Iterable[OfferView], checks: Mapping[tuple[str, str], str]) -> str:
    """Table of the offers. `checks`: what was found out, by pool and offer."""
    heads = ("POOL", "OFFER", "PROVIDER", "TYPE", "REGION", "ZONE", "MARKET", "PRICE", "MAX PRICE", "CLOSED", "UNTIL", "CHECK")
    return table(
        heads,
        (
            (
                *(one.pool, one.offer, one.provider, one.type, one.region, one.zone, one.market, one.price, one.max_price),
                *(one.closed, local(one.closed_until) if one.closed_until else "", checks.get((one.pool, one.offer), "")),
            )
            for one in found
        ),
    )


@asking
async def show_plan(args: argparse.Namespace) -> int:
    """Print what would be ordered."""
    async with client(args) as hr:
        plan = await hr.plan_growth(args.pool, args.nodes)
    print(as_json(plan) if args.json else "\n".join(plan_lines(plan)))
    return 0


def plan_lines(plan: PlanAnswer) -> list[str]:
    """The plan in lines."""
    counts: dict[str, int] = {}
    for one in plan.instances:
        shown = f"by offer {one.offer} ({one.market})" + (
            f", at {one.price} an hour, {one.estimate} each at least" if one.price else ""
        )
        counts[shown] = counts.get(shown, 0) + 1
    lines = [f"{count} {'instance' if count == 1 else 'instances'} {shown}" for shown, count in counts.items()]
    lines = lines or ["nothing would be ordered"]
    return lines + ([f"together at least {plan.estimate}"] if plan.estimate else []) + list(plan.notes)


@asking
async def end_instance(args: argparse.Namespace) -> int:
    """Release an instance, and say how many jobs have to stop first."""
    async with client(args) as hr:
        answer = await hr.end_instance(args.instance)
    leaving = f": {answer.running} jobs have to stop first" if answer.running else ""
    print(as_json(answer) if args.json else f"{args.instance} will end{leaving}")
    return 0

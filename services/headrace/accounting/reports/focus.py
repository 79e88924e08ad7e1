"""Charges in the format of the FinOps Open Cost and Usage Specification (FOCUS) 1.2, as CSV: a row for each day, account, key and rate.

Pure.

The billing account is the tenant, the sub account its group, the resource the pool, the commitment a policy's reservation. `ListUnitPrice`
is the pool's general price, `ContractedUnitPrice` the tenant's own rate, and the applied rate shows in `EffectiveCost` and `BilledCost`,
which are the same here: nothing is paid in advance. Costs are exact; a quantity has twelve decimals.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from headrace.accounting.books.charges import RESERVED, SPOT, Charge
from headrace.accounting.books.costs import decimal, hour_of, rounded
from headrace.accounting.reports.invoice import InvoiceHeading, csv_text, quantity, unit_of
from headrace.contracts.values.durations import format_time

ISSUER = "Headrace"
DIGITS = 12

NULL = ""


class FocusRow(NamedTuple):
    """The columns, in the order of the export; an empty text is null."""

    BilledCost: str
    BillingAccountId: str
    BillingAccountName: str
    BillingCurrency: str
    BillingPeriodEnd: str
    BillingPeriodStart: str
    ChargeCategory: str
    ChargeClass: str
    ChargeDescription: str
    ChargeFrequency: str
    ChargePeriodEnd: str
    ChargePeriodStart: str
    CommitmentDiscountCategory: str
    CommitmentDiscountId: str
    CommitmentDiscountName: str
    CommitmentDiscountQuantity: str
    CommitmentDiscountStatus: str
    CommitmentDiscountType: str
    CommitmentDiscountUnit: str
    ConsumedQuantity: str
    ConsumedUnit: str
    ContractedCost: str
    ContractedUnitPrice: str
    EffectiveCost: str
    InvoiceIssuerName: str
    ListCost: str
    ListUnitPrice: str
    PricingCategory: str
    PricingQuantity: str
    PricingUnit: str
    ProviderName: str
    PublisherName: str
    ResourceId: str
    ResourceName: str
    ResourceType: str
    ServiceCategory: str
    ServiceName: str
    ServiceSubcategory: str
    SkuId: str
    SkuMeter: str
    SkuPriceDetails: str
    SkuPriceId: str
    SubAccountId: str
    SubAccountName: str
    Tags: str


COLUMNS = FocusRow._fields


def as_csv(heading: InvoiceHeading, charges: Iterable[Charge]) -> str:
    """The export of a tenant's month."""
    return csv_text([COLUMNS, *(row(heading, charge) for charge in charges)])


def row(heading: InvoiceHeading, charge: Charge) -> FocusRow:
    """The row of one charge."""
    account, unit, cost = charge.account, unit_of(charge.account.key), decimal(charge.cost)
    amount = quantity(account.key, charge.units, DIGITS)
    commitment = f"{account.tenant}/{account.policy}" if charge.kind == RESERVED else NULL
    return FocusRow(
        BilledCost=cost,
        BillingAccountId=account.tenant,
        BillingAccountName=account.tenant,
        BillingCurrency=heading.currency,
        BillingPeriodEnd=moment(heading.until),
        BillingPeriodStart=moment(heading.since),
        ChargeCategory="Usage",
        ChargeClass=NULL,
        ChargeDescription=f"{unit} {charge.kind} of {account.policy}/{account.profile} in {account.pool}",
        ChargeFrequency="Usage-Based",
        ChargePeriodEnd=moment(charge.until),
        ChargePeriodStart=moment(charge.since),
        CommitmentDiscountCategory="Usage" if commitment else NULL,
        CommitmentDiscountId=commitment,
        CommitmentDiscountName=commitment,
        CommitmentDiscountQuantity=amount if commitment else NULL,
        CommitmentDiscountStatus="Used" if commitment else NULL,
        CommitmentDiscountType="Reservation" if commitment else NULL,
        CommitmentDiscountUnit=unit if commitment else NULL,
        ConsumedQuantity=amount,
        ConsumedUnit=unit,
        ContractedCost=_cost(charge, charge.own_rate),
        ContractedUnitPrice=decimal(charge.own_rate),
        EffectiveCost=cost,
        InvoiceIssuerName=ISSUER,
        ListCost=_cost(charge, charge.list_rate),
        ListUnitPrice=decimal(charge.list_rate),
        PricingCategory="Dynamic" if charge.kind == SPOT else "Committed" if commitment else "Standard",
        PricingQuantity=amount,
        PricingUnit=unit,
        ProviderName=ISSUER,
        PublisherName=ISSUER,
        ResourceId=f"pools/{account.pool}",
        ResourceName=account.pool,
        ResourceType="Pool",
        ServiceCategory="Compute",
        ServiceName="Shared GPUs",
        ServiceSubcategory="Other (Compute)",
        SkuId=f"{account.pool}/{account.key}",
        SkuMeter=unit,
        SkuPriceDetails=NULL,
        SkuPriceId=f"{account.pool}/{account.key}/{account.tariff}/{charge.kind.replace(' ', '-')}",
        SubAccountId=f"{account.tenant}/{account.group}" if account.group else NULL,
        SubAccountName=account.group,
        Tags=_tags(charge),
    )


def _cost(charge: Charge, rate: int) -> str:
    return decimal(rounded(charge.units * rate, hour_of(charge.account.key)))


def _tags(charge: Charge) -> str:
    """Tags of the charge, with the prefix `headrace/`."""
    account = charge.account
    tags = {"headrace/policy": account.policy, "headrace/profile": account.profile, "headrace/user": account.user}
    if account.service_account:
        tags["headrace/service-account"] = account.service_account
    return msgspec.json.encode(tags).decode()


def moment(microseconds: int) -> str:
    """A time to the second, as the specification requires; periods begin on a second."""
    return f"{format_time(microseconds)[:19]}Z"

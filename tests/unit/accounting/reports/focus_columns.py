"""What FOCUS 1.2 asks of a row: which columns have to be there, which may be null, what may stand in them, and what has to agree."""

from __future__ import annotations

import csv
import io
import json
import re
from datetime import datetime
from decimal import Decimal

MANDATORY = {
    *("BilledCost", "BillingAccountId", "BillingAccountName", "BillingCurrency", "BillingPeriodEnd", "BillingPeriodStart"),
    *("ChargeCategory", "ChargeClass", "ChargeDescription", "ChargePeriodEnd", "ChargePeriodStart", "ContractedCost"),
    *("EffectiveCost", "InvoiceIssuerName", "ListCost", "PricingQuantity", "PricingUnit", "ProviderName", "PublisherName"),
    *("ServiceCategory", "ServiceName"),
}
CONDITIONAL = {
    *("CommitmentDiscountCategory", "CommitmentDiscountId", "CommitmentDiscountName", "CommitmentDiscountQuantity"),
    *("CommitmentDiscountStatus", "CommitmentDiscountType", "CommitmentDiscountUnit", "ConsumedQuantity", "ConsumedUnit"),
    *("ContractedUnitPrice", "ListUnitPrice", "PricingCategory", "ResourceId", "ResourceName", "ResourceType", "SkuId"),
    *("SkuMeter", "SkuPriceDetails", "SkuPriceId", "SubAccountId", "SubAccountName", "Tags"),
}
"""Those whose condition holds here."""
RECOMMENDED = {"ChargeFrequency", "ServiceSubcategory"}
NULLABLE = {
    *("BillingAccountName", "ChargeClass", "ChargeDescription", "PricingQuantity", "PricingUnit"),
    *(CONDITIONAL),
}
DECIMALS = {
    *("BilledCost", "ContractedCost", "EffectiveCost", "ListCost", "PricingQuantity", "ConsumedQuantity"),
    *("CommitmentDiscountQuantity", "ContractedUnitPrice", "ListUnitPrice"),
}
MOMENTS = {"BillingPeriodEnd", "BillingPeriodStart", "ChargePeriodEnd", "ChargePeriodStart"}
ALLOWED = {
    "ChargeCategory": {"Usage", "Purchase", "Tax", "Credit", "Adjustment"},
    "ChargeClass": {"", "Correction"},
    "ChargeFrequency": {"One-Time", "Recurring", "Usage-Based"},
    "CommitmentDiscountCategory": {"", "Spend", "Usage"},
    "CommitmentDiscountStatus": {"", "Used", "Unused"},
    "PricingCategory": {"", "Standard", "Dynamic", "Committed", "Other"},
    "ServiceCategory": {"Compute", "AI and Machine Learning"},
    "ServiceSubcategory": {"Other (Compute)", "Virtual Machines"},
}


def violations_of(text: str) -> list[str]:
    """Everything in an export that is not as the specification says."""
    rows = list(csv.DictReader(io.StringIO(text)))
    header = next(csv.reader(io.StringIO(text)))
    found = [f"{column} is missing" for column in sorted((MANDATORY | CONDITIONAL | RECOMMENDED) - set(header))]
    found += [f"{column} is twice there" for column in set(header) if header.count(column) > 1]
    found += [
        f"{column} is no column of theirs and has no x_"
        for column in header
        if column not in MANDATORY | CONDITIONAL | RECOMMENDED and not column.startswith("x_")
    ]
    for number, row in enumerate(rows):
        found += [f"{number}: {column} is null" for column, cell in row.items() if not cell and column not in NULLABLE]
        found += [
            f"{number}: {column} is no number"
            for column in DECIMALS
            if row[column] and not re.fullmatch(r"-?[0-9]+(\.[0-9]+)?", row[column])
        ]
        found += [
            f"{number}: {column} is no moment"
            for column in MOMENTS
            if not re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", row[column])
        ]
        found += [
            f"{number}: {column} may not be {row[column]}" for column, words in ALLOWED.items() if row[column] not in words
        ]
        found += [f"{number}: {line}" for line in _disagreements(row)]
    return found


def _disagreements(row: dict[str, str]) -> list[str]:
    found = []
    if not re.fullmatch("[A-Z]{3}", row["BillingCurrency"]):
        found.append("BillingCurrency is not of ISO 4217")
    begins, ends = (datetime.fromisoformat(row[f"ChargePeriod{which}"]) for which in ("Start", "End"))
    first, last = (datetime.fromisoformat(row[f"BillingPeriod{which}"]) for which in ("Start", "End"))
    if not first <= begins < ends <= last:
        found.append("the charge period is not inside of the billing period")
    for cost, price in (("ListCost", "ListUnitPrice"), ("ContractedCost", "ContractedUnitPrice")):
        if abs(Decimal(row[price]) * Decimal(row["PricingQuantity"]) - Decimal(row[cost])) > Decimal("0.000001"):
            found.append(f"{cost} is not {price} times PricingQuantity")
    commitment = [column for column in row if column.startswith("CommitmentDiscount")]
    if len({bool(row[column]) for column in commitment}) > 1:
        found.append("a commitment is said in part")
    if (row["PricingCategory"] == "Committed") != bool(row["CommitmentDiscountId"]):
        found.append("PricingCategory and CommitmentDiscountId disagree")
    if bool(row["PricingQuantity"]) != bool(row["PricingUnit"]) or bool(row["ConsumedQuantity"]) != bool(row["ConsumedUnit"]):
        found.append("a quantity has no unit")
    if bool(row["SubAccountId"]) != bool(row["SubAccountName"]) or bool(row["ResourceId"]) != bool(row["ResourceName"]):
        found.append("an id has no name")
    if not all(isinstance(value, str) and key.startswith("headrace/") for key, value in json.loads(row["Tags"]).items()):
        found.append("a tag of the provider has no prefix")
    return found

"""Provider `ec2`: instances of Amazon EC2, on demand or spot. It needs the extra `burst` (boto3), and credentials where boto3 finds them.

An order is one call of RunInstances whose `ClientToken` is the order's token. What is made carries two tags, and only what carries both is
ever ended. A call that is repeated with other parameters (a price that has changed) is refused by EC2; then the instance is looked for by
its token. Nothing follows from answers about credentials, rates or EC2's own faults: the call is made again.
"""

from __future__ import annotations

import asyncio
import re
import threading
import time
from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any, NamedTuple

from headrace.contracts.documents.model import BurstNode
from headrace.contracts.values.ids import is_token
from headrace.contracts.values.money import MILLION
from headrace.provisioner.providers import Created, Listed, NotAuthorized, NotYet, Order, ProviderAway, Refusal
from headrace.provisioner.providers.boot import ARGUMENTS as BOOT_ARGUMENTS
from headrace.provisioner.providers.boot import first_boot

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from headrace.contracts.documents.model import Offer
    from headrace.provisioner.providers import OfferAsked

NAME = "ec2"
INSTALLATION, INSTANCE = "headrace:installation", "headrace:instance"
"""The tags of an instance."""

ARGUMENTS = (*BOOT_ARGUMENTS, "--notice", "ec2")
"""Arguments of executors on instances of this provider."""

CONNECT_WITHIN, READ_WITHIN = 5, 30
TOKEN_MAX = 64
PAGE = 1_000
"""Instances in one answer."""

PRICES_KEPT = 300.0
"""Seconds for which prices are kept before they are asked for again."""

GONE = ("shutting-down", "terminated")
_MOMENT = re.compile(r"\((\d{4}-\d\d-\d\d \d\d:\d\d:\d\d) (?:GMT|UTC)\)")

_CAPACITY = (
    *("InsufficientInstanceCapacity", "InsufficientHostCapacity", "InsufficientCapacity", "UnfulfillableCapacity"),
    *("InsufficientFreeAddressesInSubnet", "Unsupported", "InsufficientReservedInstanceCapacity"),
)
_QUOTA = (
    *("VcpuLimitExceeded", "InstanceLimitExceeded", "MaxSpotInstanceCountExceeded", "VolumeLimitExceeded"),
    *("AddressLimitExceeded", "NetworkInterfaceLimitExceeded", "ResourceLimitExceeded", "MaxIOPSLimitExceeded"),
)
_PRICE = ("SpotMaxPriceTooLow",)
_CREDENTIALS = (
    *("UnauthorizedOperation", "AuthFailure", "ExpiredToken", "RequestExpired", "InvalidClientTokenId", "AccessDenied"),
    *("SignatureDoesNotMatch", "OptInRequired", "Blocked", "UnrecognizedClientException", "ExpiredTokenException"),
    "MissingAuthenticationToken",
)
_AGAIN = (
    *("RequestLimitExceeded", "Throttling", "ThrottlingException", "EC2ThrottledException", "Unavailable"),
    *("ServiceUnavailable", "InternalError", "InternalFailure", "RequestTimeout", "IdempotentInstanceTerminated"),
    "OperationNotPermitted",
)
"""Answers after which the call is made again; `OperationNotPermitted`: the instance is protected against its end."""

WOULD_BE_DONE = "DryRunOperation"
MISMATCH = "IdempotentParameterMismatch"
_UNKNOWN_ID = ("InvalidInstanceID.NotFound", "InvalidInstanceID.Malformed")


class _Price(NamedTuple):
    until: float
    price: int


Rows = list[dict[str, Any]]


class Ec2Provider:
    """The instances of one installation. `new_client`: makes a client of EC2 for a region; empty: the region of the environment."""

    def __init__(self, installation: str, new_client: Callable[[str], Any] | None = None) -> None:
        self._installation = installation
        self._new_client = new_client or client_of
        self._clients: dict[str, Any] = {}
        self._lock = threading.Lock()
        self._root_devices: dict[tuple[str, str], str] = {}
        self._prices: dict[tuple[str, str, str], _Price] = {}

    async def create(self, order: Order) -> Created | Refusal:
        """Run an instance, or find the one that this token made."""
        return await asyncio.to_thread(self._create, order)

    async def end(self, instance: str, provider_id: str, region: str) -> int:
        """Terminate what has our tags and this name."""
        return await asyncio.to_thread(self._end, instance, provider_id, region)

    async def list(self, regions: Sequence[str]) -> Sequence[Listed]:
        """The instances with our tag, those that have ended as long as EC2 shows them."""
        return await asyncio.to_thread(lambda: [one for region in regions for one in self._listed(region)])

    async def prices(self, offers: Sequence[Offer]) -> dict[str, int]:
        """The present prices of spot instances; of a zone's, or the highest of a region's zones."""
        return await asyncio.to_thread(self._all_prices, [offer for offer in offers if offer.market == "spot" and offer.type])

    async def check(self, offers: Sequence[OfferAsked]) -> dict[str, str]:
        """Whether credentials, rights and what is written would do for an order: by dry runs, which say nothing of capacity."""
        return await asyncio.to_thread(lambda: {asked.offer.name: self._checked(asked) for asked in offers})

    def _checked(self, asked: OfferAsked) -> str:
        offer = asked.offer
        node = BurstNode(gpus=0, gpu_model="")
        order = Order("check", "", self._installation, "check", offer, node, {}, BOOT_ARGUMENTS, asked.machine)
        try:
            self._dry(offer.region, "run_instances", **self._parameters(order))
            running = [one["InstanceId"] for one in self._described(offer.region, self._filters()) if _runs(one)]
            if running:
                self._dry(offer.region, "terminate_instances", InstanceIds=running[:1])
            self._all_prices([offer] if offer.market == "spot" and offer.type else [])
        except _Refused as refused:
            return refused.refusal.message
        except ProviderAway as error:
            return str(error)
        return ""

    def _dry(self, region: str, what: str, **parameters: Any) -> None:
        """Ask whether a call would be carried out. Raises as the call itself would."""
        try:
            self._call(region, what, DryRun=True, **parameters)
        except _Refused as refused:
            if refused.code != WOULD_BE_DONE:
                raise

    def _create(self, order: Order) -> Created | Refusal:
        if not order.environment:
            raise ProviderAway("its node has no login yet")
        region = order.offer.region
        try:
            found = self._call(region, "run_instances", **self._parameters(order))["Instances"]
        except _Refused as refused:
            if refused.code != MISMATCH:
                return refused.refusal
            found = self._made_by(order)
            if not found:
                raise ProviderAway("its token was used, and the instance is not shown yet") from None
        made = found[0]
        reason = made.get("StateReason", {}).get("Code", "").removeprefix("Server.").removeprefix("Client.")
        if made["State"]["Name"] in GONE and reason in _CAPACITY:
            return Refusal("CAPACITY", made["StateReason"].get("Message", reason))
        return Created(_id_of(region, made), _launched(made))

    def _made_by(self, order: Order) -> Rows:
        shown = self._described(order.offer.region, self._filters(order.instance))
        return [one for one in shown if one.get("ClientToken") == order.token[:TOKEN_MAX]]

    def _parameters(self, order: Order) -> dict[str, Any]:
        """What RunInstances is told. What is empty is left to the template, or to EC2."""
        offer, machine = order.offer, order.machine
        tags = [{"Key": INSTALLATION, "Value": self._installation}, {"Key": INSTANCE, "Value": order.instance}]
        tags += [{"Key": "headrace:pool", "Value": order.pool}, {"Key": "Name", "Value": order.instance}]
        kinds = ["instance", "volume", *(["spot-instances-request"] if offer.market == "spot" else [])]
        parameters: dict[str, Any] = {
            "MinCount": 1,
            "MaxCount": 1,
            "ClientToken": order.token[:TOKEN_MAX],
            "InstanceInitiatedShutdownBehavior": "terminate",
            "MetadataOptions": {"HttpTokens": "required", "HttpPutResponseHopLimit": 1, "HttpEndpoint": "enabled"},
            "TagSpecifications": [{"ResourceType": kind, "Tags": tags} for kind in kinds],
            "UserData": first_boot(order),
            "InstanceType": offer.type,
            "ImageId": machine.image,
            "SubnetId": machine.network,
            "SecurityGroupIds": list(machine.firewalls),
            "LaunchTemplate": _template(machine.template),
            "Placement": {"AvailabilityZone": offer.zone} if offer.zone and not machine.network else {},
            "InstanceMarketOptions": _market(offer),
            "BlockDeviceMappings": self._disks(order),
        }
        return {key: value for key, value in parameters.items() if value}

    def _disks(self, order: Order) -> Rows:
        if not order.machine.disk:
            return []
        size = -(-order.machine.disk // 1024)
        ebs = {"VolumeSize": size, "VolumeType": "gp3", "DeleteOnTermination": True}
        return [{"DeviceName": self._root_device(order.offer.region, order.machine.image), "Ebs": ebs}]

    def _root_device(self, region: str, image: str) -> str:
        key = region, image
        if key not in self._root_devices:
            images = self._call(region, "describe_images", ImageIds=[image])["Images"]
            self._root_devices[key] = images[0]["RootDeviceName"] if images else "/dev/sda1"
        return self._root_devices[key]

    def _end(self, instance: str, provider_id: str, region: str) -> int:
        filters = self._filters(instance)
        name = provider_id.rpartition("/")[2]
        if name:
            filters.append({"Name": "instance-id", "Values": [name]})
        at, found = 0, [*self._described(region, filters)]
        if name and not found:  # it was made, so it is not shown yet, or no longer: then lists say so in time
            raise NotYet(f"EC2 does not show {name}")
        for one in found:
            if not _runs(one):
                at = max(at, _ended(one))
                continue
            try:
                self._call(region, "terminate_instances", InstanceIds=[one["InstanceId"]])
            except _Refused as refused:
                if refused.code not in _UNKNOWN_ID:
                    raise ProviderAway(refused.refusal.message) from None
            at = time.time_ns() // 1_000
        return at or time.time_ns() // 1_000

    def _listed(self, region: str) -> Iterator[Listed]:
        for one in self._described(region, self._filters()):
            name = next((tag["Value"] for tag in one.get("Tags", ()) if tag["Key"] == INSTANCE), "")
            if is_token(name):
                runs = _runs(one)
                yield Listed(name, _id_of(region, one), _launched(one), runs, region, 0 if runs else _ended(one))

    def _filters(self, instance: str = "") -> Rows:
        parameters = {f"tag:{INSTALLATION}": self._installation, **({f"tag:{INSTANCE}": instance} if instance else {})}
        return [{"Name": name, "Values": [value]} for name, value in parameters.items()]

    def _described(self, region: str, filters: Rows) -> Iterator[dict[str, Any]]:
        parameters: dict[str, Any] = {"Filters": filters, "MaxResults": PAGE}
        while True:
            try:
                page = self._call(region, "describe_instances", **parameters)
            except _Refused as refused:
                raise ProviderAway(refused.refusal.message) from None
            for reservation in page["Reservations"]:
                yield from reservation["Instances"]
            if not page.get("NextToken"):
                return
            parameters["NextToken"] = page["NextToken"]

    def _all_prices(self, offers: Sequence[Offer]) -> dict[str, int]:
        found = {}
        for offer in offers:
            key = offer.region, offer.zone, offer.type
            known = self._prices.get(key)
            if known is None or known.until <= time.monotonic():
                known = self._prices[key] = _Price(time.monotonic() + PRICES_KEPT, self._price(*key))
            if known.price:
                found[offer.name] = known.price
        return found

    def _price(self, region: str, zone: str, kind: str) -> int:
        parameters = {"InstanceTypes": [kind], "ProductDescriptions": ["Linux/UNIX"], "StartTime": time.time()}
        try:
            history = self._call(
                region, "describe_spot_price_history", **parameters, **({"AvailabilityZone": zone} if zone else {})
            )
        except _Refused as refused:
            raise ProviderAway(refused.refusal.message) from None
        newest: dict[str, tuple[Any, int]] = {}
        for row in history["SpotPriceHistory"]:
            price, place = int(Decimal(row["SpotPrice"]) * MILLION), row["AvailabilityZone"]
            newest[place] = max(newest.get(place, (row["Timestamp"], price)), (row["Timestamp"], price))
        return max((price for _, price in newest.values()), default=0)

    def _call(self, region: str, what: str, **parameters: Any) -> Any:
        """The answer of EC2. Raises ProviderAway, NotAuthorized, or _Refused with what it refuses."""
        try:
            from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError  # noqa: PLC0415 - of the extra `burst`
        except ImportError:
            raise ProviderAway("boto3 is missing; install headrace[burst] where the provisioner runs") from None
        try:
            return getattr(self._client(region), what)(**parameters)
        except ClientError as error:
            raise answer_of(error.response.get("Error", {}).get("Code", ""), str(error)) from None
        except NoCredentialsError as error:
            raise NotAuthorized(str(error)) from None
        except BotoCoreError as error:
            raise ProviderAway(str(error)) from None

    def _client(self, region: str) -> Any:
        with self._lock:
            if region not in self._clients:
                self._clients[region] = self._new_client(region)
            return self._clients[region]


class _Refused(Exception):
    """EC2 does not do what it was asked. `code`: in its words."""

    def __init__(self, code: str, refusal: Refusal) -> None:
        super().__init__(refusal.message)
        self.code = code
        self.refusal = refusal


def answer_of(code: str, message: str) -> Exception:
    """What an error of EC2 means: that nothing is known, or that nothing was made."""
    if code in _CREDENTIALS:
        return NotAuthorized(message)
    if code in _AGAIN:
        return ProviderAway(message)
    kind = "CAPACITY" if code in _CAPACITY else "QUOTA" if code in _QUOTA else "PRICE" if code in _PRICE else "INVALID"
    return _Refused(code, Refusal(kind, message))


def client_of(region: str) -> Any:
    """A client of EC2 that repeats nothing by itself: the provisioner does."""
    import boto3  # noqa: PLC0415 - of the extra `burst`
    from botocore.config import Config  # noqa: PLC0415 - the same

    config = Config(connect_timeout=CONNECT_WITHIN, read_timeout=READ_WITHIN, retries={"total_max_attempts": 1})
    return boto3.session.Session().client("ec2", region_name=region or None, config=config)


def _template(name: str) -> dict[str, str]:
    if not name:
        return {}
    return {"LaunchTemplateId" if name.startswith("lt-") else "LaunchTemplateName": name, "Version": "$Default"}


def _market(offer: Offer) -> dict[str, Any]:
    if offer.market != "spot":
        return {}
    options = {"SpotInstanceType": "one-time", "InstanceInterruptionBehavior": "terminate"}
    return {"MarketType": "spot", "SpotOptions": options | ({"MaxPrice": offer.max_price} if offer.max_price else {})}


def _runs(made: dict[str, Any]) -> bool:
    return made["State"]["Name"] not in GONE


def _id_of(region: str, made: dict[str, Any]) -> str:
    return f"{region}/{made['InstanceId']}" if region else str(made["InstanceId"])


def _launched(made: dict[str, Any]) -> int:
    return int(made["LaunchTime"].timestamp() * 1_000_000)


def _ended(gone: dict[str, Any]) -> int:
    """When an instance has ended, as EC2 notes it in whole seconds: `User initiated (2026-11-27 01:40:00 GMT)`; 0 if it does not say."""
    noted = _MOMENT.search(gone.get("StateTransitionReason", ""))
    return int(datetime.fromisoformat(f"{noted[1]}+00:00").timestamp()) * 1_000_000 if noted else 0

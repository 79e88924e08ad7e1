"""What EC2 is told, and what follows from what it says, over moto with the faults that moto does not have."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from headrace.contracts.documents.model import Offer
from headrace.provisioner.providers import Created, Machine, NotAuthorized, NotYet, OfferAsked, ProviderAway, Refusal
from headrace.provisioner.providers.ec2 import Ec2Provider
from tests.unit.provisioner.providers.clouds import IMAGE, INSTALLATION, OFFER, REGION, Ec2Scene, order_of

SPOT = OFFER.__class__(name="spot", type=OFFER.type, region=REGION, market="spot", max_price="9.50")


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[Ec2Scene]:
    made = Ec2Scene(tmp_path)
    yield made
    await made.close()


def only(scene: Ec2Scene, region: str = REGION) -> dict[str, Any]:
    (one,) = scene.server.instances(region)
    return one


async def test_an_instance_ends_when_it_powers_off_and_keeps_jobs_from_its_metadata(scene: Ec2Scene) -> None:
    made = await scene.provider.create(order_of())
    assert isinstance(made, Created)
    one = only(scene)
    assert made.provider_id == f"{REGION}/{one['InstanceId']}"
    assert (one["InstanceType"], one["ImageId"], one["Placement"]["AvailabilityZone"]) == (OFFER.type, IMAGE, OFFER.zone)
    assert (one["MetadataOptions"]["HttpTokens"], one["MetadataOptions"]["HttpPutResponseHopLimit"]) == ("required", 1)
    assert {tag["Key"]: tag["Value"] for tag in one["Tags"]} == {
        "headrace:installation": INSTALLATION,
        "headrace:instance": "cloud-1",
        "headrace:pool": "cloud",
        "Name": "cloud-1",
    }
    client, asked = scene.server.client(REGION), {"InstanceId": one["InstanceId"]}
    behaviour = client.describe_instance_attribute(**asked, Attribute="instanceInitiatedShutdownBehavior")
    data = client.describe_instance_attribute(**asked, Attribute="userData")["UserData"]["Value"]
    assert behaviour["InstanceInitiatedShutdownBehavior"]["Value"] == "terminate"
    assert "HEADRACE_NATS_PASSWORD='a b'" in base64.b64decode(data).decode()


async def test_a_spot_instance_is_asked_for_once_and_up_to_its_price(scene: Ec2Scene) -> None:
    await scene.provider.create(order_of(offer=SPOT))
    assert only(scene)["InstanceLifecycle"] == "spot"


async def test_network_firewalls_disk_and_template_are_those_of_the_machine(scene: Ec2Scene) -> None:
    client = scene.server.client(REGION)
    subnet = client.describe_subnets()["Subnets"][0]
    group = client.create_security_group(GroupName="g", Description="g", VpcId=subnet["VpcId"])["GroupId"]
    client.create_launch_template(LaunchTemplateName="headrace", LaunchTemplateData={"ImageId": IMAGE})
    machine = Machine(image=IMAGE, template="headrace", network=subnet["SubnetId"], firewalls=(group,), disk=200 * 1024)
    await scene.provider.create(order_of(machine=machine))
    one = only(scene)
    volume = client.describe_volumes()["Volumes"][-1]
    assert (one["SubnetId"], [row["GroupId"] for row in one["SecurityGroups"]]) == (subnet["SubnetId"], [group])
    assert volume["Size"] == 200


async def test_a_template_alone_says_what_is_run(scene: Ec2Scene) -> None:
    launch = {"ImageId": IMAGE, "InstanceType": "p5.48xlarge"}
    scene.server.client(REGION).create_launch_template(LaunchTemplateName="headrace", LaunchTemplateData=launch)
    await scene.provider.create(order_of(offer=Offer(name="o", region=REGION), machine=Machine(template="headrace")))
    assert only(scene)["InstanceType"] == "p5.48xlarge"


async def test_a_repeated_call_whose_parameters_have_changed_finds_what_was_made(scene: Ec2Scene) -> None:
    made = await scene.provider.create(order_of(offer=SPOT))
    dearer = Offer(**{key: getattr(SPOT, key) for key in SPOT.__struct_fields__} | {"max_price": "12"})
    assert await scene.provider.create(order_of(offer=dearer)) == made
    assert await scene.running() == ["cloud-1"]


async def test_an_instance_that_is_not_shown_yet_is_asked_for_again(scene: Ec2Scene) -> None:
    scene.server.lagging = 2
    scene.lose_answers()
    with pytest.raises(ProviderAway):
        await scene.provider.create(order_of())
    scene.server.lost = set()
    changed = order_of(environment={"HEADRACE_NATS_PASSWORD": "new"})
    with pytest.raises(ProviderAway, match="not shown yet"):
        await scene.provider.create(changed)
    assert list(await scene.provider.list([REGION])) == []
    made = await scene.provider.create(changed)
    assert isinstance(made, Created)
    assert await scene.running() == ["cloud-1"]


async def test_a_zone_that_is_sold_out_is_refused_and_another_one_is_not(scene: Ec2Scene) -> None:
    scene.server.sold_out = {(OFFER.zone, OFFER.type)}
    refused = await scene.provider.create(order_of())
    assert isinstance(refused, Refusal)
    assert refused.code == "CAPACITY"
    other = Offer(name="other", type=OFFER.type, region=REGION, zone="us-east-1c")
    assert isinstance(await scene.provider.create(order_of("cloud-2", offer=other)), Created)


@pytest.mark.parametrize(
    ("code", "meant"),
    [
        ("VcpuLimitExceeded", "QUOTA"),
        ("MaxSpotInstanceCountExceeded", "QUOTA"),
        ("SpotMaxPriceTooLow", "PRICE"),
        ("InsufficientFreeAddressesInSubnet", "CAPACITY"),
        ("Unsupported", "CAPACITY"),
        ("InvalidAMIID.NotFound", "INVALID"),
        ("InvalidParameterValue", "INVALID"),
    ],
)
async def test_a_refusal_of_ec2_is_one_of_ours_with_its_words(scene: Ec2Scene, code: str, meant: str) -> None:
    scene.server.answers = {"RunInstances": code}
    refused = await scene.provider.create(order_of())
    assert isinstance(refused, Refusal)
    assert (refused.code, f"played: {code}" in refused.message) == (meant, True)


@pytest.mark.parametrize("code", ["RequestLimitExceeded", "InternalError", "Unavailable"])
async def test_ec2s_own_trouble_says_nothing_of_the_order(scene: Ec2Scene, code: str) -> None:
    scene.server.answers = {"RunInstances": code}
    with pytest.raises(ProviderAway, match=code):
        await scene.provider.create(order_of())


@pytest.mark.parametrize("code", ["UnauthorizedOperation", "AuthFailure", "InvalidClientTokenId"])
async def test_credentials_that_are_refused_say_nothing_of_the_order(scene: Ec2Scene, code: str) -> None:
    scene.server.answers = {"RunInstances": code}
    with pytest.raises(NotAuthorized):
        await scene.provider.create(order_of())


async def test_a_check_asks_ec2_for_the_very_order_and_says_what_it_refuses(scene: Ec2Scene) -> None:
    scene.server.sold_out = {("", OFFER.type)}
    good, spot = (OfferAsked(offer, Machine(image=IMAGE)) for offer in (OFFER, SPOT))
    assert await scene.provider.check([good, spot]) == {"east": "", "spot": ""}
    for action, code in (
        ("RunInstances", "InvalidAMIID.NotFound"),
        ("RunInstances", "RequestLimitExceeded"),
        ("DescribeInstances", "UnauthorizedOperation"),
    ):
        scene.server.answers = {action: code}
        assert code in (await scene.provider.check([good]))["east"]
    scene.server.answers = {"DescribeSpotPriceHistory": "UnauthorizedOperation"}
    assert "UnauthorizedOperation" in (await Ec2Provider(INSTALLATION, scene.server.client).check([spot]))["spot"]
    assert scene.server.instances() == []


async def test_a_check_asks_whether_instances_that_are_there_could_be_ended(scene: Ec2Scene) -> None:
    await scene.provider.create(order_of())
    good = OfferAsked(OFFER, Machine(image=IMAGE))
    assert await scene.provider.check([good]) == {"east": ""}
    scene.server.answers = {"TerminateInstances": "UnauthorizedOperation"}
    assert "UnauthorizedOperation" in (await scene.provider.check([good]))["east"]
    scene.mend()
    assert await scene.running() == ["cloud-1"]


async def test_what_lacks_our_tags_is_not_ended_even_by_its_number(scene: Ec2Scene) -> None:
    launch = {"ImageId": IMAGE, "InstanceType": "t2.micro", "MinCount": 1, "MaxCount": 1}
    stranger = scene.server.client(REGION).run_instances(**launch)["Instances"][0]["InstanceId"]
    await scene.provider.create(order_of())
    ours = next(one["InstanceId"] for one in scene.server.instances() if one["InstanceId"] != stranger)
    for provider, number in ((scene.provider, stranger), (scene.of("inst-2"), ours)):
        with pytest.raises(NotYet):
            await provider.end("cloud-1", f"{REGION}/{number}", REGION)
    assert {one["State"]["Name"] for one in scene.server.instances()} == {"running"}


async def test_an_instance_that_is_protected_against_its_end_is_said_so(scene: Ec2Scene) -> None:
    await scene.provider.create(order_of())
    scene.server.answers = {"TerminateInstances": "OperationNotPermitted"}
    with pytest.raises(ProviderAway, match="OperationNotPermitted"):
        await scene.provider.end("cloud-1", "", REGION)
    assert await scene.running() == ["cloud-1"]


async def test_an_end_whose_answer_was_lost_is_made_again(scene: Ec2Scene) -> None:
    made = await scene.provider.create(order_of())
    assert isinstance(made, Created)
    scene.server.lost = {"TerminateInstances"}
    with pytest.raises(ProviderAway):
        await scene.provider.end("cloud-1", made.provider_id, REGION)
    scene.mend()
    await scene.provider.end("cloud-1", made.provider_id, REGION)
    assert await scene.running() == []


async def test_an_instance_that_ec2_does_not_show_yet_has_not_ended(scene: Ec2Scene) -> None:
    scene.server.lagging = 2
    made = await scene.provider.create(order_of())
    assert isinstance(made, Created)
    for _ in range(2):
        with pytest.raises(NotYet, match="EC2 does not show i-"):
            await scene.provider.end("cloud-1", made.provider_id, REGION)
    assert only(scene)["State"]["Name"] == "running"
    await scene.provider.end("cloud-1", made.provider_id, REGION)
    assert only(scene)["State"]["Name"] == "terminated"


async def test_instances_of_several_regions_are_listed(scene: Ec2Scene) -> None:
    await scene.provider.create(order_of())
    west = Offer(name="west", type=OFFER.type, region="us-west-2")
    await scene.provider.create(order_of("cloud-2", offer=west))
    found = await scene.provider.list([REGION, "us-west-2"])
    assert [(one.instance, one.region) for one in found] == [("cloud-1", REGION), ("cloud-2", "us-west-2")]
    await scene.provider.end("cloud-2", found[1].provider_id, "us-west-2")
    assert only(scene, "us-west-2")["State"]["Name"] == "terminated"


async def test_long_lists_are_read_to_their_end() -> None:
    class Pages:
        """Three pages of one instance each."""

        def describe_instances(self, NextToken: str = "0", **_: object) -> dict[str, Any]:  # noqa: N803 - as boto3 has it
            number = int(NextToken)
            tags = [{"Key": "headrace:instance", "Value": f"cloud-{number}"}]
            one = {"InstanceId": f"i-{number}", "State": {"Name": "pending"}, "LaunchTime": datetime.now(UTC), "Tags": tags}
            more = {"NextToken": str(number + 1)} if number < 2 else {}
            return {"Reservations": [{"Instances": [one]}], **more}

    found = await Ec2Provider(INSTALLATION, lambda _region: Pages()).list([""])
    assert [(one.instance, one.provider_id) for one in found] == [("cloud-0", "i-0"), ("cloud-1", "i-1"), ("cloud-2", "i-2")]


async def test_only_prices_of_spot_instances_are_asked_for_and_kept_for_a_while(scene: Ec2Scene) -> None:
    prices = await scene.provider.prices((OFFER, SPOT))
    assert (set(prices), prices["spot"] > 0) == ({"spot"}, True)
    assert await scene.provider.prices((OFFER, SPOT)) == prices
    assert scene.server.calls["DescribeSpotPriceHistory"] == 1


async def test_a_server_that_is_not_there_is_away() -> None:
    def client(_region: str) -> Any:
        import boto3
        from botocore.config import Config

        config = Config(retries={"total_max_attempts": 1}, connect_timeout=1)
        session = boto3.session.Session(aws_access_key_id="k", aws_secret_access_key="s")
        return session.client("ec2", region_name=REGION, endpoint_url="http://127.0.0.1:1", config=config)

    with pytest.raises(ProviderAway):
        await Ec2Provider(INSTALLATION, client).list([REGION])

"""Which network jobs in containers have (R44), on a machine whose network is a namespace of this test.

On that machine something plays the metadata service of a cloud, and something listens at the loopback address and at an abstract socket.
"""

from __future__ import annotations

import asyncio
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.containers.conftest import Site
from tests.integration.nodes import Feed
from tests.private_network import ADDRESS, WHY_NOT, entered, private_network
from tests.real_engine import IMAGE, NotHere, Podman, podman

ABSTRACT = "\0held-by-the-host"

OTHER = "192.0.2.1"
PLAYING = """\
add chain ip playing pre {{ type nat hook prerouting priority -100; }}
add rule ip playing pre ip daddr {} tcp dport 80 dnat to {}:8080
"""

LOOKS = """\
readlink /proc/self/ns/net
while read name rest; do case $name in *:) echo $name;; esac; done < /proc/net/dev
reaches() { (: < /dev/tcp/$1/$2) 2> /dev/null && echo "reaches $3"; }
reaches 127.0.0.1 PORT 'the loopback address of the host'
reaches 169.254.169.254 80 'the metadata service'
reaches 169.254.169.254 53 'names at its address'
case "$(cat /proc/net/unix)" in *held-by-the-host*) echo 'sees abstract sockets of the host';; esac
echo looked
"""


@pytest.fixture(scope="module")
def machine_network() -> Iterator[tuple[str, ...]]:
    """The network of the machine, in which this process is meanwhile."""
    if WHY_NOT:
        pytest.skip(WHY_NOT)
    with private_network() as within, entered(within):
        yield within


@pytest.fixture(scope="module")
def engine(machine_network, place: Path) -> Iterator[Podman]:
    (place / "net").mkdir(mode=0o700)
    trying = podman(place / "net", own_network=False)
    try:
        one = next(trying)
    except NotHere as reason:
        pytest.skip(f"no container engine works here: {reason}")
    if one.no_bridge:
        pytest.skip(f"the container engine can give containers no network of their own here: {one.no_bridge}")
    yield one
    next(trying, None)


@pytest.fixture
def port(machine_network) -> Iterator[int]:
    """Where something listens at the loopback address of the machine; it holds an abstract socket, too."""
    with socket.create_server(("127.0.0.1", 0)) as one, socket.socket(socket.AF_UNIX) as other:
        other.bind(ABSTRACT)
        other.listen()
        yield one.getsockname()[1]


async def seen(feed: Feed, number: int, port: int, **fields: object) -> tuple[str, list[str]]:
    """The network namespace of a job, and what it finds there."""
    job = await feed.start(number, "bash", "-c", LOOKS.replace("PORT", str(port)), **fields)
    ended = await feed.ended(job)
    *lines, last = (await feed.read_log(job)).data.splitlines()
    assert (ended.exit_code, last) == (0, "looked"), (ended, lines, last)
    return lines[0], lines[1:]


def nft(rules: str) -> None:
    """Change the rules of the machine's firewall."""
    subprocess.run(["nft", rules], check=True)


def of_machine() -> list[str]:
    """The interfaces of the machine."""
    return [f"{name}:" for _, name in socket.if_nameindex()]


async def test_a_container_has_the_network_of_its_host_only_if_its_order_says_so_and_the_metadata_service_with_none(
    feed: Feed, site: Site, engine: Podman, port: int
) -> None:
    lookers = [socket.create_connection(at, 10) for at in (("127.0.0.1", port), (ADDRESS, 80))]
    for one in lookers:
        one.close()
    private, found = await seen(feed, 0, port, image=IMAGE, network="private")
    assert (private != engine.namespace, found) == (True, ["lo:", "eth0:", "reaches names at its address"])
    alone, found = await seen(feed, 1, port, image=IMAGE, network="none")
    assert (alone != engine.namespace, found) == (True, ["lo:"])
    hosts = ["reaches the loopback address of the host", "reaches names at its address", "sees abstract sockets of the host"]
    host, found = await seen(feed, 2, port, image=IMAGE, network="host")
    assert (host, sorted(found)) == (engine.namespace, sorted([*of_machine(), *hosts]))
    former, found = await seen(feed, 3, port, image=IMAGE)
    assert (former, sorted(found)) == (engine.namespace, sorted([*of_machine(), *hosts])), "as before level 3"
    process, found = await seen(feed, 4, port)
    assert (process, sorted(found)) == (engine.namespace, sorted([*of_machine(), *hosts]))


@pytest.fixture
def played_at_another_address(machine_network) -> Iterator[None]:
    """What is sent to the metadata service reaches a program at another address of the machine, as some clouds have it."""
    nft(f"add table ip playing\n{PLAYING.format(ADDRESS, OTHER)}")
    subprocess.run(["ip", "addr", "add", f"{OTHER}/32", "dev", "lo"], check=True)
    with socket.create_server((OTHER, 8080)):
        yield
    subprocess.run(["ip", "addr", "del", f"{OTHER}/32", "dev", "lo"], check=True)
    nft("delete table ip playing")


async def test_a_metadata_service_that_is_played_at_another_address_is_denied_as_well_by_the_rules_of_the_executor(
    feed: Feed, site: Site, played_at_another_address, port: int
) -> None:
    _, found = await seen(feed, 0, port, image=IMAGE, network="private")
    assert found == ["lo:", "eth0:", "reaches names at its address"]
    await asyncio.to_thread(nft, "delete table inet headrace_containers")
    _, found = await seen(feed, 1, port, image=IMAGE, network="private")
    assert found == ["lo:", "eth0:", "reaches the metadata service", "reaches names at its address"]


async def test_a_network_that_was_removed_is_made_again_and_another_of_its_name_is_refused(
    feed: Feed, site: Site, engine: Podman, port: int
) -> None:
    await seen(feed, 0, port, image=IMAGE, network="private")
    engine.call("network", "rm", "headrace")
    _, found = await seen(feed, 1, port, image=IMAGE, network="private")
    assert found == ["lo:", "eth0:", "reaches names at its address"]
    engine.call("network", "rm", "headrace")
    engine.call("network", "create", "headrace")
    ended = await feed.ended(await feed.start(2, "true", image=IMAGE, network="private"))
    engine.call("network", "rm", "headrace")
    message = (
        "the node cannot start a container: the container engine's network headrace is not the bridge headrace0 of private containers; "
        "remove it, so that it is made again (podman network rm headrace), or write network: host in the profile"
    )
    assert (ended.outcome, ended.message) == ("refused", message)


async def test_what_the_engine_lacks_for_a_private_network_is_said_before_the_job_runs(
    feed: Feed, site: Site, engine: Podman, tmp_path: Path
) -> None:
    only_podman = tmp_path / "bin"  # without iptables
    only_podman.mkdir()
    (only_podman / "podman").symlink_to(shutil.which("podman") or "")
    engine.stop()
    engine.start(PATH=str(only_podman))
    try:
        ended = await feed.ended(await feed.start(0, "touch", "ran", image=IMAGE, network="private"))
    finally:
        engine.stop()
        engine.start()
    way_out = (
        " the container engine could not make the job's private network: see that netavark or the plugins of CNI, and iptables or "
        "nftables, are installed for it, or write network: host in the profile"
    )
    ran = list(site.data.rglob("ran"))
    assert (ended.outcome, ran, ended.message.partition(";")[2]) == ("refused", [], way_out)

"""What is written for services elsewhere: an environment for each, the servers' and the gateway's configuration, logins made once."""

from __future__ import annotations

import json
import stat

import msgspec
import pytest
from cryptography import x509

from headrace.supervisor.cluster import cluster_config
from headrace.supervisor.cluster.cluster_config import ClusterConfig
from headrace.supervisor.errors import InstallationError
from headrace.supervisor.installation import Installation

HERE = ClusterConfig(nats=("nats://127.0.0.1:4222",), postgres="postgresql://h:x@db/headrace")
THREE = ("tls://n1", "tls://n2:4333", "tls://n3")
APART = ClusterConfig(
    nats=THREE, postgres="x", tls_cert="/c", tls_key="/k", tls_ca="/ca", directory="/var/lib/headrace", listen="0.0.0.0:8080"
)


@pytest.fixture
def installation(tmp_path):
    return Installation(tmp_path / "data")


def environments(installation):
    return {
        path.stem: dict(line.split("=", 1) for line in path.read_text().splitlines())
        for path in (installation.directory / "env").iterdir()
    }


def test_each_process_has_an_environment_of_its_own_that_no_other_may_read(installation):
    files = cluster_config.write(installation, HERE)
    found = environments(installation)
    assert sorted(found) == [
        *("accounting", "admission", "allocator@1", "allocator@2", "audit", "callout@1", "callout@2"),
        *("feed@1", "feed@2", "governance", "preemption@1", "preemption@2", "provisioner@1", "provisioner@2"),
    ]
    assert {stat.S_IMODE(path.stat().st_mode) for path in files if path != installation.endpoint} == {0o600}
    second = found["allocator@2"]
    assert (second["HEADRACE_TURN"], second["HEADRACE_INSTANCE"], second["HEADRACE_NATS_USER"]) == (
        "later",
        "allocator-standby",
        "allocator",
    )
    assert found["allocator@1"]["HEADRACE_NATS_PASSWORD"] == second["HEADRACE_NATS_PASSWORD"]
    assert [name for name, one in found.items() if "HEADRACE_POSTGRES_DSN" in one] == ["accounting"]
    assert found["governance"]["HEADRACE_API"] == f"unix:{installation.directory}/gateway/api.sock"
    assert len({one["HEADRACE_INSTALLATION"] for name, one in found.items() if name.startswith("provisioner@")}) == 1
    places = [one["HEADRACE_METRICS"] for one in found.values()]
    assert len(set(places)) == len(places) == 14
    assert found["allocator@1"]["HEADRACE_METRICS"] == "127.0.0.1:9103"
    assert second["HEADRACE_METRICS"] == "127.0.0.1:9113"


def test_written_again_logins_stay_and_what_was_said_is_kept(installation):
    cluster_config.write(installation, HERE)
    before = environments(installation)
    cluster_config.write(installation, msgspec.structs.replace(cluster_config.kept(installation), currency="EUR"))
    after = environments(installation)
    assert after["accounting"].pop("HEADRACE_CURRENCY") == "EUR"
    assert before["accounting"].pop("HEADRACE_CURRENCY") == "USD"
    assert after == before


def test_three_servers_know_each_other_and_have_all_logins(installation):
    cluster_config.write(installation, APART)
    texts = [(installation.directory / f"nats/headrace-{number}.conf").read_text() for number in (1, 2, 3)]
    assert ['listen: "0.0.0.0:4222"' in texts[0], 'listen: "0.0.0.0:4333"' in texts[1]] == [True, True]
    for text in texts:
        assert "@n1:6222" in text
        assert "@n3:6222" in text
        assert 'cert_file: "/c"' in text
        assert installation.service("allocator").password in text
        assert installation.metrics_token() not in text
    assert environments(installation)["feed@1"]["HEADRACE_CA"] == "/ca"
    assert environments(installation)["feed@1"]["HEADRACE_DATA"] == "/var/lib/headrace"


def test_a_development_authority_covers_the_servers_and_is_trusted_by_every_process_and_the_command_line(installation):
    config = msgspec.structs.replace(HERE, nats=("tls://nats:4222",), dev_ca=True, reached_as=("gpu-hall", "10.1.2.3"))
    cluster_config.write(installation, config)
    tls = installation.directory / "tls"
    held = x509.load_pem_x509_certificate((tls / "server.pem").read_bytes()).extensions
    names = held.get_extension_for_class(x509.SubjectAlternativeName).value
    assert sorted(str(name.value) for name in names) == ["10.1.2.3", "127.0.0.1", "gpu-hall", "localhost", "nats"]
    assert f'cert_file: "{tls}/server.pem"' in (installation.directory / "nats/headrace-1.conf").read_text()
    assert {one["HEADRACE_CA"] for one in environments(installation).values()} == {f"{tls}/ca.pem"}
    assert json.loads(installation.endpoint.read_text())["ca"] == f"{tls}/ca.pem"
    before = (tls / "server.pem").read_bytes()
    cluster_config.write(installation, config)
    assert (tls / "server.pem").read_bytes() == before


def test_a_simulated_node_gets_a_login_that_the_server_knows_and_an_environment(installation):
    cluster_config.write(installation, msgspec.structs.replace(HERE, nodes=("sim",)))
    own = environments(installation)["node-sim"]
    assert (own["HEADRACE_NATS_USER"], own["HEADRACE_METRICS"]) == ("node-sim", "127.0.0.1:9100")
    assert own["HEADRACE_NATS_PASSWORD"] in (installation.directory / "nats/headrace-1.conf").read_text()


def test_one_server_alone_on_the_loopback_listens_only_there(installation):
    cluster_config.write(installation, HERE)
    text = (installation.directory / "nats/headrace-1.conf").read_text()
    assert 'listen: "127.0.0.1:4222"' in text
    assert "cluster" not in text


def test_the_gateway_finds_the_api_and_what_it_speaks_where_the_services_run(installation):
    cluster_config.write(installation, APART)
    text = installation.gateway_config.read_text()
    assert '"/var/lib/headrace/gateway/api.sock"' in text
    assert '"/var/lib/headrace/gateway/api.pb"' in text
    assert json.loads(text)["static_resources"]["listeners"][0]["address"]["socket_address"] == {
        "address": "0.0.0.0",
        "port_value": 8080,
    }
    assert json.loads(installation.endpoint.read_text())["url"] == ",".join(THREE)


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"nats": ("n1:4222",)}, "--nats: invalid address 'n1:4222'"),
        ({"nats": ("http://n1",)}, "invalid address .*; write nats://HOST:4222"),
        ({"nats": ("nats://u:p@n1",)}, "invalid address"),
        ({"nats": ("nats://127.0.0.1:x",)}, "invalid address"),
        ({"nats": ("tls://a", "tls://b"), "tls_cert": "c", "tls_key": "k"}, "2 servers; one alone, or three"),
        ({"nats": ("tls://a", "nats://b", "tls://c")}, "all of them with tls://, or none"),
        ({"nats": ("tls://a",)}, "takes --tls-cert and --tls-key"),
        ({"nats": ("nats://db",)}, "db is beyond this machine: take tls://, or --in-the-clear"),
        ({"dev_ca": True}, "--dev-ca: the certificate is for tls://"),
        ({"postgres": "host=db password='x y'"}, "--postgres: no blanks"),
        ({"listen": "8080"}, "--listen: invalid address '8080'"),
    ],
)
def test_what_cannot_be_is_refused_with_the_way_out_and_nothing_is_written(installation, changes, complaint):
    with pytest.raises(InstallationError, match=complaint.replace("(", r"\(")):
        cluster_config.write(installation, msgspec.structs.replace(HERE, **changes))
    assert not installation.directory.exists()


def test_before_anything_was_written_that_is_said(installation):
    with pytest.raises(InstallationError, match="nothing has been written into .* yet: `headrace config write` does"):
        cluster_config.kept(installation)


def test_in_the_clear_has_to_be_said(installation):
    cluster_config.write(installation, msgspec.structs.replace(HERE, nats=("nats://db",), in_the_clear=True))
    assert 'listen: "0.0.0.0:4222"' in (installation.directory / "nats/headrace-1.conf").read_text()

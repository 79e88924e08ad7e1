"""The data directory: made once, closed to others, and the same at the next start."""

from __future__ import annotations

import json
import os

import pytest

from headrace.client.endpoint import Login, find
from headrace.supervisor.errors import InstallationError
from headrace.supervisor.installation import Installation, Settings, as_token, write_whole
from headrace.supervisor.network.certificates import Certificates


@pytest.fixture
def installation(tmp_path):
    made = Installation(tmp_path / "data")
    made.prepare()
    return made


def mode(path):
    return path.stat().st_mode & 0o777


@pytest.mark.skipif(os.geteuid() != 0, reason="only for root jobs run as others")
def test_where_jobs_run_as_accounts_of_their_own_these_pass_through_and_see_nothing(tmp_path):
    installation = Installation(tmp_path / "closed" / "data")
    installation.directory.parent.mkdir(mode=0o700)
    installation.prepare()
    (installation.directory / "endpoint.json").write_text("{}")
    (installation.directory / "seals").mkdir(mode=0o755)
    installation.prepare()
    assert {
        entry.name: mode(entry) for entry in (tmp_path / "closed", installation.directory, *installation.directory.iterdir())
    } == {
        **dict.fromkeys(("closed", "data", "nodes"), 0o701),
        **dict.fromkeys(("credentials", "gateway", "logs", "metrics", "nats", "seals"), 0o700),
        "endpoint.json": 0o600,
    }


def test_others_may_not_look_into_the_directory(installation):
    folders = [installation.credentials, installation.logs, installation.nats_store]
    assert [mode(folder) for folder in folders] == [0o700] * 3
    assert mode(installation.directory) in (0o700, 0o701)


def test_others_may_go_on_passing_through_where_they_could(installation):
    installation.directory.chmod(0o755)
    installation.prepare()
    assert mode(installation.directory) == 0o711


def test_a_directory_that_cannot_be_made_is_one_line(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(InstallationError, match="cannot be used: Not a directory; name another with --data"):
        Installation(tmp_path / "file" / "data").prepare()


def test_settings_are_the_first_ones_until_others_are_kept(installation, monkeypatch):
    monkeypatch.setattr("socket.gethostname", lambda: "GPU01.hq")
    assert installation.settings() == Settings(host="gpu01-hq", nodes=1, gpus=8, gpu_model="H100-80GB", labels={"site": "hq"})
    kept = Settings(host="gpu01-hq", nats_port=4222, nodes=3, gpus=4, gpu_model="A100-80GB", labels={"site": "lab"})
    installation.keep_settings(kept)
    assert Installation(installation.directory).settings() == kept


def test_damaged_settings_are_one_line(installation):
    (installation.directory / "installation.json").write_text("{")
    with pytest.raises(InstallationError, match="is damaged: .*; remove it"):
        installation.settings()


def test_a_login_is_made_once_and_stays_a_secret(installation):
    login = installation.node("gpu01")
    assert login == Login(name="node-gpu01", password=login.password, kind="node", node="gpu01")
    assert len(login.password) == 32
    assert installation.node("gpu01") == login
    assert mode(installation.credentials / "node-gpu01.json") == 0o600
    assert installation.node("gpu02").password != login.password


def test_a_node_has_a_name_that_can_be_part_of_a_subject(installation):
    for name in ("GPU01", "", "x" * 58):
        with pytest.raises(InstallationError, match="invalid node name .*: use 1 to 57 of a-z"):
            installation.node(name)


def test_a_damaged_login_says_how_to_get_a_new_one(installation):
    (installation.credentials / "owner.json").write_text("{")
    with pytest.raises(InstallationError, match="is damaged: .*remove it, and a new one is made"):
        installation.owner()


def test_the_owner_is_an_admin_called_as_the_system_calls_them(installation, monkeypatch):
    monkeypatch.setattr("getpass.getuser", lambda: "Ada.Lovelace")
    owner = installation.owner()
    assert (owner.kind, owner.tenant, owner.user) == ("admin", "default", "ada-lovelace")


def test_the_server_knows_every_login_but_the_databases(installation):
    installation.postgres_password()
    installation.node("gpu01")
    installation.write_nats_config((4222,))
    text = installation.servers()[0].config.read_text()
    assert mode(installation.servers()[0].config) == 0o600
    assert "127.0.0.1:4222" in text
    for name in ("operator", "owner", "node-gpu01", "admission", "allocator", "preemption", "governance", "feed", "accounting"):
        password = json.loads((installation.credentials / f"{name}.json").read_text())["password"]
        assert f'user: "{name}", password: "{password}"' in text
    assert installation.postgres_password() not in text


def test_clients_find_the_address_and_the_owners_login(installation):
    installation.write_endpoint("nats://127.0.0.1:4222")
    assert find(data=installation.directory, environment={}) == ("nats://127.0.0.1:4222", installation.owner(), "")


def test_with_an_authority_of_its_own_everything_speaks_tls(installation):
    installation.keep_settings(Settings(host="gpu01", dev_ca=True, listen="0.0.0.0", reached_as="gpu01.example"))
    tls = installation.certificates()
    installation.write_nats_config((4222,))
    text = installation.servers()[0].config.read_text()
    assert f'tls {{cert_file: "{tls.certificate}", key_file: "{tls.key}", timeout: 5}}' in text
    assert 'listen: "0.0.0.0:4222"' in text
    installation.write_gateway_config(8080)
    assert tls.certificate in installation.gateway_config.read_text()
    installation.write_endpoint("tls://gpu01.example:4222")
    assert find(data=installation.directory, environment={}).ca == tls.ca
    installation.keep_settings(Settings(host="gpu01", tls=Certificates(certificate="/c", key="/k")))
    assert installation.certificates() == Certificates(certificate="/c", key="/k")


def test_three_servers_know_each_other_by_a_password_of_their_own(installation):
    installation.keep_settings(Settings(host="gpu01", nats_servers=3))
    installation.write_nats_config((4222, 4223, 4224), (6222, 6223, 6224))
    places = installation.servers()
    assert [place.name for place in places] == ["nats-server-1", "nats-server-2", "nats-server-3"]
    assert len({place.store for place in places}) == 3
    password = installation.login("routes", "routes").password
    routes = [f"nats-route://routes:{password}@127.0.0.1:{port}" for port in (6222, 6223, 6224)]
    for number, place in enumerate(places):
        text = place.config.read_text()
        assert (mode(place.config), mode(place.store)) == (0o600, 0o700)
        assert f'server_name: "headrace-{number + 1}"' in text
        assert f'listen: "127.0.0.1:{4222 + number}"' in text
        assert f'listen: "127.0.0.1:{6222 + number}"' in text
        assert f"routes: {json.dumps(routes)}" in text
        assert f'store_dir: "{place.store}", sync_interval: always' in text
        assert 'user: "routes", password: "' not in text.partition("cluster {")[0]


def test_what_one_server_has_begun_is_not_given_to_three_nor_the_other_way_round(installation):
    (installation.nats_store / "jetstream").mkdir()
    assert [place.store for place in installation.servers(1)] == [installation.nats_store]
    with pytest.raises(InstallationError, match="--nats-servers: .* was begun with 1; say so, or name another directory"):
        installation.servers(3)
    (installation.nats_store / "jetstream").rmdir()
    (installation.servers(3)[1].store / "jetstream").mkdir(parents=True)
    with pytest.raises(InstallationError, match="--nats-servers: .* was begun with 3"):
        installation.servers(1)


def test_any_name_becomes_a_token():
    assert [as_token(name) for name in ("GPU01.hq", "ada", "Ünï", "...", "x" * 60)] == [
        "gpu01-hq",
        "ada",
        "n",
        "local",
        "x" * 48,
    ]


def test_a_file_is_written_whole_or_not_at_all(tmp_path):
    path = tmp_path / "file"
    write_whole(path, b"first")
    write_whole(path, b"second", 0o600)
    assert (path.read_bytes(), mode(path), list(tmp_path.iterdir())) == (b"second", 0o600, [path])
    (tmp_path / "folder").mkdir()
    with pytest.raises(InstallationError, match="folder cannot be written: Is a directory"):
        write_whole(tmp_path / "folder", b"x")
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["file", "folder"]

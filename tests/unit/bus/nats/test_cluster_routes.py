"""Several servers are one by what stands in each one's configuration; the server itself reads it in the integration tests."""

from __future__ import annotations

from headrace.bus.nats.cluster_routes import Routes, clustered

EVERYBODY = ("n1:6222", "n2:6222", "n3:6222")


def test_each_listens_to_the_others_and_shows_them_a_password():
    assert clustered(Routes("0.0.0.0:6222", EVERYBODY, "routes", "s3cret")) == [
        "cluster {",
        "  name: headrace",
        '  listen: "0.0.0.0:6222"',
        "  no_advertise: true",
        '  authorization: {"user": "routes", "password": "s3cret", "timeout": 3}',
        '  routes: ["nats-route://routes:s3cret@n1:6222", "nats-route://routes:s3cret@n2:6222", "nats-route://routes:s3cret@n3:6222"]',
        "}",
    ]


def test_with_certificates_they_look_at_each_others():
    (line,) = (line for line in clustered(Routes("x:1", EVERYBODY, "r", "p", ("/c", "/k", "/ca"))) if "tls" in line)
    assert line == '  tls: {"cert_file": "/c", "key_file": "/k", "ca_file": "/ca", "timeout": 5}'
    (line,) = (line for line in clustered(Routes("x:1", EVERYBODY, "r", "p", ("/c", "/k", ""))) if "tls" in line)
    assert line == '  tls: {"cert_file": "/c", "key_file": "/k", "timeout": 5}'

from __future__ import annotations

import msgspec
import pytest

from headrace.cli.arguments import Failed
from headrace.cli.main import parser
from headrace.cli.operations import up
from headrace.supervisor.installation import Settings
from headrace.supervisor.network.certificates import Certificates

LAST = Settings(host="gpu01", nats_port=4222, nodes=2, gpus=4, gpu_model="A100-80GB", labels={"site": "lab"})
SECURE = Certificates(certificate=__file__, key=__file__, ca=__file__)


@pytest.mark.parametrize(
    ("line", "changes"),
    [
        ("up --dev-ca", {"dev_ca": True}),
        (
            "up --dev-ca --listen 0.0.0.0 --reached-as gpu.example",
            {"dev_ca": True, "listen": "0.0.0.0", "reached_as": "gpu.example"},
        ),
        (f"up --tls-cert {__file__} --tls-key {__file__} --tls-ca {__file__}", {"tls": SECURE}),
        ("up --no-tls", {}),
        ("up --standby", {"standby": True}),
        ("up --no-standby", {}),
    ],
)
def test_where_it_listens_and_with_what_is_said_once(line, changes):
    settings = up.changed_settings(LAST, parser().parse_args(line.split()))
    assert settings == msgspec.structs.replace(LAST, **changes)
    assert up.changed_settings(settings, parser().parse_args(["up"])) == settings


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("up --listen 0.0.0.0", "--listen: beyond 127.0.0.1 TLS is required"),
        ("up --dev-ca --listen 10.0.0.7", "--listen: invalid address '10.0.0.7': write 127.0.0.1, or 0.0.0.0 or ::"),
        (f"up --tls-cert {__file__}", "--tls-cert and --tls-key go together"),
        (f"up --tls-cert /no/such --tls-key {__file__}", "--tls-cert: /no/such cannot be read"),
    ],
)
def test_what_would_be_heard_in_the_clear_or_is_not_there_is_refused(line, says):
    with pytest.raises(Failed, match=says):
        up.changed_settings(LAST, parser().parse_args(line.split()))

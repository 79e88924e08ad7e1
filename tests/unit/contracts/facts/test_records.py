from __future__ import annotations

from headrace.contracts.facts.records import digest


def test_a_digest_names_bytes_by_128_bits():
    assert digest(b"") == "cae66941d9efbd404e4d88758ea67670"
    assert digest(b"{}") != digest(b"{} ")

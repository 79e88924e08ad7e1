from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

from headrace.service import engine_version


def test_a_record_names_the_installed_version():
    assert f"headrace/{version('headrace-services')}" == engine_version.ENGINE


def test_without_an_installation_the_version_is_zero(monkeypatch):
    def missing(name):
        raise PackageNotFoundError(name)

    monkeypatch.setattr(engine_version, "version", missing)
    assert engine_version._installed() == "0"

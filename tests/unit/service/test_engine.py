from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

from headrace.service import engine


def test_a_record_names_the_installed_version():
    assert f"headrace/{version('headrace-services')}" == engine.ENGINE


def test_without_an_installation_the_version_is_zero(monkeypatch):
    def missing(name):
        raise PackageNotFoundError(name)

    monkeypatch.setattr(engine, "version", missing)
    assert engine._installed() == "0"

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

from headrace.service import engine_version


def test_a_record_names_the_installed_version():
    assert f"headrace/{version('headrace')}" == engine_version.ENGINE


def test_without_an_installation_the_version_is_zero(monkeypatch):
    def missing(name):
        raise PackageNotFoundError(name)

    monkeypatch.setattr(engine_version, "version", missing)
    assert engine_version.installed_version() == "0"


def test_rules_are_compiled_if_their_module_is_a_library(monkeypatch):
    class Found:
        origin = "/lib/headrace/domain/fold/apply.cpython-311-x86_64-linux-gnu.so"

    monkeypatch.setattr(engine_version, "find_spec", lambda _name: Found)
    assert engine_version.has_compiled_rules()
    Found.origin = "/lib/headrace/domain/fold/apply.py"
    assert not engine_version.has_compiled_rules()
    monkeypatch.setattr(engine_version, "find_spec", lambda _name: None)
    assert not engine_version.has_compiled_rules()

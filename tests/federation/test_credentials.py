"""An authority of one's own: what lies where, who is allowed, and who is not."""

from __future__ import annotations

import datetime
import json
import ssl
import stat
from pathlib import Path

import pytest
from cryptography import x509
from typer.testing import CliRunner

from shoal.base.errors import InputError
from shoal.cli.app import app
from shoal.federation.credentials import Credentials, fingerprint
from tests.federation.certificates import authority


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_keys_are_private_and_children_get_no_authority(tmp_path: Path) -> None:
    parent, children = authority(tmp_path, "anna")
    folder = parent.folder
    assert mode(folder) == 0o700
    assert {path.name for path in folder.iterdir()} == {
        "ca.key", "ca.pem", "parent.key", "parent.pem", "allowed.json", "issued"
    }  # fmt: skip
    for key in tmp_path.rglob("*.key"):
        assert mode(key) == 0o600
    assert {path.name for path in children["anna"].folder.iterdir()} == {"ca.pem", "own.key", "own.pem", "allowed.json"}
    assert mode(folder / "issued" / "anna") == 0o700
    assert children["anna"].name == "anna"
    assert parent.name == "parent"


def test_each_end_has_a_list_of_the_other(tmp_path: Path) -> None:
    parent, children = authority(tmp_path, "anna", "bert")
    assert sorted(parent.allowed().values()) == ["anna", "bert"]
    own = fingerprint((children["anna"].folder / "own.pem").read_bytes())
    assert parent.allowed()[own] == "anna"
    assert children["anna"].allowed() == {fingerprint((parent.folder / "parent.pem").read_bytes()): "parent"}


def test_who_is_revoked_is_not_allowed_and_may_get_another(tmp_path: Path) -> None:
    parent, _ = authority(tmp_path, "anna", "bert")
    parent.revoke("anna")
    assert list(parent.allowed().values()) == ["bert"]
    assert [(one.name, one.revoked) for one in parent.list()] == [("anna", True), ("bert", False)]
    with pytest.raises(InputError, match="those who have one: bert"):
        parent.revoke("anna")
    parent.issue("anna")
    assert sorted(parent.allowed().values()) == ["anna", "bert"]


def test_mistakes_are_told(tmp_path: Path) -> None:
    parent, children = authority(tmp_path, "anna")
    with pytest.raises(InputError, match="not empty"):
        parent.init(["localhost"])
    with pytest.raises(InputError, match="has a certificate"):
        parent.issue("anna")
    with pytest.raises(InputError, match="has a certificate"):
        parent.issue("parent")
    with pytest.raises(InputError, match="cannot name a folder"):
        parent.issue("../anna")
    with pytest.raises(InputError, match="holds no authority"):
        children["anna"].issue("bert")
    (children["anna"].folder / "own.key").chmod(0o644)
    with pytest.raises(InputError, match="chmod 600"):
        children["anna"].context(server=False)
    with pytest.raises(InputError, match="is missing"):
        Credentials(tmp_path / "nothing").context(server=False)
    (parent.folder / "allowed.json").write_text("[")
    with pytest.raises(InputError, match="cannot be read"):
        parent.allowed()


def test_both_contexts_ask_for_tls_13_and_a_certificate(tmp_path: Path) -> None:
    parent, children = authority(tmp_path, "anna")
    for context in (parent.context(server=True), children["anna"].context(server=False)):
        assert context.minimum_version == ssl.TLSVersion.TLSv1_3
        assert context.verify_mode == ssl.CERT_REQUIRED
    assert children["anna"].context(server=False).check_hostname


def test_clocks_may_differ_by_hours(tmp_path: Path) -> None:
    parent, children = authority(tmp_path, "anna")
    hour = datetime.timedelta(hours=1)
    now = datetime.datetime.now(datetime.UTC)
    for path in (parent.folder / "ca.pem", parent.folder / "parent.pem", children["anna"].folder / "own.pem"):
        certificate = x509.load_pem_x509_certificate(path.read_bytes())
        assert certificate.not_valid_before_utc < now - 12 * hour
        assert certificate.not_valid_after_utc > now + 12 * hour


def test_the_commands(in_tmp: Path) -> None:
    def shoal(*words: str) -> str:
        done = CliRunner().invoke(app, ["credentials", *words], catch_exceptions=False)
        assert done.exit_code == 0, done.output
        return done.output

    assert "keep it to yourself" in shoal("init", "--address", "parent.example", "--address", "10.0.0.1")
    assert "credentials/issued/anna" in shoal("issue", "anna")
    assert "until" in shoal("list")
    assert "hangs up" in shoal("revoke", "anna")
    (only,) = json.loads(shoal("list", "--json"))
    assert (only["name"], only["revoked"]) == ("anna", True)

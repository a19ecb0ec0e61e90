"""Who may take part: a certificate authority of one's own, a certificate for each end, and a list of those that are allowed.

    credentials/            0700, stays with the parent
      ca.key ca.pem         signs certificates
      parent.key parent.pem the parent's own
      allowed.json          fingerprint -> name, of those that were issued; revoking removes one
      issued/NAME/          what a child's machine needs: ca.pem, own.key, own.pem, allowed.json with the parent's fingerprint

Keys are 0600 and go nowhere: a child gets its own, by a way that its owner trusts.
"""

from __future__ import annotations

import datetime
import ipaddress
import json
import os
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shoal.base.errors import InputError
from shoal.base.files import as_typed, check_name, make_folder, read_small, write_atomic

DAYS = 365
"""That a certificate is good for."""
EARLIER = datetime.timedelta(days=1)
"""Certificates are good from a while ago on: clocks differ."""
PARENT = "parent"
OWN = "own"


def require_federation() -> None:
    """The libraries are there."""
    try:
        import cryptography.x509  # noqa: F401
        import websockets.asyncio.client  # noqa: F401
    except ImportError as error:
        raise InputError(f"federation needs {error.name}: install it with pip install 'shoal[federation]'") from None


@dataclass(frozen=True)
class Issued:
    """One certificate, as the list has it."""

    name: str
    fingerprint: str
    until: str
    """The day it ends."""
    revoked: bool


class Credentials:
    """The folder of a parent or of a child."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def is_parent(self) -> bool:
        """It has the authority's key."""
        return (self.folder / "ca.key").exists()

    # ---------------------------------------------------------------- making them

    def init(self, addresses: Sequence[str]) -> None:
        """An authority, and the parent's certificate for the names and addresses that children call it by."""
        require_federation()
        if self.folder.exists() and any(self.folder.iterdir()):
            raise InputError(f"{as_typed(self.folder)} is not empty: choose another folder with --credentials")
        make_folder(self.folder)
        os.chmod(self.folder, 0o700)
        key = _new_key()
        _write_key(self.folder / "ca.key", key)
        write_atomic(self.folder / "ca.pem", _pem(_authority(key)))
        write_atomic(self.folder / "allowed.json", "{}\n")
        _write_pair(self.folder, PARENT, self._sign(PARENT, addresses))

    def issue(self, name: str, addresses: Sequence[str] = ()) -> Path:
        """A certificate for a child, in a folder to be carried to its machine."""
        require_federation()
        self._need_authority()
        check_name("NAME", name)
        if name == PARENT or any(one.name == name and not one.revoked for one in self.list()):
            raise InputError(f"'{name}' has a certificate: revoke it first, or choose another name")
        folder = self.folder / "issued" / name
        make_folder(folder)
        key, certificate = self._sign(name, addresses)
        _write_pair(folder, OWN, (key, certificate))
        write_atomic(folder / "ca.pem", (self.folder / "ca.pem").read_bytes())
        parent = fingerprint((self.folder / f"{PARENT}.pem").read_bytes())
        write_atomic(folder / "allowed.json", _json({parent: {"name": PARENT}}))
        own = fingerprint(_pem(certificate))
        until = certificate.not_valid_after_utc.date().isoformat()
        self._write({**self._read(), own: {"name": name, "until": until, "revoked": False}})
        return folder

    def list(self) -> list[Issued]:
        """All that were issued, revoked ones too."""
        self._need_authority()
        return [
            Issued(entry["name"], digest, entry["until"], entry["revoked"]) for digest, entry in self._read().items()
        ]

    def revoke(self, name: str) -> None:
        """A child is allowed no more. A parent that runs sees it within seconds and hangs up."""
        self._need_authority()
        entries = self._read()
        found = [digest for digest, entry in entries.items() if entry["name"] == name and not entry["revoked"]]
        if not found:
            known = ", ".join(sorted(entry["name"] for entry in entries.values() if not entry["revoked"])) or "nobody"
            raise InputError(f"'{name}' has no certificate; those who have one: {known}")
        for digest in found:
            entries[digest]["revoked"] = True
        self._write(entries)

    def _need_authority(self) -> None:
        if not self.is_parent:
            raise InputError(
                f"{as_typed(self.folder)} holds no authority: make one with `shoal credentials init`, or name its folder with "
                "--credentials"
            )

    def _sign(self, name: str, addresses: Sequence[str]) -> tuple[Any, Any]:
        from cryptography import x509
        from cryptography.hazmat.primitives import serialization

        raw = read_small(self.folder / "ca.key")
        authority: Any = serialization.load_pem_private_key(raw, password=None)
        issuer = x509.load_pem_x509_certificate((self.folder / "ca.pem").read_bytes())
        key = _new_key()
        builder = _builder(name, key, issuer.subject, DAYS).add_extension(
            x509.BasicConstraints(ca=False, path_length=None), critical=True
        )
        uses = [x509.ExtendedKeyUsageOID.SERVER_AUTH, x509.ExtendedKeyUsageOID.CLIENT_AUTH]
        builder = builder.add_extension(x509.ExtendedKeyUsage(uses), critical=False)
        builder = builder.add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.public_key()), critical=False
        )
        if addresses:
            builder = builder.add_extension(x509.SubjectAlternativeName([_alternative(a) for a in addresses]), False)
        return key, builder.sign(authority, None)

    # ---------------------------------------------------------------- using them

    def allowed(self) -> dict[str, str]:
        """Fingerprint -> name, of those who may be at the other end now."""
        return {digest: entry["name"] for digest, entry in self._read().items() if not entry.get("revoked", False)}

    @property
    def name(self) -> str:
        """Whose credentials these are: of a child, the name in its certificate."""
        from cryptography import x509
        from cryptography.x509.oid import NameOID

        if self.is_parent:
            return PARENT
        certificate = x509.load_pem_x509_certificate(read_small(self.folder / f"{OWN}.pem"))
        return str(certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value)

    def context(self, *, server: bool) -> ssl.SSLContext:
        """TLS 1.3, both ends by certificate; whoever calls checks the name or address that it called."""
        self._check()
        own = PARENT if self.is_parent else OWN
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if server else ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.verify_mode = ssl.CERT_REQUIRED
        context.check_hostname = not server
        context.load_verify_locations(cafile=str(self.folder / "ca.pem"))
        context.load_cert_chain(str(self.folder / f"{own}.pem"), str(self.folder / f"{own}.key"))
        if server:
            context.num_tickets = 0  # nobody resumes a session past a revocation
        return context

    def _check(self) -> None:
        own = PARENT if self.is_parent else OWN
        for name in (f"{own}.key", f"{own}.pem", "ca.pem", "allowed.json"):
            if not (self.folder / name).is_file():
                raise InputError(
                    f"{as_typed(self.folder / name)} is missing: a parent makes its own with `shoal credentials init`, a child "
                    "gets the folder that `shoal credentials issue NAME` made"
                )
        key = self.folder / f"{own}.key"
        if key.stat().st_mode & 0o077:
            raise InputError(f"{as_typed(key)} can be read by others: chmod 600 it")

    def _read(self) -> dict[str, Any]:
        try:
            found = json.loads(read_small(self.folder / "allowed.json"))
        except (OSError, ValueError) as error:
            raise InputError(f"{as_typed(self.folder / 'allowed.json')} cannot be read ({error}): restore it") from None
        if not isinstance(found, dict):
            raise InputError(f"{as_typed(self.folder / 'allowed.json')} is no list of fingerprints: restore it")
        return found

    def _write(self, entries: dict[str, Any]) -> None:
        write_atomic(self.folder / "allowed.json", _json(entries))


def fingerprint(certificate: bytes) -> str:
    """SHA-256 of a certificate, in either form."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes

    load = x509.load_pem_x509_certificate if certificate.startswith(b"-----") else x509.load_der_x509_certificate
    return load(certificate).fingerprint(hashes.SHA256()).hex()


def _json(entries: dict[str, Any]) -> str:
    return json.dumps(entries, indent=2) + "\n"


def _alternative(address: str) -> Any:
    from cryptography import x509

    try:
        return x509.IPAddress(ipaddress.ip_address(address))
    except ValueError:
        return x509.DNSName(address)


def _new_key() -> Any:
    from cryptography.hazmat.primitives.asymmetric import ed25519

    return ed25519.Ed25519PrivateKey.generate()


def _builder(name: str, key: Any, issuer: Any, days: int) -> Any:
    from cryptography import x509

    now = datetime.datetime.now(datetime.UTC)
    subject = _subject(name)
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer or subject)
    builder = builder.public_key(key.public_key()).serial_number(x509.random_serial_number())
    builder = builder.not_valid_before(now - EARLIER).not_valid_after(now + datetime.timedelta(days=days))
    return builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)


def _subject(name: str) -> Any:
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _authority(key: Any) -> Any:
    from cryptography import x509

    builder = _builder("Shoal federation", key, None, 10 * DAYS)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    usage = x509.KeyUsage(
        digital_signature=False, content_commitment=False, key_encipherment=False, data_encipherment=False,
        key_agreement=False, key_cert_sign=True, crl_sign=True, encipher_only=False, decipher_only=False,
    )  # fmt: skip
    return builder.add_extension(usage, critical=True).sign(key, None)


def _pem(certificate: Any) -> bytes:
    from cryptography.hazmat.primitives import serialization

    data: bytes = certificate.public_bytes(serialization.Encoding.PEM)
    return data


def _write_key(path: Path, key: Any) -> None:
    from cryptography.hazmat.primitives import serialization

    raw = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    write_atomic(path, raw)  # 0600 from its first moment


def _write_pair(folder: Path, name: str, pair: tuple[Any, Any]) -> None:
    _write_key(folder / f"{name}.key", pair[0])
    write_atomic(folder / f"{name}.pem", _pem(pair[1]))

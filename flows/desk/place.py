"""Address of the desk, and the names by which a browser may ask for it."""

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from fieldcraft.flows.errors import InputError
from fieldcraft.flows.settings import Settings
from fieldcraft.flows.text import quoted


@dataclass(frozen=True)
class Place:
    """Address of the desk.

    Args:
        host: Host that it listens on.
        port: Port.
        names: Names by which browsers reach it.
        certificate: File of the TLS certificate; None for plain HTTP.
        key: File of its key.
    """

    host: str
    port: int
    names: tuple[str, ...]
    certificate: Path | None = None
    key: Path | None = None

    @property
    def tls(self) -> bool:
        """True if it speaks TLS."""
        return self.certificate is not None

    @property
    def origins(self) -> frozenset[str]:
        """Origins of its own pages, as browsers write them."""
        scheme, usual = ("https", 443) if self.tls else ("http", 80)
        return frozenset(
            f"{scheme}://{_host(name)}{'' if self.port == usual else f':{self.port}'}" for name in self.names
        )

    @property
    def hosts(self) -> frozenset[str]:
        """Values of the header Host that it answers to: names of others may lead here (DNS rebinding)."""
        return frozenset(origin.partition("://")[2] for origin in self.origins)

    @property
    def cookie(self) -> str:
        """Name of its cookie. Browsers keep one jar for all ports of a host, so the port is part of it."""
        return f"{'__Host-' if self.tls else ''}fieldcraft-desk-{self.port}"

    @property
    def address(self) -> str:
        """Address of its first page."""
        scheme = "https" if self.tls else "http"
        return f"{scheme}://{_host(self.names[0])}:{self.port}"


def place_of(
    settings: Settings, host: str, port: int, names: Sequence[str], certificate: Path | None, key: Path | None
) -> Place:
    """The place that the options of ``fieldcraft desk`` name.

    Raises:
        InputError: other machines could reach it without a file of people or without TLS, or would not know its name.
    """
    if (certificate is None) != (key is None):
        raise InputError("TLS needs both --tls-certificate and --tls-key: give the other one too.")
    for file in (certificate, key):
        if file is not None and not file.is_file():
            raise InputError(f"{quoted(str(file))} is no file: --tls-certificate and --tls-key name PEM files.")
    loopback = host == "localhost" or _is(host, "is_loopback")
    if not loopback and settings.people is None:
        raise InputError(
            f"--host {quoted(host)} can be reached from other machines, and no file says who may do what: set "
            "FIELDCRAFT_PEOPLE (docs/security.md), or leave --host out."
        )
    if not loopback and certificate is None:
        raise InputError(
            f"--host {quoted(host)} can be reached from other machines, and tokens would be readable on the way: give "
            "--tls-certificate and --tls-key, or leave --host out."
        )
    everywhere = _is(host, "is_unspecified")
    if everywhere and not names:
        raise InputError(f"--host {host} is no name that a browser can ask for: give --name, the machine's.")
    own = ("127.0.0.1", "localhost", "::1") if loopback else (() if everywhere else (host,))
    return Place(host, port, tuple(dict.fromkeys((*(name.lower() for name in names), *own))), certificate, key)


def _is(host: str, what: Literal["is_loopback", "is_unspecified"]) -> bool:
    try:
        return bool(getattr(ipaddress.ip_address(host), what))
    except ValueError:
        return False


def _host(name: str) -> str:
    return f"[{name}]" if ":" in name else name

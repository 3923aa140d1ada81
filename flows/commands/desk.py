"""The command for the web desk: desk."""

import argparse
import json
from pathlib import Path

from fieldcraft.flows.commands.shared import Add, whole
from fieldcraft.flows.settings import Settings

TITLE = "To look"


def add(command: Add) -> None:
    """Register the command."""
    desk = command(
        "desk",
        _desk,
        "serve campaigns, decisions and results to browsers, until interrupted",
        example="fieldcraft desk --port 8477",
    )
    desk.add_argument("--host", default="127.0.0.1", help="address to listen on (default: this machine alone)")
    desk.add_argument("--port", type=whole(1, 65535), default=8477, help="port (default: 8477)")
    told = "name by which browsers reach it, where that is not the host"
    desk.add_argument("--name", action="append", default=[], help=told)
    desk.add_argument("--tls-certificate", type=Path, metavar="FILE", help="certificate with its chain (PEM)")
    desk.add_argument("--tls-key", type=Path, metavar="FILE", help="its key (PEM)")


def _desk(options: argparse.Namespace, settings: Settings) -> int:
    from fieldcraft.flows.desk.place import place_of
    from fieldcraft.flows.desk.serving import serve

    place = place_of(settings, options.host, options.port, options.name, options.tls_certificate, options.tls_key)

    def tell(token: str | None) -> None:
        address = place.address if token is None else f"{place.address}/sign-in#{token}"
        if options.json:
            print(json.dumps({"event": "serving", "address": place.address, "token": token}), flush=True)
        else:
            what = "the desk is at" if token is None else "to sign in, once, open"
            print(f"{what} {address}", flush=True)

    serve(settings, place, tell)
    return 0

"""Commands that serve pages to browsers until they are interrupted: desk, mlflow."""

import argparse
import json
import os
import sys
from pathlib import Path

from fieldcraft.flows.commands.shared import Add, whole
from fieldcraft.flows.errors import InputError
from fieldcraft.flows.settings import DESK_PORT, MLFLOW_PORT, Settings

TITLE = "To look"


def add(command: Add) -> None:
    """Register the commands."""
    desk = command(
        "desk",
        _desk,
        "serve campaigns, decisions and results to browsers, until interrupted",
        example="fieldcraft desk --port 8080",
    )
    desk.add_argument("--host", default="127.0.0.1", help="address to listen on (default: this machine alone)")
    desk.add_argument("--port", type=whole(1, 65535), default=DESK_PORT, help=f"port (default: {DESK_PORT})")
    told = "name by which browsers reach it, where that is not the host"
    desk.add_argument("--name", action="append", default=[], help=told)
    desk.add_argument("--tls-certificate", type=Path, metavar="FILE", help="certificate with its chain (PEM)")
    desk.add_argument("--tls-key", type=Path, metavar="FILE", help="its key (PEM)")
    mlflow = command(
        "mlflow",
        _mlflow,
        "serve MLflow's pages of this home, until interrupted",
        example="fieldcraft mlflow --port 5000",
    )
    mlflow.add_argument("--port", type=whole(1, 65535), default=MLFLOW_PORT, help=f"port (default: {MLFLOW_PORT})")


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


def _mlflow(options: argparse.Namespace, settings: Settings) -> int:
    """Become MLflow's server, once the store knows where its artifacts lie: the home may have been copied here."""
    from fieldcraft.storage.trackers.locations import relocate, require_store

    scheme, _, file = settings.mlflow.partition(":///")
    if scheme != "sqlite":
        told = "is off" if settings.mlflow == "off" else "names a server: open its address in a browser"
        raise InputError(f"FIELDCRAFT_MLFLOW {told}. This serves the store of a home, where that variable is not set.")
    if not Path(file).is_file():
        raise InputError(
            f"There is no MLflow store at {file} yet: 'fieldcraft run' and 'fieldcraft export mlflow' make it. --home "
            "names another folder."
        )
    require_store(settings.mlflow)
    moved = relocate(settings.mlflow)
    address = f"127.0.0.1:{options.port}"
    data = {"event": "serving", "address": f"http://{address}", "relocated": moved}
    print(json.dumps(data) if options.json else f"MLflow will be at http://{address} in some 20 s", flush=True)
    words = ["--backend-store-uri", settings.mlflow, "--host", "127.0.0.1", "--port", str(options.port)]
    words += [
        "--workers",
        "1",
        "--allowed-hosts",
        f"{address},localhost:{options.port}",
        "--cors-allowed-origins",
        f"http://{address}",
    ]
    kept = {name: value for name, value in os.environ.items() if name != "FIELDCRAFT_TOKEN"}
    environment = {**kept, "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
    os.execve(sys.executable, [sys.executable, "-P", "-m", "mlflow", "server", *words], environment)  # noqa: S606

"""The desk as a server, until it is interrupted."""

import socket
from collections.abc import Callable

import uvicorn

from fieldcraft.flows.desk import connections
from fieldcraft.flows.desk.app import make_app
from fieldcraft.flows.desk.place import Place
from fieldcraft.flows.errors import InputError
from fieldcraft.flows.settings import Settings

_GRACE_S = 2


def serve(settings: Settings, place: Place, tell: Callable[[str | None], None]) -> None:
    """Serve the desk of a home.

    Args:
        settings: Settings of the operator.
        place: Address and names.
        tell: Tells that it serves; with a one-time token where no file says who people are.

    Raises:
        InputError: the port is taken, or the address is not this machine's.
        KeyboardInterrupt: it was interrupted.
    """
    connections.make_room()
    listening = _bound(place)
    if settings.people is not None:
        tell(None)
    server = server_of(settings, place, tell)
    server.run(sockets=[listening])
    if server.started:  # a shell has SIGINT ignored by what it puts behind "&", and uvicorn then ends without a word
        raise KeyboardInterrupt


def server_of(settings: Settings, place: Place, printed: Callable[[str], None]) -> uvicorn.Server:
    """The server, which does not listen yet; ``printed`` as in ``make_app``."""
    guarded = make_app(settings, place, printed)
    server = uvicorn.Server(
        uvicorn.Config(
            guarded,
            http=connections.PatientProtocol,
            loop=f"{connections.__name__}:{connections.PatientLoop.__name__}",
            log_level="warning",
            access_log=False,
            server_header=False,
            proxy_headers=False,
            ws="none",
            ssl_certfile=place.certificate,
            ssl_keyfile=place.key,
            timeout_graceful_shutdown=_GRACE_S,
        )
    )
    guarded.app.state.poller.stopping = lambda: server.should_exit
    return server


def _bound(place: Place) -> socket.socket:
    family = socket.AF_INET6 if ":" in place.host else socket.AF_INET
    listening = socket.socket(family)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((place.host, place.port))
    except OSError as error:
        listening.close()
        raise InputError(
            f"--host {place.host} --port {place.port} cannot be used ({error.strerror or error}): another desk may run "
            "there. Give another port."
        ) from None
    return listening

"""The command ``desk``: it says where it is, serves until it is interrupted, and refuses what would not be safe."""

import contextlib
import json
import os
import signal
import socket
import ssl
import subprocess
import sys

import httpx
from certificates import certificate
from desk_site import TOKENS

from fieldcraft.flows.cli import main


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def test_the_command_serves_until_it_is_interrupted_also_with_a_page_that_follows(priced):
    port = free_port()
    words = [sys.executable, "-m", "fieldcraft.flows.cli", "desk", "--port", str(port), "--json", "--home"]
    with subprocess.Popen(
        [*words, str(priced.settings.home)], stdout=subprocess.PIPE, text=True, env=os.environ
    ) as desk:
        address = json.loads(desk.stdout.readline())["address"]
        own = {"origin": address, "sec-fetch-site": "same-origin"}
        transport = httpx.HTTPTransport(retries=5)
        with httpx.Client(base_url=address, headers=own, transport=transport) as client:
            assert client.post("/sign-in", data={"token": TOKENS["vera"]}).status_code == 303
            with client.stream("GET", "/live") as stream:
                lines = stream.iter_lines()
                assert next(lines) == "retry: 2000"
                desk.send_signal(signal.SIGINT)
                assert 'data: ["' not in "".join(lines)
        assert json.loads(desk.stdout.read())["error"].startswith("interrupted")
    assert desk.returncode == 130


def test_a_port_that_is_taken_and_a_host_without_tls_are_told(priced, capsys):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        home, port = str(priced.settings.home), str(taken.getsockname()[1])
        assert main(["desk", "--home", home, "--port", port]) == 2
        assert "another desk may run there" in capsys.readouterr().err
    assert main(["desk", "--home", home, "--host", "192.0.2.1"]) == 2
    assert "--tls-certificate" in capsys.readouterr().err


def test_behind_tls_the_session_is_of_its_host_and_never_sent_in_the_clear(priced, tmp_path):
    pem, port = certificate(tmp_path), free_port()
    words = [sys.executable, "-m", "fieldcraft.flows.cli", "desk", "--port", str(port), "--json"]
    words += ["--tls-certificate", str(pem), "--tls-key", str(pem), "--home", str(priced.settings.home)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=os.environ) as desk:
        address = json.loads(desk.stdout.readline())["address"]
        assert address == f"https://127.0.0.1:{port}"
        own = {"origin": address, "sec-fetch-site": "same-origin"}
        transport = httpx.HTTPTransport(retries=5, verify=ssl.create_default_context(cafile=str(pem)))
        with httpx.Client(base_url=address, headers=own, transport=transport) as client:
            assert (
                client.post(
                    "/sign-in", data={"token": "fc_wrong"}, headers={"origin": "http:" + address[6:]}
                ).status_code
                == 403
            )
            cookie = client.post("/sign-in", data={"token": TOKENS["vera"]}).headers["set-cookie"]
            assert (
                cookie.startswith(f"__Host-fieldcraft-desk-{port}=") and "Secure" in cookie and "Domain" not in cookie
            )
            assert "vera" in client.get("/").text
        with socket.create_connection(("127.0.0.1", port), timeout=5) as plain:  # no TLS: it is hung up on at once
            plain.sendall(b"GET /sign-in HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            with contextlib.suppress(ConnectionError):
                assert b"HTTP/1.1 200" not in plain.recv(65536)
        desk.send_signal(signal.SIGINT)

"""The server of `explore`: half-open connections do not silence it, and it ends in order."""

import http.client
import json
import os
import shutil
import signal
import socket
import threading
import time
import urllib.request
from contextlib import suppress
from pathlib import Path
from urllib.request import urlopen

import pytest
from starlette.responses import PlainTextResponse

from exploring import Server
from selfsort.explore import server


def test_half_open_connections_do_not_silence_it(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(server, "HEADER_SECONDS", 0.5)
    with server.listen(0) as listener:
        port = listener.getsockname()[1]
        running = server.build_server(PlainTextResponse("here\n"))
        thread = threading.Thread(target=running.run, args=([listener],))
        thread.start()
        half_open = []
        for number in range(300):
            connection = socket.create_connection(("127.0.0.1", port), timeout=5)
            half_open.append(connection)
            if number % 2:
                connection.sendall(b"GET / HTTP/1.1\r\nHost: 127")
        time.sleep(1.5)
        try:
            address = f"http://127.0.0.1:{port}/"
            assert urllib.request.urlopen(address, timeout=5).read() == b"here\n"
            for connection in half_open:  # closed by the server, not kept
                with suppress(ConnectionResetError):
                    assert connection.recv(1) == b""
        finally:
            for connection in half_open:
                connection.close()
            running.should_exit = True
            thread.join(10)
    assert "Traceback" not in capfd.readouterr().err


def test_a_connection_may_be_used_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "HEADER_SECONDS", 1.0)
    with server.listen(0) as listener:
        running = server.build_server(PlainTextResponse("here\n"))
        thread = threading.Thread(target=running.run, args=([listener],))
        thread.start()
        client = http.client.HTTPConnection("127.0.0.1", listener.getsockname()[1], timeout=10)
        for _ in range(5):
            client.request("GET", "/")
            assert client.getresponse().read() == b"here\n"
            time.sleep(0.4)
        client.close()
        running.should_exit = True
        thread.join(10)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_and_leaves_no_page_with_a_token(
    run_folder: Path, tmp_path: Path, number: int
) -> None:
    private = tmp_path / "private"
    private.mkdir()
    environment = {"TMPDIR": str(private), "BROWSER": "true"}
    with Server(run_folder, environment=environment) as running:
        while not list(private.rglob("open.html")):
            time.sleep(0.02)
        time.sleep(0.5)
        assert running.end(number) == 0
        assert "ended; nothing was edited\n" in running.log
    assert os.listdir(private) == []


def test_replaced_images_are_said(run_folder: Path, tmp_path: Path) -> None:
    record = run_folder / "run.json"
    content = json.loads(record.read_text())
    photos = shutil.copytree(content["reading"]["source"], tmp_path / "photos")
    content["reading"]["source"] = str(photos)
    record.write_text(json.dumps(content))
    with Server(run_folder, "--no-browser") as running:
        urlopen(running.address).close()  # it has started when it answers
        running.end()
        assert not [line for line in running.log if "warning" in line]
    victim = next(file for file in sorted(photos.rglob("*.png")))
    victim.write_bytes(victim.read_bytes() + b"more")
    with Server(run_folder, "--no-browser") as running:
        urlopen(running.address).close()
        running.end()
        assert "warning: the image files are not those that were sorted" in "".join(running.log)

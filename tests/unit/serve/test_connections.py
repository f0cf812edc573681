"""Clients that open connections and leave them, send slowly or never read: nobody else is hurt."""

import contextlib
import http.client
import json
import socket
import threading
import time

import pytest

from tests.support.serving import EXTRA, live, until

pytest.importorskip("fastapi", reason=EXTRA)
from fastapi.responses import Response

from relmo.serve.access import Access
from relmo.serve.connections import peer_of
from relmo.serve.limits import Limits

QUICK = {"head_seconds": 1, "idle_seconds": 1, "write_seconds": 1, "stop_seconds": 2}
LARGE = bytes(range(256)) * 2**16  # 16 MiB, more than the kernel's buffers


@contextlib.contextmanager
def connect(url: str, sent: bytes = b"", receive_buffer: int | None = None):
    host, port = url.removeprefix("http://").split(":")
    with socket.socket() as client:
        if receive_buffer:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        client.settimeout(10)
        client.connect((host, int(port)))
        client.sendall(sent)
        yield client


def ask(url: str, path: str = "/health") -> int:
    client = http.client.HTTPConnection(url.removeprefix("http://"), timeout=10)
    try:
        client.request("GET", path)
        return client.getresponse().status
    finally:
        client.close()


def has_ended(client: socket.socket) -> bool:
    """Whether the server ends the connection, after what it may still send."""
    try:
        while client.recv(65536):
            pass
    except ConnectionResetError:
        pass
    return True


@pytest.mark.parametrize("limit", ["connections", "peer_connections"])
def test_idle_and_half_open_connections_shut_nobody_out(make_app, limit):
    app = make_app(limits=Limits(**{limit: 20}), access=Access(api_key="key"))
    with live(app) as url, contextlib.ExitStack() as stack:
        clients = []
        for number in range(60):
            head = (b"", b"GET / HTTP/1.1\r\nHost:", b"POST /health HTTP/1.1\r\nHost: a\r\n"
                    b"Content-Length: 9\r\n\r\n{")[number % 3]  # fmt: skip
            clients.append(stack.enter_context(connect(url, head)))
        assert [ask(url) for _ in range(5)] == [200] * 5
        assert has_ended(clients[0])  # the oldest made room


def test_connections_in_use_are_kept_and_further_ones_get_503(make_app):
    app = make_app(limits=Limits(connections=2))
    batcher = app.state.service.batcher
    read, gate = batcher._embed, threading.Event()
    batcher._embed = lambda sentences: (gate.wait(20), read(sentences))[1]
    statuses: list[int] = []

    def embed() -> None:
        client = http.client.HTTPConnection(url.removeprefix("http://"), timeout=20)
        body, headers = json.dumps({"input": "a"}), {"content-type": "application/json"}
        client.request("POST", "/v1/embeddings", body, headers)
        statuses.append(client.getresponse().status)
        client.close()

    with live(app) as url:
        askers = [threading.Thread(target=embed) for _ in range(2)]
        for asker in askers:
            asker.start()
        until(lambda: batcher.requests == 2)
        with connect(url) as client:
            answer = client.recv(4096)
        assert answer.startswith(b"HTTP/1.1 503")
        assert b"too_many_connections" in answer
        gate.set()
        for asker in askers:
            asker.join()
        until(lambda: ask(url) == 200)
    assert statuses == [200, 200]


@pytest.mark.parametrize("end", [b"", b"\r\n\r\n"])
def test_long_headers_are_refused(make_app, end):
    with live(make_app()) as url, connect(url) as client:
        with contextlib.suppress(ConnectionError):
            client.sendall(b"GET /health HTTP/1.1\r\nHost: a\r\nX: " + b"a" * 100_000 + end)
        assert client.recv(100).startswith(b"HTTP/1.1 400")


@pytest.mark.parametrize("start", [b"", b"GET /health HTTP/1.1\r\n"])
def test_headers_that_do_not_come_end_the_connection(make_app, start):
    with live(make_app(limits=Limits(**QUICK))) as url, connect(url, start) as client:
        begin = time.monotonic()
        assert has_ended(client)
        assert 0.5 < time.monotonic() - begin < 5


def test_headers_that_drip_end_the_connection(make_app):
    with live(make_app(limits=Limits(**QUICK))) as url, connect(url) as client:
        begin = time.monotonic()
        with contextlib.suppress(ConnectionError):
            while time.monotonic() - begin < 8:
                client.sendall(b"G")
                time.sleep(0.1)
        assert time.monotonic() - begin < 5


def test_a_connection_is_used_again_until_it_is_idle_too_long(make_app):
    request = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with live(make_app(limits=Limits(**QUICK))) as url, connect(url) as client:
        for _ in range(3):
            client.sendall(request)
            assert client.recv(4096).startswith(b"HTTP/1.1 200")
        client.sendall(request * 3)  # pipelined
        answers = b""
        while answers.count(b"HTTP/1.1 200") < 3:
            answers += client.recv(4096)
        assert has_ended(client)


@pytest.fixture
def large(make_app):
    """An app with a large answer at /large."""
    app = make_app(limits=Limits(**QUICK))
    app.add_api_route("/large", lambda: Response(LARGE))
    return app


def test_a_large_answer_comes_whole_to_a_slow_reader(large):
    with (
        live(large) as url,
        connect(url, b"GET /large HTTP/1.1\r\nHost: a\r\n\r\n", 4096) as client,
    ):
        time.sleep(0.5)
        answer = bytearray()
        while not answer.endswith(LARGE[-256:]) or len(answer) < len(LARGE):
            answer += client.recv(2**20)
        assert answer.partition(b"\r\n\r\n")[2] == LARGE


def test_a_client_that_never_reads_is_dropped(large):
    with live(large) as url, contextlib.ExitStack() as stack:
        for _ in range(4):
            stack.enter_context(connect(url, b"GET /large HTTP/1.1\r\nHost: a\r\n\r\n", 4096))
        metrics = 'relmo_requests_total{method="GET",route="/large",status="200"} 4.0'

        def answered() -> bool:
            client = http.client.HTTPConnection(url.removeprefix("http://"), timeout=10)
            client.request("GET", "/metrics")
            text = client.getresponse().read().decode()
            client.close()
            return metrics in text

        until(answered, seconds=8)  # each request has ended, though its client has not


def test_stopping_takes_no_longer_than_its_limit(large):
    begin = time.monotonic()
    with contextlib.ExitStack() as stack:
        with live(large) as url:
            stack.enter_context(connect(url, b"GET /large HTTP/1.1\r\nHost: a\r\n\r\n", 4096))
            body = b"POST /health HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n{"
            stack.enter_context(connect(url, body))
            stack.enter_context(connect(url, b"GET / HTTP/1.1\r\nHost"))
            stack.enter_context(connect(url))
            time.sleep(0.3)
            begin = time.monotonic()
        assert time.monotonic() - begin < 5


@pytest.mark.parametrize(
    ("host", "peer"),
    [
        ("10.1.2.3", "10.1.2.3"),
        ("::ffff:10.1.2.3", "10.1.2.3"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("localhost", "localhost"),
    ],
)
def test_addresses_of_one_network_are_one_peer(host, peer):
    assert peer_of(host) == peer

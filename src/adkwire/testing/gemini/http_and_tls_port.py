"""A port of 127.0.0.1 that accepts plain HTTP and TLS: Google's client uses TLS for Live even with an http base URL."""

import asyncio
import contextlib
import datetime
import ipaddress
import socket
import ssl
from collections.abc import AsyncGenerator, Callable
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

_TLS_HANDSHAKE = b"\x16"
"""The first byte of every TLS connection, and of no HTTP request."""


@contextlib.asynccontextmanager
async def listen(connect: Callable[[], asyncio.Protocol], tls: ssl.SSLContext) -> AsyncGenerator[int]:
    """Accept connections at a free port until the context ends; the context's value is the port number."""
    server = socket.create_server(("127.0.0.1", 0))
    server.setblocking(False)
    handshakes: set[asyncio.Task[None]] = set()
    accepting = asyncio.create_task(_accept(server, connect, tls, handshakes), name="gemini-emulator-accept")
    try:
        yield server.getsockname()[1]
    finally:
        tasks = [accepting, *handshakes]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        server.close()


async def _accept(
    server: socket.socket,
    connect: Callable[[], asyncio.Protocol],
    tls: ssl.SSLContext,
    handshakes: set[asyncio.Task[None]],
) -> None:
    loop = asyncio.get_running_loop()
    while True:
        client, _ = await loop.sock_accept(server)
        task = asyncio.create_task(_handshake(client, connect, tls), name="gemini-emulator-handshake")
        handshakes.add(task)
        task.add_done_callback(handshakes.discard)


async def _handshake(client: socket.socket, connect: Callable[[], asyncio.Protocol], tls: ssl.SSLContext) -> None:
    """Look at the first byte of a connection and hand it to the protocol, with TLS if the client begins with TLS."""
    with contextlib.ExitStack() as close_on_failure:
        close_on_failure.callback(client.close)
        with contextlib.suppress(OSError):  # The client disconnected, or does not trust the certificate.
            await _until_readable(client)
            if first := client.recv(1, socket.MSG_PEEK):
                context = tls if first == _TLS_HANDSHAKE else None
                await asyncio.get_running_loop().connect_accepted_socket(connect, client, ssl=context)
                close_on_failure.pop_all()


async def _until_readable(client: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_reader(client, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(client)


def make_certificate(folder: Path) -> tuple[Path, ssl.SSLContext]:
    """Make a certificate for 127.0.0.1; return the file for clients to trust, and the server's TLS context."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "adkwire Gemini emulator")])
    now = datetime.datetime.now(datetime.UTC)
    alternatives = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=30))
        .add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    public, private = folder / "certificate.pem", folder / "key.pem"
    public.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    private.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    server.load_cert_chain(public, private)
    return public, server

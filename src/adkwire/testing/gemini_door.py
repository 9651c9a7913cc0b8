"""One port of 127.0.0.1 for plain HTTP and for TLS: Google's client insists on TLS for Live, whatever its base URL."""

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

_HANDSHAKE = b"\x16"
"""How every TLS connection begins; no HTTP request does."""


@contextlib.asynccontextmanager
async def listening(connect: Callable[[], asyncio.Protocol], tls: ssl.SSLContext) -> AsyncGenerator[int]:
    """Take connections at a free port, which is given, until the context ends."""
    door = socket.create_server(("127.0.0.1", 0))
    door.setblocking(False)
    guests: set[asyncio.Task[None]] = set()
    accepting = asyncio.create_task(_accept(door, connect, tls, guests), name="gemini-emulator-door")
    try:
        yield door.getsockname()[1]
    finally:
        tasks = [accepting, *guests]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        door.close()


async def _accept(
    door: socket.socket, connect: Callable[[], asyncio.Protocol], tls: ssl.SSLContext, guests: set[asyncio.Task[None]]
) -> None:
    loop = asyncio.get_running_loop()
    while True:
        guest, _ = await loop.sock_accept(door)
        welcome = asyncio.create_task(_welcome(guest, connect, tls), name="gemini-emulator-guest")
        guests.add(welcome)
        welcome.add_done_callback(guests.discard)


async def _welcome(guest: socket.socket, connect: Callable[[], asyncio.Protocol], tls: ssl.SSLContext) -> None:
    with contextlib.ExitStack() as unless_taken:
        unless_taken.callback(guest.close)
        with contextlib.suppress(OSError):  # a guest who left, or does not trust the certificate
            await _readable(guest)
            if first := guest.recv(1, socket.MSG_PEEK):
                secure = tls if first == _HANDSHAKE else None
                await asyncio.get_running_loop().connect_accepted_socket(connect, guest, ssl=secure)
                unless_taken.pop_all()


async def _readable(guest: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_reader(guest, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(guest)


def certify(folder: Path) -> tuple[Path, ssl.SSLContext]:
    """Make a certificate for 127.0.0.1: the file that clients are to trust, and the server's side of it."""
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

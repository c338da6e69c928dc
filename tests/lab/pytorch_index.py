"""A stand-in for download.pytorch.org: a proxy on this machine that answers uv's requests out of the matrix.

uv has the addresses of the PyTorch indexes built in, so they cannot be turned elsewhere; but it takes HTTPS_PROXY and
SSL_CERT_FILE. The proxy ends the TLS connection itself, with a certificate made on the spot, and lets nothing through.
"""

from __future__ import annotations

import contextlib
import datetime
import socketserver
import ssl
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from envkit.model import Build, Matrix

HOST = "download.pytorch.org"
_PLATFORMS = {
    "linux/x86_64": "{glibc}_x86_64",
    "linux/aarch64": "{glibc}_aarch64",
    "windows/x86_64": "win_amd64",
    "windows/arm64": "win_arm64",
    "macos/arm64": "macosx_11_0_arm64",
}


def pages(matrix: Matrix, python: str) -> Mapping[str, tuple[str, ...]]:
    """The file names on each index of torch, for one Python: what the matrix holds for published."""
    torch = matrix.frameworks["torch"]
    found: dict[str, list[str]] = {}
    tag = f"cp{python.replace('.', '')}"
    for release in torch.releases:
        line = release.version.rpartition(".")[0]
        exact = {(b.tag, p) for b in torch.builds if b.release == release.version for p in b.platforms}
        for build in torch.builds:
            if build.release not in (line, release.version) or not build.published or build.index is not None:
                continue
            for platform in build.platforms:
                replaced = build.release == line and (build.tag, platform) in exact
                if replaced or python not in (build.pythons or release.pythons) or platform not in _PLATFORMS:
                    continue
                where = _PLATFORMS[platform].format(glibc=_manylinux(build))
                version = release.version + (build.local if build.local is not None else f"+{build.tag}")
                found.setdefault(build.tag, []).append(f"torch-{version}-{tag}-{tag}-{where}.whl")
    return {name: tuple(files) for name, files in found.items()}


def _manylinux(build: Build) -> str:
    return f"manylinux_{str(build.glibc).replace('.', '_')}" if build.glibc else "linux"


@contextlib.contextmanager
def serve(folder: Path, files: Mapping[str, tuple[str, ...]]) -> Iterator[dict[str, str]]:
    """The variables that lead uv to the stand-in, while it runs."""
    _make_certificates(folder)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "host.pem")
    server = _Server(("127.0.0.1", 0), _Proxy)
    server.context, server.files = context, files
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield {"HTTPS_PROXY": f"http://127.0.0.1:{server.server_address[1]}", "SSL_CERT_FILE": str(folder / "authority.pem")}
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    request_queue_size = 128
    context: ssl.SSLContext
    files: Mapping[str, tuple[str, ...]]


class _Proxy(socketserver.StreamRequestHandler):
    server: _Server

    def handle(self) -> None:
        asked = self.rfile.readline().decode("ascii", "replace").split()
        while self.rfile.readline().strip():
            pass
        if asked[:2] != ["CONNECT", f"{HOST}:443"]:
            self.connection.sendall(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n")
            return
        self.connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        with contextlib.suppress(OSError), self.server.context.wrap_socket(self.connection, server_side=True) as inside:
            reader = inside.makefile("rb")
            while line := reader.readline().decode("ascii", "replace").split():
                while reader.readline().strip():
                    pass
                inside.sendall(self._answer(line[1]))

    def _answer(self, path: str) -> bytes:
        parts = [part for part in path.replace("%2B", "+").split("/") if part]
        body, kind = "", "text/html"
        if path.endswith(".metadata"):
            body, kind = f"Metadata-Version: 2.1\nName: torch\nVersion: {parts[-1].split('-')[1]}\n", "text/plain"
        elif len(parts) == 3 and parts[2] == "torch":
            body = "".join(
                f'<a href="/whl/{parts[1]}/{name.replace("+", "%2B")}" data-core-metadata="true">{name}</a>\n'
                for name in self.server.files.get(parts[1], ())
            )
        status = "200 OK" if body else "404 Not Found"
        head = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nCache-Control: max-age=3600\r\nContent-Length: {len(body)}\r\n\r\n"
        return (head + body).encode("ascii")


def _make_certificates(folder: Path) -> None:
    """A certificate for the host, and that of the authority which signed it, both good for a day."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    now = datetime.datetime.now(datetime.UTC)
    authority, host = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    issuer = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "envkit tests")])

    def signed(name: x509.Name, key: Any, extension: Any, *, critical: bool) -> x509.Certificate:
        made = x509.CertificateBuilder().subject_name(name).issuer_name(issuer).public_key(key.public_key())
        made = made.serial_number(x509.random_serial_number())
        made = made.not_valid_before(now - datetime.timedelta(hours=1)).not_valid_after(now + datetime.timedelta(days=1))
        return made.add_extension(extension, critical=critical).sign(authority, hashes.SHA256())

    root = signed(issuer, authority, x509.BasicConstraints(ca=True, path_length=None), critical=True)
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, HOST)])
    leaf = signed(subject, host, x509.SubjectAlternativeName([x509.DNSName(HOST)]), critical=False)
    pem, plain = serialization.Encoding.PEM, serialization.NoEncryption()
    (folder / "authority.pem").write_bytes(root.public_bytes(pem))
    key = host.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain)
    (folder / "host.pem").write_bytes(leaf.public_bytes(pem) + key)

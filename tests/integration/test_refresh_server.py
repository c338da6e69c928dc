"""The refresh against real servers: a local one that misbehaves in every way that servers do, and PyPI."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from lab.needs import need

SAVED = Path(__file__).resolve().parents[1] / "fixtures/refresh"
JSON = "application/vnd.pypi.simple.v1+json"

Handler = Callable[[BaseHTTPRequestHandler], None]


class Server:
    """A local index: PyPI's saved pages below /simple/, PyTorch's below /whl/; single addresses can be made to misbehave."""

    def __init__(self) -> None:
        self.special: dict[str, Handler] = {}
        self.asked: list[str] = []
        outer = self

        class Answering(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_: Any) -> None:
                pass

            def do_HEAD(self) -> None:
                self.do_GET()

            def do_GET(self) -> None:
                outer.asked.append(self.path)
                if self.path in outer.special:
                    outer.special[self.path](self)
                    return
                name = self.path.strip("/").rpartition("/")[2]
                saved = SAVED / f"{name}.json"
                if self.path.startswith("/simple/") and saved.is_file():
                    # With the metadata beside each file, as PyPI has it.
                    listed = saved.read_bytes().replace(b"https://files.pythonhosted.org", outer.url.encode())
                    send(self, listed.replace(b'"hashes": {}', b'"core-metadata": true, "hashes": {}'), JSON)
                elif self.path.endswith(".whl.metadata"):
                    send(self, metadata(name), "application/octet-stream")
                else:
                    send(self, b"nothing here", "text/plain", 404)

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Answering)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def metadata(name: str) -> bytes:
    """The saved METADATA of a wheel, or one that asks for nothing."""
    project, version = name.split("-")[:2]
    saved = SAVED / f"{project.replace('_', '-')}-{version}.METADATA"
    if saved.is_file():
        return saved.read_bytes()
    return f"Metadata-Version: 2.1\nName: {project}\nVersion: {version}\n".encode()


def send(to: BaseHTTPRequestHandler, body: bytes, kind: str, status: int = 200, length: int | None = None, **more: str) -> None:
    to.send_response(status)
    to.send_header("Content-Type", kind)
    to.send_header("Content-Length", str(len(body) if length is None else length))
    for name, value in more.items():
        to.send_header(name.replace("_", "-"), value)
    to.end_headers()
    if to.command != "HEAD":
        to.wfile.write(body)
    if length is not None:
        to.close_connection = True


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    yield made
    made.close()


@pytest.fixture
def matrix(tmp_path: Path) -> Path:
    return Path(shutil.copy(SAVED / "matrix.toml", tmp_path / "matrix.toml"))


@pytest.fixture
def refresh(envkit_command: list[str], server: Server, matrix: Path, tmp_path: Path) -> Callable[..., Any]:
    """Runs `envkit matrix refresh` on the small matrix, as a process of its own whose indexes are all the local server's."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PIP_", "UV_", "ENVKIT_"))}
    environment |= {
        "HOME": str(tmp_path),
        "XDG_CONFIG_HOME": str(tmp_path / "config"),
        "PIP_CONFIG_FILE": os.devnull,
        "UV_DEFAULT_INDEX": f"{server.url}/simple",
        "ENVKIT_PYTORCH_MIRROR": f"{server.url}/whl",
        "NO_PROXY": "127.0.0.1",
    }

    def run(*arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*envkit_command, "matrix", "refresh", str(matrix), *arguments],
            env={**environment, **more},
            cwd=tmp_path,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    return run


def page(*names: str) -> bytes:
    links = "".join(f'    <a href="{name.replace("+", "%2B")}#sha256=00">{name}</a><br/>\n' for name in names)
    return f"<!DOCTYPE html>\n<html>\n  <body>\n    <h1>Links for torch</h1>\n{links}  </body>\n</html>\n".encode()


def cu130(*versions: str) -> bytes:
    pythons = ("cp310-cp310", "cp311-cp311", "cp312-cp312", "cp313-cp313", "cp314-cp314", "cp314-cp314t")
    return page(*(f"torch-{version}+cu130-{python}-manylinux_2_28_x86_64.whl" for version in versions for python in pythons))


def test_it_finds_what_is_new_and_writes_it(refresh: Callable[..., Any], server: Server, matrix: Path) -> None:
    body = cu130("2.13.0", "2.14.0")
    server.special["/whl/cu130/torch/"] = lambda to: send(to, gzip.compress(body), "text/html", Content_Encoding="gzip")
    macos = page("torch-2.14.0-cp312-cp312-macosx_14_0_arm64.whl", "torch-2.14.0-cp313-cp313-macosx_14_0_arm64.whl")
    server.special["/whl/cpu/torch/"] = lambda to: send(to, macos, "text/html")
    done = refresh("--only", "torch,openvino", "--write")
    assert done.returncode == 6
    assert "refused: the matrix would shrink" in done.stderr
    assert "2.14 cpu macos/arm64: no wheels for 3.10 3.11 3.14 3.14t" in done.stderr
    done = refresh("--only", "torch,openvino", "--write", "--force")
    assert done.returncode == 0, done.stderr
    assert "  + 2026.4.1: new" in done.stdout
    assert '"claimed" -> "index-checked"' in done.stdout
    written = matrix.read_text(encoding="utf-8")
    assert 'version = "2026.4.1"' in written
    # The mirror's address is this machine's affair and no source.
    assert server.url not in written
    assert "https://download.pytorch.org/whl/cu130/torch/" in written
    assert refresh("--only", "openvino", "--check").returncode == 0


def broken(to: BaseHTTPRequestHandler) -> None:
    send(to, b"boom", "text/plain", 500)


def cut(to: BaseHTTPRequestHandler) -> None:
    whole = (SAVED / "openvino.json").read_bytes()
    send(to, whole[: len(whole) // 2], JSON, length=len(whole))


def cut_without_length(to: BaseHTTPRequestHandler) -> None:
    to.send_response(200)
    to.send_header("Content-Type", JSON)
    to.send_header("Connection", "close")
    to.end_headers()
    to.wfile.write((SAVED / "openvino.json").read_bytes()[:5000])
    to.close_connection = True


def cut_chunk(to: BaseHTTPRequestHandler) -> None:
    to.send_response(200)
    to.send_header("Content-Type", JSON)
    to.send_header("Transfer-Encoding", "chunked")
    to.end_headers()
    to.wfile.write(b"1000\r\n" + b"{" * 100)
    to.close_connection = True


def html_instead(to: BaseHTTPRequestHandler) -> None:
    send(to, b"<html><body>Please sign in</body></html>", JSON)


def empty(to: BaseHTTPRequestHandler) -> None:
    send(to, b"", JSON)


def shrunk(to: BaseHTTPRequestHandler) -> None:
    document = json.loads((SAVED / "openvino.json").read_bytes())
    document["files"] = document["files"][:0]
    send(to, json.dumps(document).encode(), JSON)


def circle(to: BaseHTTPRequestHandler) -> None:
    send(to, b"", "text/html", 302, Location=to.path)


def spoilt_gzip(to: BaseHTTPRequestHandler) -> None:
    send(to, b"\x1f\x8b\x08 no gzip at all", JSON, Content_Encoding="gzip")


@pytest.mark.parametrize(
    ("behaviour", "why"),
    [
        (broken, "answered 500 Internal Server Error"),
        (cut, "its answer was cut short"),
        (cut_without_length, "answered JSON that is not whole"),
        (cut_chunk, "its answer was cut short"),
        (html_instead, "answered JSON that is not whole"),
        (empty, "answered an empty page"),
        (shrunk, "shrank suddenly: 1 of 1 release that the matrix has from it are no longer listed"),
        (circle, "redirects in a circle"),
        (spoilt_gzip, "its answer was cut short"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_what_must_not_be_believed_is_refused_and_the_file_untouched(
    behaviour: Handler, why: str, refresh: Callable[..., Any], server: Server, matrix: Path
) -> None:
    before = matrix.read_bytes()
    server.special["/simple/openvino/"] = behaviour
    done = refresh("--only", "openvino", "--write")
    assert done.returncode == 6, done.stderr
    assert f"{server.url}/simple/openvino/: {why}" in done.stderr
    assert "nothing is written" in done.stderr
    assert "Traceback" not in done.stderr
    assert matrix.read_bytes() == before


def test_an_error_that_passes_is_no_error(refresh: Callable[..., Any], server: Server) -> None:
    times: list[int] = []

    def once(to: BaseHTTPRequestHandler) -> None:
        times.append(1)
        if len(times) == 1:
            send(to, b"later", "text/plain", 503, Retry_After="1")
        else:
            send(to, (SAVED / "openvino.json").read_bytes(), JSON)

    server.special["/simple/openvino/"] = once
    done = refresh("--only", "openvino")
    assert done.returncode == 0, done.stderr
    assert "503" not in done.stderr
    assert len(times) == 2


def test_redirects_are_followed(refresh: Callable[..., Any], server: Server) -> None:
    server.special["/simple/openvino/"] = lambda to: send(to, b"", "text/html", 301, Location="/moved/")
    server.special["/moved/"] = lambda to: send(to, (SAVED / "openvino.json").read_bytes(), JSON)
    done = refresh("--only", "openvino", "--format", "json")
    places = {place["url"]: place["state"] for place in json.loads(done.stdout)["places"]}
    assert places[f"{server.url}/simple/openvino/"] == "read"


def test_a_server_that_is_slow_or_not_there_is_unreachable(refresh: Callable[..., Any], server: Server, matrix: Path) -> None:
    before = matrix.read_bytes()
    server.special["/simple/openvino/"] = lambda to: time.sleep(30)
    begin = time.monotonic()
    done = refresh("--only", "openvino", "--timeout", "1", "--write")
    assert done.returncode == 5
    assert "not compared: " in done.stderr
    assert "timed out" in done.stderr
    assert time.monotonic() - begin < 15
    done = refresh("--only", "openvino", UV_DEFAULT_INDEX="http://127.0.0.1:9/simple")
    assert done.returncode == 5
    assert "Connection refused" in done.stderr
    assert matrix.read_bytes() == before


def test_credentials_of_a_mirror_are_used_and_not_printed(refresh: Callable[..., Any], server: Server) -> None:
    seen: list[str | None] = []

    def guarded(to: BaseHTTPRequestHandler) -> None:
        seen.append(to.headers.get("Authorization"))
        send(to, b"{", JSON)

    server.special["/simple/openvino/"] = guarded
    done = refresh("--only", "openvino", UV_DEFAULT_INDEX=server.url.replace("//", "//someone:secret@") + "/simple")
    assert seen[0] == "Basic c29tZW9uZTpzZWNyZXQ="
    assert "secret" not in done.stdout + done.stderr


def test_a_mirror_on_a_disk(refresh: Callable[..., Any], tmp_path: Path) -> None:
    folder = tmp_path / "mirror" / "cu130" / "torch"
    folder.mkdir(parents=True)
    (folder / "index.html").write_bytes(cu130("2.14.0"))
    done = refresh("--only", "torch", ENVKIT_PYTORCH_MIRROR=(tmp_path / "mirror").as_uri())
    assert "  - 2.13 cu130 linux/x86_64: no wheel of it is listed any more" in done.stdout


# ---- PyPI itself -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def on_pypi(envkit_command: list[str]) -> Any:
    """The document of a refresh of the shipped matrix against the real PyPI."""
    done = subprocess.run(
        [*envkit_command, "matrix", "refresh", "--format", "json"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    if done.returncode == 5 or "pypi.org" not in done.stdout:
        need(f"PyPI is not reached: {done.stderr.strip()[-300:]}")
    return json.loads(done.stdout)


@pytest.mark.net
@pytest.mark.parametrize(
    "project", ["torch", "torch-npu", "torch-directml", "jax", "mlx", "openvino", "onnxruntime", "onnxruntime-gpu"]
)
def test_pypi_is_read_for_every_framework(project: str, on_pypi: Any) -> None:
    states = {place["url"]: place["state"] for place in on_pypi["places"]}
    assert states[f"https://pypi.org/simple/{project}/"] == "read"


@pytest.mark.net
def test_nothing_that_the_matrix_has_from_pypi_is_gone(on_pypi: Any) -> None:
    assert [change for change in on_pypi["changes"] if change["kind"] == "vanished"] == []
    assert [place for place in on_pypi["places"] if place["state"] == "refused"] == []


@pytest.mark.net
def test_wheels_of_pypi_hold_the_code_that_the_matrix_says(envkit_command: list[str], tmp_path: Path) -> None:
    """The newest releases of torch alone: the whole takes 300 MB."""
    from envkit.matrix import load
    from envkit.matrix.refresh.listings import read_listing
    from envkit.matrix.refresh.measure import measure
    from envkit.matrix.refresh.net import Net, Unreachable
    from envkit.sources import read_sources

    net = Net(read_sources())
    try:
        listing = read_listing(net, "pypi", "https://pypi.org/simple", "torch")
    except Unreachable as trouble:
        need(f"PyPI is not reached: {trouble}")
    matrix = load()
    release = matrix.frameworks["torch"].releases[-1].version
    for platform in ("linux/x86_64", "linux/aarch64"):
        files = [wheel.file for wheel in listing.of(release) if platform in wheel.platforms]
        code = measure(net, files[:1])
        assert code is not None
        [row] = [
            build
            for build in matrix.frameworks["torch"].builds
            if f"+{build.tag}" == code.label
            and platform in build.platforms
            and release.startswith(build.release)
            and not build.packages
        ]
        assert row.archs == code.archs
        assert row.ptx == code.ptx
        assert code.bytes_read < 20_000_000

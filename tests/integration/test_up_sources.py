"""Package sources for real: the real uv against a local stand-in of the indexes, with tiny wheels."""

from __future__ import annotations

import base64
import http.server
import json
import os
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from lab.fake_wheels import make_index, make_wheel
from lab.needs import need

from envkit.model import Build, Framework, Package, Plan, Verdict
from envkit.sources import Sources, installation, look, partners, read_sources
from envkit.venv.contents import distributions

UV = Path(sys.executable).with_name("uv")
USER, PASSWORD = "someone", "s3cr3t/@word"
QUOTED = "someone:s3cr3t%2F%40word"


@dataclass
class Server:
    """A server of files on this machine that notes what it was asked for."""

    root: Path
    url: str = ""
    asked: list[str] = field(default_factory=list)
    locked: bool = False  # wants USER and PASSWORD
    ranges: bool = False  # sends parts of files
    sent: int = 0  # bytes of parts

    @property
    def guarded(self) -> str:
        """The URL with credentials."""
        return self.url.replace("//", f"//{QUOTED}@")


def serve(server: Server, *, context: ssl.SSLContext | None = None) -> http.server.ThreadingHTTPServer:
    class Handler(http.server.SimpleHTTPRequestHandler):
        def do_GET(self) -> None:
            server.asked.append(self.path)
            token = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
            if server.locked and self.headers.get("Authorization") != f"Basic {token}":
                self.send_response(401)
                self.send_header("WWW-Authenticate", 'Basic realm="wheels"')
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            wanted = self.headers.get("Range", "")
            file = Path(self.translate_path(self.path))
            if server.ranges and wanted and file.is_file():
                self.send_part(file.read_bytes(), *wanted.removeprefix("bytes=").split("-"))
                return
            super().do_GET()

        def send_part(self, content: bytes, begin: str, end: str) -> None:
            first = int(begin) if begin else max(0, len(content) - int(end))
            last = int(end) if begin and end else len(content) - 1
            part = content[first : last + 1]
            server.sent += len(part)
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {first}-{last}/{len(content)}")
            self.send_header("Content-Length", str(len(part)))
            self.end_headers()
            self.wfile.write(part)

        def log_message(self, *_: Any) -> None:
            pass

    def handler(*arguments: Any) -> Handler:
        return Handler(*arguments, directory=str(server.root))

    made = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    if context is not None:
        made.socket = context.wrap_socket(made.socket, server_side=True)
    server.url = f"http{'s' if context else ''}://127.0.0.1:{made.server_address[1]}"
    threading.Thread(target=made.serve_forever, daemon=True).start()
    return made


TORCH_REQUIRES = ("filelock", "numpy", "triton==3.3.1", "pytorch-triton-rocm==3.3.1")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """`/whl/cu128` as the framework's index has it, with strangers' numpy and filelock; `/pypi`, with impostors of torch."""
    root = tmp_path / "served"
    own = [("torch", "2.7.1+cu128", TORCH_REQUIRES), ("triton", "3.3.1", ()), ("pytorch-triton-rocm", "3.3.1", ())]
    make_index(root / "whl" / "cu128", [*own, ("numpy", "9.9", ()), ("filelock", "0.1", ())])
    impostors = [
        ("torch", "99.0", ()),
        ("torch", "2.7.1", ()),
        ("torch", "2.7.1+cu128", ("malware",)),
        ("pytorch-triton-rocm", "99.0", ()),
    ]
    make_index(root / "pypi", [*impostors, ("pytorch-triton-rocm", "3.3.1", ("malware",)), ("malware", "1.0", ())])
    make_index(root / "pypi", [("numpy", "2.3.5", ()), ("filelock", "3.0", ()), ("triton", "3.3.1", ("malware",))])
    server = Server(root)
    made = serve(server)
    yield server
    made.shutdown()
    made.server_close()


def plan(index: str, *, version: str = "2.7.1+cu128") -> Plan:
    return Plan(
        scheme="linux-cuda",
        verdict=Verdict.SUPPORTED,
        platform="debian-12/x86_64",
        accelerator_name="",
        accelerator_arch="sm_90",
        driver_have="",
        driver_need="",
        backend_name="cuda",
        backend_version="12.8",
        backend_tag="cu128",
        device="cuda",
        framework_name="torch",
        framework_version="2.7.1",
        python="3.11",
        packages=(Package(name="torch", version=version, index=index), Package(name="numpy", version="2.3.5", index="pypi")),
    )


def framework(index: str) -> Framework:
    return Framework(
        name="torch", package="torch", index=index, builds=(Build(release="2.7", tag="cu128", platforms=("linux/x86_64",)),)
    )


def clean(tmp_path: Path, **variables: str) -> dict[str, str]:
    """An environment without anyone's settings."""
    prefixes = ("PIP_", "UV_", "ENVKIT_")
    kept = {key: value for key, value in os.environ.items() if not key.startswith(prefixes) and "proxy" not in key.lower()}
    home = tmp_path / "home"
    home.mkdir(exist_ok=True)
    own = {"HOME": str(home), "XDG_CONFIG_HOME": str(home), "XDG_CONFIG_DIRS": str(home), "UV_CACHE_DIR": str(tmp_path / "cache")}
    return {**kept, **own, "PIP_CONFIG_FILE": os.devnull, **variables}


def install(
    tmp_path: Path, sources: Sources, chosen: Plan, template: str
) -> tuple[subprocess.CompletedProcess[str], dict[str, str]]:
    """uv's answer to a plan, and what is installed then."""
    found = look(sources, framework(template), ["cu128"])
    made = installation(sources, chosen, found, partners(sources, chosen, found))
    env = tmp_path / "env"
    work = tmp_path / "work"
    work.mkdir(exist_ok=True)
    environ = made.environ(sources.environ)
    subprocess.run(
        [UV, "venv", "--quiet", "--clear", "--no-config", "--python", sys.executable, env], check=True, env=environ, cwd=work
    )
    (work / "pyproject.toml").write_text(made.project, encoding="utf-8")
    (work / "constraints.txt").write_text(made.constraints, encoding="utf-8")
    command = [
        UV,
        "pip",
        "install",
        "--python",
        env / "bin" / "python",
        "-r",
        "pyproject.toml",
        "-c",
        "constraints.txt",
        *made.arguments,
    ]
    done = subprocess.run(command, cwd=work, env=environ, capture_output=True, text=True, check=False)
    return done, distributions(env)


RIGHT = {"torch": "2.7.1+cu128", "numpy": "2.3.5", "filelock": "3.0", "triton": "3.3.1", "pytorch-triton-rocm": "3.3.1"}


def test_each_package_comes_from_where_it_belongs(server: Server, tmp_path: Path) -> None:
    sources = read_sources(clean(tmp_path, PIP_INDEX_URL=f"{server.url}/pypi"), tmp_path)
    done, installed = install(tmp_path, sources, plan(f"{server.url}/whl/cu128"), f"{server.url}/whl/{{tag}}")
    assert done.returncode == 0, done.stderr
    assert installed == RIGHT  # no impostor brought its malware along
    wheels = [path for path in server.asked if path.endswith(".whl")]
    assert all(path.startswith("/whl/cu128/") == ("torch" in path or "triton" in path) for path in wheels), wheels


def test_torch_never_comes_from_the_default_index(server: Server, tmp_path: Path) -> None:
    (server.root / "whl" / "cu128" / "torch" / "torch-2.7.1+cu128-py3-none-any.whl").unlink()
    sources = read_sources(clean(tmp_path, PIP_INDEX_URL=f"{server.url}/pypi"), tmp_path)
    done, installed = install(tmp_path, sources, plan(f"{server.url}/whl/cu128"), f"{server.url}/whl/{{tag}}")
    assert done.returncode == 1
    assert installed == {}
    assert not [path for path in server.asked if path.startswith("/pypi/torch/")]


@pytest.mark.parametrize("setting", ["UV_DEFAULT_INDEX", "UV_INDEX_URL", "UV_INDEX"])
def test_uvs_own_variables_are_honoured(server: Server, tmp_path: Path, setting: str) -> None:
    sources = read_sources(clean(tmp_path, **{setting: f"{server.url}/pypi"}), tmp_path)
    done, installed = install(tmp_path, sources, plan(f"{server.url}/whl/cu128"), f"{server.url}/whl/{{tag}}")
    assert done.returncode == 0, done.stderr
    assert installed == RIGHT


def test_a_project_around_it_and_its_workspace_are_none_of_its_business(server: Server, tmp_path: Path) -> None:
    text = '[project]\nname = "around"\nversion = "1"\n[tool.uv.workspace]\nmembers = ["**"]\n'
    text += f'[[tool.uv.index]]\nurl = "{server.url}/pypi"\ndefault = true\n'
    (tmp_path / "pyproject.toml").write_text(
        text + '[tool.uv.sources]\nnumpy = { url = "https://nowhere.invalid/x.whl" }\n', encoding="utf-8"
    )
    sources = read_sources(clean(tmp_path, UV_TORCH_BACKEND="cpu", UV_OVERRIDE="/nowhere", UV_NO_CONFIG="1"), tmp_path)
    assert sources.default is None  # UV_NO_CONFIG hides the project's settings, as it does from uv
    sources = read_sources(clean(tmp_path, UV_TORCH_BACKEND="cpu", UV_OVERRIDE="/nowhere"), tmp_path)
    done, installed = install(tmp_path, sources, plan(f"{server.url}/whl/cu128"), f"{server.url}/whl/{{tag}}")
    assert done.returncode == 0, done.stderr
    assert installed == RIGHT


def test_credentials_reach_the_servers_and_nothing_else(server: Server, tmp_path: Path) -> None:
    server.locked = True
    wheels = server.root / "links"
    make_wheel(wheels, "filelock", "4.0")
    environ = clean(
        tmp_path,
        PIP_INDEX_URL=f"{server.guarded}/pypi",
        PIP_FIND_LINKS=f"{server.guarded}/links/",
        ENVKIT_PYTORCH_MIRROR=f"{server.guarded}/whl",
    )
    sources = read_sources(environ, tmp_path)
    chosen = plan("https://download.pytorch.org/whl/cu128")
    done, installed = install(tmp_path, sources, chosen, "https://download.pytorch.org/whl/{tag}")
    assert done.returncode == 0, done.stderr
    assert installed == {**RIGHT, "filelock": "4.0"}
    found = look(sources, framework("https://download.pytorch.org/whl/{tag}"), ["cu128"])
    said = [
        done.stdout,
        done.stderr,
        *found.places,
        repr(found),
        repr(sources),
        *(path.read_text() for path in (tmp_path / "work").iterdir()),
    ]
    written = [
        path.read_bytes()
        for path in (tmp_path / "env").rglob("*")
        if path.is_file() and path.suffix in (".json", ".txt", ".cfg", "")
    ]
    for word in ("s3cr3t", "%2F%40"):
        assert not [text for text in said if word in text]
        assert not [content for content in written if word.encode() in content]


def test_wrong_credentials_are_told(server: Server, tmp_path: Path) -> None:
    server.locked = True
    sources = read_sources(clean(tmp_path, ENVKIT_PYTORCH_MIRROR=f"{server.url.replace('//', '//me:wrong@')}/whl"), tmp_path)
    found = look(sources, framework("https://download.pytorch.org/whl/{tag}"), ["cu128"])
    assert list(found.indexes.values()) == [False]
    assert found.places == (f"{server.url.replace('//', '//***@')}/whl/cu128 (answered 401 Unauthorized)",)


def test_a_netrc_file_serves_too(server: Server, tmp_path: Path) -> None:
    server.locked = True
    environ = clean(tmp_path, ENVKIT_PYTORCH_MIRROR=f"{server.url}/whl", UV_DEFAULT_INDEX=f"{server.url}/pypi")
    (tmp_path / "home" / ".netrc").write_text(f"machine 127.0.0.1 login {USER} password {PASSWORD}\n")
    (tmp_path / "home" / ".netrc").chmod(0o600)
    done, installed = install(
        tmp_path,
        read_sources(environ, tmp_path),
        plan("https://download.pytorch.org/whl/cu128"),
        "https://download.pytorch.org/whl/{tag}",
    )
    assert done.returncode == 0, done.stderr
    assert installed == RIGHT


def test_a_mirror_of_one_flat_page(server: Server, tmp_path: Path) -> None:
    page = server.root / "flat" / "cu128"
    for wheel in (server.root / "whl" / "cu128").rglob("*.whl"):
        page.mkdir(parents=True, exist_ok=True)
        wheel.rename(page / wheel.name)
    sources = read_sources(
        clean(tmp_path, UV_DEFAULT_INDEX=f"{server.url}/pypi", ENVKIT_PYTORCH_MIRROR=f"{server.url}/flat"), tmp_path
    )
    make_index(
        server.root / "pypi", [("pytorch-triton-rocm", "3.3.1", ()), ("triton", "3.3.1", ())]
    )  # a flat page has no partners
    done, installed = install(
        tmp_path, sources, plan("https://download.pytorch.org/whl/cu128"), "https://download.pytorch.org/whl/{tag}"
    )
    assert done.returncode == 0, done.stderr
    assert installed["torch"] == "2.7.1+cu128"
    assert "/flat/cu128/torch-2.7.1%2Bcu128-py3-none-any.whl" in server.asked


def test_json_answers_and_metadata_beside_the_wheels(server: Server, tmp_path: Path) -> None:
    import zipfile

    folder = server.root / "whl" / "cu128" / "torch"
    wheel = folder / "torch-2.7.1+cu128-py3-none-any.whl"
    with zipfile.ZipFile(wheel) as archive:
        (folder / f"{wheel.name}.metadata").write_bytes(archive.read("torch-2.7.1+cu128.dist-info/METADATA"))
    (folder / "index.html").write_text(f'<a href="{wheel.name.replace("+", "%2B")}" data-core-metadata="true">{wheel.name}</a>')
    sources = read_sources(clean(tmp_path), tmp_path)
    found = look(sources, framework(f"{server.url}/whl/{{tag}}"), ["cu128"])
    server.asked.clear()
    assert partners(sources, plan(f"{server.url}/whl/cu128"), found) == ("triton==3.3.1", "pytorch-triton-rocm==3.3.1")
    assert not [path for path in server.asked if path.endswith(".whl")], "the wheel itself is not needed for that"


def test_of_a_wheel_of_gigabytes_only_its_metadata_is_fetched(server: Server, tmp_path: Path) -> None:
    server.ranges = True
    code = {"torch/lib/code.so": base64.b64encode(os.urandom(3_000_000)).decode()}
    wheel = make_wheel(server.root / "whl" / "cu128" / "torch", "torch", "2.7.1+cu128", requires=TORCH_REQUIRES, files=code)
    sources = read_sources(clean(tmp_path), tmp_path)
    found = look(sources, framework(f"{server.url}/whl/{{tag}}"), ["cu128"])
    assert partners(sources, plan(f"{server.url}/whl/cu128"), found) == ("triton==3.3.1", "pytorch-triton-rocm==3.3.1")
    assert 0 < server.sent < 200_000 < wheel.stat().st_size


def test_a_certificate_of_an_authority_of_ones_own(tmp_path: Path) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "cert.pem"
    subject = [
        "-subj",
        "/CN=127.0.0.1",
        "-addext",
        "subjectAltName=IP:127.0.0.1",
        "-addext",
        "basicConstraints=critical,CA:FALSE",
    ]
    command = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-days",
        "2",
        "-keyout",
        key,
        "-out",
        certificate,
        *subject,
    ]
    try:
        subprocess.run(command, check=True, capture_output=True)
    except FileNotFoundError:
        need("openssl, to make a certificate")
    server = Server(tmp_path / "served")
    make_index(server.root / "whl" / "cu128", [("torch", "2.7.1+cu128", ())])
    make_index(server.root / "pypi", [("numpy", "2.3.5", ())])
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    made = serve(server, context=context)
    try:
        unset = {"SSL_CERT_FILE": "", "SSL_CERT_DIR": "", "REQUESTS_CA_BUNDLE": "", "CURL_CA_BUNDLE": ""}
        base = {key: value for key, value in clean(tmp_path, PIP_INDEX_URL=f"{server.url}/pypi").items() if key not in unset}
        template = f"{server.url}/whl/{{tag}}"
        stranger = look(read_sources(base, tmp_path), framework(template), ["cu128"])
        assert "its certificate is not trusted" in stranger.places[0]
        sources = read_sources({**base, "PIP_CERT": str(certificate)}, tmp_path)
        done, installed = install(tmp_path, sources, plan(f"{server.url}/whl/cu128"), template)
        assert done.returncode == 0, done.stderr
        assert installed == {"torch": "2.7.1+cu128", "numpy": "2.3.5"}
        trusting = read_sources({**base, "PIP_TRUSTED_HOST": "127.0.0.1"}, tmp_path)
        done, installed = install(tmp_path, trusting, plan(f"{server.url}/whl/cu128"), template)
        assert done.returncode == 0, done.stderr
    finally:
        made.shutdown()
        made.server_close()


def test_a_proxy_of_pips_settings_is_used(server: Server, tmp_path: Path) -> None:
    environ = clean(tmp_path, PIP_PROXY=server.url, NO_PROXY="", no_proxy="")
    look(read_sources(environ, tmp_path), framework("http://index.example/whl/{tag}"), ["cu128"])
    assert server.asked == ["http://index.example/whl/cu128/torch/"]


def test_a_server_that_never_answers_is_given_up(tmp_path: Path) -> None:
    import socket
    import time

    with socket.create_server(("127.0.0.1", 0)) as deaf:
        url = f"http://127.0.0.1:{deaf.getsockname()[1]}/whl/{{tag}}"
        started = time.monotonic()
        found = look(Sources(), framework(url), ["cu128"], limit=0.5)
        assert time.monotonic() - started < 4
    assert found.places[0].endswith("(did not answer: timed out)")


def test_an_old_server_that_answers_nonsense(server: Server, tmp_path: Path) -> None:
    for name, text in {"json": '{"files": 3}', "html": "<html><body>Welcome</body></html>"}.items():
        folder = server.root / name / "cu128" / "torch"
        folder.mkdir(parents=True)
        (folder / "index.html").write_text(text)
        found = look(Sources(), framework(f"{server.url}/{name}/{{tag}}"), ["cu128"])
        assert found.wheels == ()


# ---- the whole way -----------------------------------------------------------------------------------------------


@pytest.fixture
def fake_torch(server: Server) -> str:
    """torch for the CPU on the stand-in's index, in the matrix's newest release: it installs, and can prove nothing."""
    from envkit.matrix import load
    from envkit.model import Facts, Machine, Wish
    from envkit.resolve import plan_of, resolve

    machine = Machine(os="linux", os_id="debian-12", arch="x86_64", glibc="2.36", libc="glibc", gpus=())
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    chosen = plan_of(resolve(load(), Wish(scheme="linux-cpu"), Facts(machine=machine), pythons=[version]))
    for package in chosen.packages:
        if package.index == "pypi":
            make_index(server.root / "pypi", [(package.name, package.version, ())])
    tag = f"cp{version.replace('.', '')}"
    make_index(
        server.root / "whl" / "cpu", [("torch", chosen.framework_package.version, ())], tag=f"{tag}-{tag}-manylinux_2_28_x86_64"
    )
    return chosen.framework_package.version


def test_up_behind_a_mirror_with_credentials(server: Server, fake_torch: str, envkit_command: list[str], tmp_path: Path) -> None:
    server.locked = True
    environ = clean(tmp_path, PIP_INDEX_URL=f"{server.guarded}/pypi", ENVKIT_PYTORCH_MIRROR=f"{server.guarded}/whl")
    environ["XDG_STATE_HOME"] = str(tmp_path / "state")
    command = [*envkit_command, "up", "env", "--scheme", "linux-cpu"]
    done = subprocess.run(
        command, cwd=tmp_path, env=environ, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1, done.stderr  # it is no torch: whole, and not proved
    state = json.loads((tmp_path / "env" / "envkit" / "state.json").read_text())
    assert (state["state"], state["installed"]["torch"]) == ("complete", fake_torch)
    for path in [*(tmp_path / "env").rglob("*"), *(tmp_path / "state").rglob("*")]:
        if path.is_file() and not path.is_symlink():
            assert b"s3cr3t" not in path.read_bytes(), path
    assert "s3cr3t" not in done.stdout + done.stderr
    plan_document = json.loads((tmp_path / "env" / "envkit" / "plan.json").read_text())
    assert plan_document["packages"][0]["index"] == "https://download.pytorch.org/whl/cpu"  # the mirror is no part of the plan


def test_up_names_an_index_that_fails_in_the_midst(
    server: Server, fake_torch: str, envkit_command: list[str], tmp_path: Path
) -> None:
    for wheel in (server.root / "pypi" / "numpy").glob("*.whl"):
        wheel.unlink()
    environ = clean(
        tmp_path,
        PIP_INDEX_URL=f"{server.url}/pypi",
        ENVKIT_PYTORCH_MIRROR=f"{server.url}/whl",
        XDG_STATE_HOME=str(tmp_path / "state"),
    )
    command = [*envkit_command, "up", "env", "--scheme", "linux-cpu"]
    done = subprocess.run(
        command, cwd=tmp_path, env=environ, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    assert done.returncode == 6, done.stderr
    assert "installing failed\nerror: No solution found" in done.stderr
    log = tmp_path / "state" / "envkit" / "up.log"
    assert f"log: {log}" in done.stderr
    assert "numpy" in log.read_text()
    assert not (tmp_path / "env").exists()


def test_up_with_a_broken_settings_file(envkit_command: list[str], tmp_path: Path) -> None:
    (tmp_path / "envkit.toml").write_text('[mirrors]\npytorch = 3\nradeon = "banana"\n')
    command = [*envkit_command, "up", "env", "--scheme", "linux-cpu"]
    done = subprocess.run(
        command, cwd=tmp_path, env=clean(tmp_path), stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    assert done.returncode == 3
    assert "envkit.toml: mirrors.pytorch: expected text, got int" in done.stderr
    assert "envkit.toml: mirrors.radeon: not a URL: 'banana'" in done.stderr
    assert not (tmp_path / "env").exists()

"""Images for real: built by the engine, proven, without a trace of how the packages came."""

from __future__ import annotations

import base64
import contextlib
import http.server
import json
import os
import re
import shutil
import signal
import subprocess
import tarfile
import threading
import time
import uuid
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import jsonschema
import pytest

from envkit.data import packaged

pytestmark = [pytest.mark.docker, pytest.mark.net, pytest.mark.usefixtures("base_image")]

IMAGE = "envkit/linux-cpu:latest"
PREFIX = "envkit-test/"


@pytest.fixture(scope="module", autouse=True)
def no_images_left() -> Iterator[None]:
    """Removes the images that only these tests made."""
    yield
    listed = subprocess.run(
        ["docker", "image", "ls", "--format", "{{.Repository}}:{{.Tag}}"], capture_output=True, text=True, check=False
    )
    for name in listed.stdout.split():
        if name.startswith(PREFIX):
            subprocess.run(["docker", "image", "rm", "--force", name], capture_output=True, check=False)


@pytest.fixture
def places(tmp_path: Path) -> dict[str, str]:
    """Folders of the test's own for state and temporary files, and no settings of pip's or uv's but those of the environment."""
    for name in ("state", "tmp", "cwd"):
        (tmp_path / name).mkdir()
    return {
        "XDG_STATE_HOME": str(tmp_path / "state"),
        "TMPDIR": str(tmp_path / "tmp"),
        "PIP_CONFIG_FILE": os.devnull,
        "UV_NO_CONFIG": "1",
    }


@pytest.fixture
def anew(places: dict[str, str], tmp_path: Path) -> dict[str, str]:
    """The same places, and settings that no earlier build had: its layer cannot be taken for what is to be seen happening.

    Constraints are the one setting of all that decides what is in the image.
    """
    constraints = tmp_path / "constraints.txt"
    constraints.write_text(f"# needle-in-constraints {uuid.uuid4()}\n", encoding="utf-8")
    return {**places, "PIP_CONSTRAINT": str(constraints)}


def envkit(
    command: Sequence[str], *arguments: str, env: Mapping[str, str] | None = None, cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*command, *arguments],
        env={**os.environ, **(env or {})},
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )


def docker(*arguments: str) -> str:
    done = subprocess.run(["docker", *arguments], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def has(image: str) -> bool:
    return subprocess.run(["docker", "image", "inspect", image], capture_output=True, check=False).returncode == 0


def left_over(folder: str) -> list[str]:
    return sorted(path.name for path in Path(folder).iterdir())


def version_of(wheels: Path) -> str:
    """The release of torch in the folder of wheels."""
    names = [
        found[1] for path in wheels.glob("torch-*.whl") if (found := re.match(r"torch-(\d+\.\d+\.\d+)\+cpu-cp311-", path.name))
    ]
    assert names
    return names[0]


@pytest.fixture(scope="module")
def built(envkit_command: list[str], wheels: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The image that `envkit build linux-cpu` makes, as its document tells."""
    done = envkit(envkit_command, "build", "linux-cpu", "--format", "json", cwd=tmp_path_factory.mktemp("cwd"))
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    jsonschema.validate(document, json.loads((packaged("schemas") / "build.json").read_text(encoding="utf-8")))
    (image,) = document["images"]
    assert isinstance(image, dict)
    return image


def test_the_image_is_what_the_document_says(built: dict[str, Any], wheels: Path) -> None:
    facts = json.loads(docker("image", "inspect", IMAGE))[0]
    assert facts["Id"] == built["id"]
    assert facts["Size"] == built["size_bytes"]
    labels = facts["Config"]["Labels"]
    assert labels["org.envkit.plan"] == built["plan"]
    assert labels["org.envkit.scheme"] == "linux-cpu"
    assert labels["org.opencontainers.image.base.name"] == "debian:bookworm-slim"
    assert facts["Config"]["User"] == "1000:1000"
    assert facts["Config"].get("Healthcheck") is None
    assert f"envkit/linux-cpu:{version_of(wheels)}-cpu" in facts["RepoTags"]
    assert 300e6 < facts["Size"] < 1000e6


def test_plan_and_pins_stay_inside_and_hold_later_installs(built: dict[str, Any], tmp_path: Path) -> None:
    plan = json.loads(docker("run", "--rm", IMAGE, "cat", "/opt/envkit/plan.json"))
    assert plan["digest"] == built["plan"]
    pins = docker("run", "--rm", IMAGE, "cat", "/opt/envkit/constraints.txt").splitlines()
    assert f"torch=={built['framework']['version']}" in pins
    environment = docker("run", "--rm", IMAGE, "env").splitlines()
    assert "UV_CONSTRAINT=/opt/envkit/constraints.txt" in environment
    assert "PIP_CONSTRAINT=/opt/envkit/constraints.txt" in environment
    from lab.fake_wheels import make_wheel
    from uv import find_uv_bin

    # Another torch is there to be had, as root, and is refused all the same.
    make_wheel(tmp_path, "torch", "1.13.1")
    shutil.copy2(find_uv_bin(), tmp_path / "uv")
    argv = ["docker", "run", "--rm", "--user", "0", "--network", "none", "--volume", f"{tmp_path}:/w:ro", IMAGE]
    argv += ["/w/uv", "pip", "install"]
    done = subprocess.run(
        [*argv, "--no-index", "--find-links", "/w", "torch==1.13.1"], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode != 0
    assert "unsatisfiable" in done.stderr


def test_a_user_without_rights_can_work(built: dict[str, Any]) -> None:
    script = (
        "import os, torch; p = torch.zeros(2, requires_grad=True); (p - 1).square().sum().backward();"
        "torch.optim.SGD([p], lr=0.5).step(); open('result', 'w').write('x'); print(os.getuid(), os.getcwd(), p.tolist())"
    )
    assert docker("run", "--rm", IMAGE, "python", "-c", script).split(maxsplit=2) == ["1000", "/workspace", "[1.0, 1.0]\n"]


def test_what_was_pruned_is_not_missed(built: dict[str, Any]) -> None:
    script = (
        "import torch, numpy, sympy, networkx, torch.utils.data, torch.utils.cpp_extension, torch.testing, torch.distributed,"
        " torch.multiprocessing as mp, torch.export, torch.onnx, torch._dynamo, torch._inductor, numpy.testing;"
        "t = torch.ones(3).share_memory_(); mp.set_sharing_strategy('file_system'); torch.ones(3).share_memory_();"
        "f = torch.compile(lambda x: x * 2, backend='eager'); print(f(t).sum().item())"
    )
    assert docker("run", "--rm", IMAGE, "python", "-c", script) == "6.0\n"
    listed = docker(
        "run", "--rm", IMAGE, "sh", "-c", "cd /opt/venv/lib/python3.11/site-packages && ls torch/bin && ls -d torch/test || :"
    )
    assert listed == "torch_shm_manager\n"


def test_the_image_proves_itself(
    built: dict[str, Any], envkit_command: list[str], places: dict[str, str], tmp_path: Path
) -> None:
    done = envkit(envkit_command, "verify", "linux-cpu", env=places, cwd=tmp_path / "cwd")
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_second_build_does_nothing_again(
    built: dict[str, Any], envkit_command: list[str], places: dict[str, str], tmp_path: Path
) -> None:
    env = {key: value for key, value in places.items() if key in ("XDG_STATE_HOME", "TMPDIR")}
    done = envkit(envkit_command, "build", "linux-cpu", "--format", "json", env=env, cwd=tmp_path / "cwd")
    assert done.returncode == 0, done.stderr
    (image,) = json.loads(done.stdout)["images"]
    assert image["id"] == built["id"]
    assert {step["name"] for step in image["steps"] if step["cached"]} >= {"Python and a user", "install, prune and prove"}
    assert left_over(places["TMPDIR"]) == []


# ---- no trace ----------------------------------------------------------------------------------------------------


class Mirror(http.server.BaseHTTPRequestHandler):
    """A mirror of the PyTorch index that wants a login."""

    wheel: Path
    login = base64.b64encode(b"reader:open-sesame").decode()

    def do_GET(self) -> None:
        if self.headers.get("Authorization") != f"Basic {self.login}":
            self.send_response(401)
            self.send_header("WWW-Authenticate", "Basic")
            self.end_headers()
            return
        file = self.wheel.name.replace("+", "%2B")
        if self.path == "/whl/cpu/torch/":
            page = f'<!DOCTYPE html><html><body><a href="/files/{file}">{self.wheel.name}</a></body></html>'.encode()
            self.answer("text/html", page)
        elif self.path == f"/files/{file}":
            self.answer("application/octet-stream", self.wheel.read_bytes())
        else:
            self.send_response(404)
            self.end_headers()

    do_HEAD = do_GET

    def answer(self, kind: str, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "GET":
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # uv reads the end of a wheel first, and leaves
                self.wfile.write(body)

    def log_message(self, *_words: object) -> None:
        return


@pytest.fixture
def mirror(wheels: Path) -> Iterator[str]:
    """The address of the mirror, host and port."""
    Mirror.wheel = next(wheels.glob("torch-*-cp311-*.whl"))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Mirror)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def pieces(file: IO[bytes]) -> Iterator[bytes]:
    """The content of a layer, unpacked."""
    head = file.read(1 << 20)
    unpack = zlib.decompressobj(wbits=31) if head[:2] == b"\x1f\x8b" else None
    while head:
        yield unpack.decompress(head) if unpack else head
        head = file.read(1 << 20)


def traces(image: str, needles: Sequence[str]) -> set[str]:
    """Which of the needles can be found anywhere in an image: layers, settings, history."""
    wanted = {needle: needle.encode() for needle in needles}
    longest = max(len(needle) for needle in wanted.values())
    found: set[str] = set()
    saved = subprocess.Popen(["docker", "save", image], stdout=subprocess.PIPE)
    assert saved.stdout is not None
    with tarfile.open(fileobj=saved.stdout, mode="r|") as tar:
        for member in tar:
            file = tar.extractfile(member)
            rest = b""
            for piece in pieces(file) if file else ():
                text = rest + piece
                found |= {needle for needle, data in wanted.items() if data in text}
                rest = text[-longest:]
    assert saved.wait(timeout=60) == 0
    shown = docker("history", "--no-trunc", image) + docker("image", "inspect", image)
    return found | {needle for needle in needles if needle in shown}


def test_nothing_remains_of_the_way_to_the_packages(
    envkit_command: list[str], mirror: str, anew: dict[str, str], tmp_path: Path, wheels: Path
) -> None:
    from lab.machine import ca_bundle

    bundle = tmp_path / "trusted-by-the-company.pem"
    found = ca_bundle()
    bundle.write_text((found.read_text(encoding="utf-8") if found else "") + "\n# needle-in-the-bundle\n", encoding="utf-8")
    logins = tmp_path / "logins.netrc"
    logins.write_text("machine nowhere.example login me password needle-in-netrc\n", encoding="utf-8")
    env = {
        **anew,
        "ENVKIT_PYTORCH_MIRROR": f"http://reader:open-sesame@{mirror}/whl",
        "PIP_FIND_LINKS": "",
        "SSL_CERT_FILE": str(bundle),
        "NETRC": str(logins),
        "NO_PROXY": "127.0.0.1,needle-in-proxies.example",
    }
    name = f"{PREFIX}mirror:1"
    done = envkit(envkit_command, "build", "linux-cpu", "--tag", name, env=env, cwd=tmp_path / "cwd")
    assert done.returncode == 0, done.stderr
    needles = [
        mirror,
        "open-sesame",
        Mirror.login,
        str(bundle),
        "needle-in",
        str(wheels),
        str(tmp_path),
        "envkit-build-",
        "trusted-by-the-company",
    ]
    assert traces(name, needles) == set()
    assert traces(name, ["/opt/envkit/constraints.txt", "org.envkit.plan"]) == {"/opt/envkit/constraints.txt", "org.envkit.plan"}
    log = (tmp_path / "state/envkit/build-linux-cpu.log").read_text(encoding="utf-8")
    assert f"torch=={version_of(wheels)}+cpu" in log
    for text in (log, done.stdout, done.stderr):
        assert "open-sesame" not in text
    assert left_over(anew["TMPDIR"]) == []


# ---- what goes wrong ---------------------------------------------------------------------------------------------


def test_an_environment_that_does_not_prove_itself_makes_no_image(
    envkit_command: list[str], places: dict[str, str], tmp_path: Path, wheels: Path
) -> None:
    from lab.fake_wheels import make_wheel

    folder = tmp_path / "wheels"
    make_wheel(folder, "torch", f"{version_of(wheels)}+cpu", tag="cp311-cp311-manylinux_2_28_x86_64")
    name = f"{PREFIX}broken:1"
    before = docker("image", "ls", "--all", "--quiet", "--no-trunc")
    done = envkit(
        envkit_command, "build", "linux-cpu", "--tag", name, env={**places, "PIP_FIND_LINKS": str(folder)}, cwd=tmp_path / "cwd"
    )
    assert done.returncode == 6, done.stderr
    assert "the environment did not prove itself" in done.stderr
    assert "Traceback" not in done.stderr
    log = re.search(r"^log: (.+)$", done.stderr, re.MULTILINE)
    assert log
    assert Path(log[1]).is_file()
    assert not has(name)
    assert docker("image", "ls", "--all", "--quiet", "--no-trunc") == before
    assert left_over(places["TMPDIR"]) == []


def test_a_proxy_that_is_not_there(envkit_command: list[str], anew: dict[str, str], tmp_path: Path, wheels: Path) -> None:
    env = {**anew, "PIP_FIND_LINKS": str(wheels), "HTTPS_PROXY": "http://127.0.0.1:9", "NO_PROXY": ""}
    done = envkit(envkit_command, "build", "linux-cpu", "--no-prune", "--tag", f"{PREFIX}proxy:1", env=env, cwd=tmp_path / "cwd")
    assert done.returncode == 5, done.stderr
    assert "a package source could not be reached" in done.stderr
    assert not has(f"{PREFIX}proxy:1")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_build_leaves_nothing(
    envkit_command: list[str], anew: dict[str, str], tmp_path: Path, wheels: Path, number: signal.Signals
) -> None:
    name = f"{PREFIX}interrupted:1"
    env = {**os.environ, **anew, "PIP_FIND_LINKS": str(wheels)}
    argv = [*envkit_command, "build", "linux-cpu", "--no-prune", "--tag", name]
    child = subprocess.Popen(argv, env=env, cwd=tmp_path / "cwd", stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    log = tmp_path / "state/envkit/build-linux-cpu.log"
    deadline = time.monotonic() + 120
    while not (log.is_file() and "Using CPython" in log.read_text(encoding="utf-8")):
        assert child.poll() is None, child.stderr.read() if child.stderr else ""
        assert time.monotonic() < deadline, "the install never began"
        time.sleep(0.1)
    child.send_signal(number)
    _, said = child.communicate(timeout=60)
    assert child.returncode == 130, said
    assert said.endswith("interrupted\n")
    assert not has(name)
    assert left_over(anew["TMPDIR"]) == []


def test_no_engine(envkit_command: list[str], places: dict[str, str], tmp_path: Path) -> None:
    env = {**places, "DOCKER_HOST": f"unix://{tmp_path}/none.sock"}
    done = envkit(envkit_command, "build", "linux-cpu", env=env, cwd=tmp_path / "cwd")
    assert done.returncode == 5
    assert f"error: no Docker engine answers at unix://{tmp_path}/none.sock\n" in done.stderr
    assert "hint: start it: " in done.stderr


# ---- more ways ---------------------------------------------------------------------------------------------------

SECOND = """
[scheme.linux-cpu-torch]
os = "linux"
backend = "cpu"
framework = "torch"
task = "train"
title = "A second image beside the first"
for_whom = "tests"
needs = ["nothing"]
pros = ["none"]
cons = ["none"]
cannot = ["anything"]
source = ["torch-index"]
[scheme.linux-cpu-torch.container]
platform = "debian-12"
base = "debian:bookworm-slim"
"""


def test_several_images_at_once(
    built: dict[str, Any], envkit_command: list[str], places: dict[str, str], tmp_path: Path, wheels: Path
) -> None:
    overlay = tmp_path / "overlay.toml"
    overlay.write_text(SECOND, encoding="utf-8")
    env = {**places, "PIP_FIND_LINKS": str(wheels), "ENVKIT_OVERLAY": str(overlay)}
    arguments = ["build", "linux-cpu", "linux-cpu-torch", "--tag", PREFIX + "{scheme}:both", "--format", "json"]
    done = envkit(envkit_command, *arguments, env=env, cwd=tmp_path / "cwd")
    assert done.returncode == 0, done.stderr
    images = json.loads(done.stdout)["images"]
    assert [image["scheme"] for image in images] == ["linux-cpu", "linux-cpu-torch"]
    assert images[0]["id"] != images[1]["id"]
    for image in images:
        assert has(f"{PREFIX}{image['scheme']}:both")
        labels = json.loads(docker("image", "inspect", image["id"]))[0]["Config"]["Labels"]
        assert labels["org.envkit.scheme"] == image["scheme"]
        assert labels["org.envkit.plan"] == image["plan"]
    layers = [json.loads(docker("image", "inspect", image["id"]))[0]["RootFS"]["Layers"] for image in images]
    assert layers[0][:2] == layers[1][:2], "base and system layer are the same"


def test_the_committed_dockerfiles_build_by_hand_as_far_as_uv(checkout: Path) -> None:
    """Without `--build-context uv=`, uv comes from the package index."""
    from lab.machine import ca_bundle

    bundle = ca_bundle()
    secret = [f"--secret=id=ca,src={bundle}"] if bundle else []
    images = checkout / "images"
    argv = ["docker", "buildx", "build", "--target", "uv", "--tag", f"{PREFIX}uv:1", *secret]
    argv += [f"--build-arg={name}" for name in ("http_proxy", "https_proxy", "no_proxy") if os.environ.get(name)]
    done = subprocess.run(
        [*argv, "--file", str(images / "linux-cpu/Dockerfile"), str(images)],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert docker("run", "--rm", f"{PREFIX}uv:1", "/uv", "--version").startswith("uv ")


def test_the_committed_bake_file_is_one(checkout: Path) -> None:
    done = subprocess.run(
        ["docker", "buildx", "bake", "--print"], cwd=checkout / "images", capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert "linux-cpu" in document["group"]["default"]["targets"]
    for target in document["target"].values():
        assert (checkout / "images" / target["dockerfile"]).is_file()

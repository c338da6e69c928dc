"""Environments, containers and hosts that are wrong in one way each, found live: the right cause first.

torch is the real one wherever a wheel of it can be had. PyPI has no old torch for the CPU, and none for another accelerator in
a size fit for a test: those are stand-ins at the level of metadata (version file and record), and their tests say so.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from envkit.data import packaged

UV = Path(sys.executable).with_name("uv")


def doctor(*words: str | Path, limit: float = 240, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-P", "-m", "envkit", "doctor", *map(str, words)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=limit,
        check=False,
        env={**os.environ, **environ},
    )


def diagnosed(*words: str | Path, **environ: str) -> tuple[int, dict[str, Any]]:
    """The exit code and the document, which is as its schema says."""
    done = doctor(*words, "--format", "json", **environ)
    assert done.returncode in (0, 1), done.stderr
    document = json.loads(done.stdout)
    jsonschema.validate(document, json.loads(packaged("schemas/diagnosis.json").read_text(encoding="utf-8")))
    assert document["broken"] == []
    return done.returncode, document


def top(document: dict[str, Any]) -> str:
    return document["findings"][0]["cause"] if document["findings"] else ""


def make_venv(folder: Path) -> Path:
    """An empty environment; where its packages go."""
    subprocess.run([UV, "venv", "--quiet", "--python", sys.executable, folder], check=True, timeout=60)
    return next(folder.glob("lib/python*/site-packages"))


def install(folder: Path, *words: str | Path) -> None:
    argv = [UV, "pip", "install", "--quiet", "--python", folder / "bin/python", *words]
    subprocess.run(argv, check=True, timeout=300)


@pytest.fixture(scope="session")
def torch_site(wheels: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site-packages of a right environment: torch for the CPU and numpy. Shared: look, don't change."""
    folder = tmp_path_factory.mktemp("doctor-torch") / "env"
    site = make_venv(folder)
    install(folder, "--find-links", wheels, "torch==2.13.0+cpu", "numpy")
    return site


@pytest.fixture
def linked(torch_site: Path, tmp_path: Path) -> Callable[..., Path]:
    """An environment that is linked to the right one, without some of its parts."""

    def make(*without: str) -> Path:
        site = make_venv(tmp_path / "env")
        for entry in torch_site.iterdir():
            if not entry.name.startswith(without or ("\0",)) and not (site / entry.name).exists():
                (site / entry.name).symlink_to(entry)
        return site

    return make


def stand_in(site: Path, version: str, lines: str = "", *, cuda: str = "None") -> None:
    """A torch that is no more than its version, as its files tell it."""
    (site / "torch").mkdir(parents=True)
    text = f"__version__ = {version!r}\ncuda = {cuda}\nhip = None\nxpu = None\n"
    (site / "torch/version.py").write_text(text, encoding="utf-8")
    head = "from torch import version\nfrom torch.version import __version__\n"
    (site / "torch/__init__.py").write_text(head + lines, encoding="utf-8")
    record = site / f"torch-{version}.dist-info"
    record.mkdir()
    (record / "METADATA").write_text(f"Metadata-Version: 2.1\nName: torch\nVersion: {version}\n", encoding="utf-8")


def env_of(site: Path) -> Path:
    return site.parents[2]


# ---- environments ------------------------------------------------------------------------------------------------


@pytest.mark.net
def test_a_healthy_environment_has_no_finding(torch_site: Path) -> None:
    code, document = diagnosed("--venv", env_of(torch_site))
    assert (code, document["healthy"], document["findings"]) == (0, True, [])
    assert document["notes"][0].endswith("torch 2.13.0+cpu)")


@pytest.mark.net
def test_the_environment_that_up_made_last_is_looked_at(cpu_venv: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-P", "-m", "envkit", "doctor"], cwd=cpu_venv.parent, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"looked at {cpu_venv}/bin/python" in done.stdout


@pytest.mark.net
def test_the_first_python_on_the_path_with_torch_is_looked_at(torch_site: Path, tmp_path: Path) -> None:
    without = env_of(make_venv(tmp_path / "without"))
    path = os.pathsep.join([f"{without}/bin", f"{env_of(torch_site)}/bin", os.environ["PATH"]])
    code, document = diagnosed(PATH=path, XDG_STATE_HOME=str(tmp_path / "state"))
    assert code == 0
    assert document["notes"][0].startswith(f"looked at {env_of(torch_site)}/bin/python")


@pytest.mark.net
def test_torchvision_of_another_release(linked: Callable[..., Path]) -> None:
    site = linked()
    install(env_of(site), "pillow", "requests")
    install(env_of(site), "--no-deps", "torchvision==0.15.2")
    code, document = diagnosed("--venv", env_of(site))
    assert (code, top(document)) == (1, "torchvision-mismatch")
    # Not only two numbers side by side: the compiled part was called, and would not work.
    assert document["findings"][0]["severity"] == "error"
    assert any("ops" in line and "RuntimeError" in line for line in document["findings"][0]["evidence"])


@pytest.mark.net
def test_two_installs_of_torch_on_one_path(linked: Callable[..., Path], tmp_path: Path) -> None:
    stand_in(tmp_path / "other", "2.4.1+cpu")
    site = linked()
    (site / "other.pth").write_text(f"{tmp_path / 'other'}\n", encoding="utf-8")
    code, document = diagnosed("--venv", env_of(site))
    assert (code, top(document)) == (1, "two-torch-installs")
    assert "2.13.0+cpu in" in document["findings"][0]["evidence"][0]
    assert "2.4.1+cpu in" in document["findings"][0]["evidence"][0]


@pytest.mark.net
def test_a_torch_on_pythonpath_that_goes_before_the_installed_one(linked: Callable[..., Path], tmp_path: Path) -> None:
    stand_in(tmp_path / "other", "2.4.1+cpu")
    path = os.pathsep.join(filter(None, [str(tmp_path / "other"), os.environ.get("PYTHONPATH", "")]))
    code, document = diagnosed("--venv", env_of(linked()), PYTHONPATH=path)
    assert (code, top(document)) == (1, "two-torch-installs")


@pytest.mark.net
def test_numpy_2_under_an_old_torch_by_metadata(linked: Callable[..., Path]) -> None:
    site = linked("torch")
    stand_in(site, "2.2.2+cpu")
    code, document = diagnosed("--venv", env_of(site))
    assert (code, top(document)) == (1, "numpy2-abi")


@pytest.mark.net
def test_numpy_2_under_a_torch_that_says_so(linked: Callable[..., Path]) -> None:
    site = linked("torch")
    lines = (
        "class zeros:\n    def __init__(self, *size): pass\n    def numpy(self): raise RuntimeError('Numpy is not available')\n"
    )
    stand_in(site, "2.2.2+cpu", lines)
    code, document = diagnosed("--venv", env_of(site))
    assert (code, top(document)) == (1, "numpy2-abi")
    assert document["findings"][0]["severity"] == "error"


@pytest.mark.net
def test_a_swapped_flavour_by_metadata(linked: Callable[..., Path]) -> None:
    site = linked("torch")
    stand_in(site, "2.13.0+cu130", "class cuda:\n    is_available = staticmethod(lambda: False)\n", cuda="'13.0'")
    (env_of(site) / "envkit").mkdir()
    plan = {"packages": [{"name": "torch", "version": "2.13.0+cpu", "index": "https://download.pytorch.org/whl/cpu"}]}
    (env_of(site) / "envkit/plan.json").write_text(json.dumps(plan), encoding="utf-8")
    code, document = diagnosed("--venv", env_of(site))
    assert (code, top(document)) == (1, "wrong-accelerator-wheel")
    assert "was made with torch 2.13.0+cpu" in document["findings"][0]["message"]


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "ended by SIGSEGV (Segmentation fault)"),
        ("import time; time.sleep(60)", "no answer within 3.0 s: hung, and was ended"),
        ("raise ImportError('libcudnn.so.9: cannot open shared object file')", "libcudnn.so.9: cannot open shared object file"),
        ("raise SystemExit(3)", "SystemExit: 3"),
    ],
    ids=["crash", "hang", "import error", "exit"],
)
def test_a_torch_that_breaks_is_told_and_stops_nothing(lines: str, told: str, tmp_path: Path) -> None:
    site = make_venv(tmp_path / "env")
    stand_in(site, "2.6.0+cu124", lines + "\n", cuda="'12.4'")
    bundle = tmp_path / "bundle.json"
    done = doctor("--venv", tmp_path / "env", "--limit", "3", "--bundle", bundle, limit=60)
    assert done.returncode in (0, 1), done.stderr
    document = json.loads(bundle.read_text(encoding="utf-8"))
    assert document["torch"]["version"] == "2.6.0+cu124"
    assert told in document["evidence"]["python -c 'import torch'"]
    assert "detect/probe.py" not in document["evidence"]["python -c 'import torch'"]


# ---- repairing ---------------------------------------------------------------------------------------------------


@pytest.mark.net
def test_fix_puts_an_environment_of_ours_right_again(cpu_venv: Path, envkit_command: list[str], tmp_path: Path) -> None:
    folder = tmp_path / "env"
    done = subprocess.run(
        [*envkit_command, "up", str(folder), "--scheme", "linux-cpu"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    site = next(folder.glob("lib/python*/site-packages"))
    shutil.rmtree(site / "torch")
    shutil.rmtree(next(site.glob("torch-*.dist-info")))
    stand_in(site, "2.13.0+cu130", "class cuda:\n    is_available = staticmethod(lambda: False)\n", cuda="'13.0'")
    shown = doctor("--venv", folder, "--fix")
    assert shown.returncode == 1
    assert f"from here, with --yes: wrong-accelerator-wheel: reinstall the right wheels in {folder}" in shown.stderr
    assert (site / "torch-2.13.0+cu130.dist-info").is_dir()
    done = doctor("--venv", folder, "--fix", "--yes", limit=600)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{folder} holds torch==2.13.0+cpu again" in done.stderr
    assert not (site / "torch-2.13.0+cu130.dist-info").exists()


@pytest.mark.net
def test_fix_puts_right_wheels_into_an_environment_of_others(wheels: Path, tmp_path: Path) -> None:
    site = make_venv(tmp_path / "env")
    install(tmp_path / "env", "numpy==2.2.6")
    stand_in(site, "2.2.2+cpu")
    record = next(site.glob("torch-*.dist-info"))
    rows = [f"torch/{name},," for name in ("__init__.py", "version.py")] + [
        f"{record.name}/METADATA,,",
        f"{record.name}/RECORD,,",
    ]
    (record / "RECORD").write_text("\n".join(rows) + "\n", encoding="utf-8")
    state = str(tmp_path / "state")
    done = doctor("--venv", tmp_path / "env", "--fix", "--yes", limit=600, XDG_STATE_HOME=state, PIP_FIND_LINKS=str(wheels))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "nothing was found wrong" in done.stdout
    noted = next((tmp_path / "state").rglob("mended/*.txt")).read_text(encoding="utf-8")
    assert "torch==2.2.2+cpu\n" in noted
    assert "numpy==2.2.6\n" in noted


# ---- containers and hosts ----------------------------------------------------------------------------------------


def docker(*words: str | Path, check: bool = True) -> str:
    done = subprocess.run(["docker", *map(str, words)], capture_output=True, text=True, timeout=120, check=False)
    assert not check or done.returncode == 0, f"docker {words[0]}: {done.stderr}"
    return done.stdout.strip()


@pytest.fixture
def container(base_image: str) -> Iterator[Callable[..., str]]:
    """Starts containers of the lab's host image with the given flags; all are removed in the end."""
    from lab import ssh_hosts

    image = ssh_hosts.ensure_image()
    names: list[str] = []

    def start(*flags: str) -> str:
        name = f"envkit-test-{os.getpid()}-doctor-{len(names)}"
        names.append(name)
        docker("run", "--detach", "--rm", "--name", name, *flags, image, "/bin/sleep", "600")
        return name

    yield start
    for name in names:
        docker("rm", "--force", name, check=False)


@pytest.mark.docker
def test_a_container_as_it_is_has_no_finding(container: Callable[..., str]) -> None:
    code, document = diagnosed("--host", f"docker://{container()}")
    assert (code, document["findings"]) == (0, [])


@pytest.mark.docker
def test_a_container_without_room_at_dev_shm(container: Callable[..., str]) -> None:
    code, document = diagnosed("--host", f"docker://{container('--shm-size=1m')}")
    assert (code, top(document)) == (1, "container-shm-small")
    assert any("No space left on device" in line for line in document["findings"][0]["evidence"])


@pytest.mark.docker
def test_a_container_as_a_user_who_may_not_open_the_device(container: Callable[..., str]) -> None:
    name = container("--device=/dev/null:/dev/kfd", "--device=/dev/zero:/dev/dri/renderD128", "--user=4321:4321")
    docker(
        "exec", "--user", "0", name, "sh", "-c", "chgrp 993 /dev/kfd /dev/dri/renderD128; chmod 660 /dev/kfd /dev/dri/renderD128"
    )
    code, document = diagnosed("--host", f"docker://{name}")
    assert (code, top(document)) == (1, "container-gid-mismatch")


@pytest.mark.docker
def test_a_container_with_a_cut_path(container: Callable[..., str]) -> None:
    code, document = diagnosed("--host", f"docker://{container('--env=PATH=/nowhere', '--shm-size=1m')}")
    assert (code, top(document)) == (1, "container-shm-small")


@pytest.mark.ssh
@pytest.mark.docker
@pytest.mark.net
def test_ssh_hosts_of_an_inventory(make_ssh_hosts: Callable[..., Any], tmp_path: Path) -> None:
    from lab import ssh_hosts

    made = make_ssh_hosts(2)
    script = (
        "mkdir -p /opt/envkit/linux-cpu && cd /opt/envkit/linux-cpu && python3 -m venv --without-pip . && "
        "s=$(echo lib/python3*/site-packages) && mkdir $s/torch $s/torch-2.2.2+cpu.dist-info $s/numpy-2.1.0.dist-info && "
        "printf '__version__ = \"2.2.2+cpu\"\\ncuda = None\\nhip = None\\n' > $s/torch/version.py && "
        "printf 'from torch import version\\n__version__ = version.__version__\\n' > $s/torch/__init__.py && "
        "printf 'Name: torch\\nVersion: 2.2.2+cpu\\n' > $s/torch-2.2.2+cpu.dist-info/METADATA && "
        "printf 'Name: numpy\\nVersion: 2.1.0\\n' > $s/numpy-2.1.0.dist-info/METADATA"
    )
    docker("exec", made[0].name, "sh", "-c", script)
    code, document = diagnosed("--host", made[0].url)
    assert (code, top(document)) == (1, "numpy2-abi")
    assert document["notes"][0].startswith("looked at /opt/envkit/linux-cpu/bin/python")

    inventory = tmp_path / "hosts.ini"
    text = ssh_hosts.inventory(made)
    gone = text.splitlines()[1].replace(made[0].name, "gone", 1).replace(f'ansible_port="{made[0].port}"', 'ansible_port="1"')
    inventory.write_text(text + gone + "\n", encoding="utf-8")
    done = doctor("-i", inventory, "--format", "json")
    assert done.returncode == 1, done.stderr
    several = json.loads(done.stdout)
    jsonschema.validate(several, json.loads(packaged("schemas/diagnoses.json").read_text(encoding="utf-8")))
    assert {each["host"]: top(each) for each in several["diagnoses"]} == {made[0].name: "numpy2-abi", made[1].name: ""}
    assert [each["host"] for each in several["unreached"]] == ["gone"]
    lines = doctor("-i", inventory).stdout.splitlines()
    assert lines[-3].split() == [made[0].name, "numpy2-abi"]
    assert lines[-1].startswith("gone")


@pytest.mark.ssh
@pytest.mark.docker
def test_the_bundle_of_a_host_does_not_name_it(ssh_host: Any, tmp_path: Path) -> None:
    file = tmp_path / "report.toml"
    assert doctor("--host", ssh_host.url, "--bundle", file).returncode == 0
    text = file.read_text(encoding="utf-8")
    assert [word for word in (ssh_host.name, "127.0.0.1", str(ssh_host.key)) if word in text] == []
    assert doctor("--report", file).returncode == 0

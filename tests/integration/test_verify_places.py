"""Real containers and SSH hosts: the probe gets there in one round trip, and nothing of it stays."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from envkit import plan as plans
from envkit.errors import Unavailable, UsageError
from envkit.model import Package, Plan, Verdict
from envkit.verify import verify_host, verify_image
from envkit.verify.hosts import connect

UV = Path(sys.executable).with_name("uv")
SITE = "/opt/site"

PLAN = Plan(
    scheme="linux-cpu",
    verdict=Verdict.SUPPORTED,
    platform="debian-12/x86_64",
    accelerator_name="",
    accelerator_arch="",
    driver_have="",
    driver_need="",
    backend_name="cpu",
    backend_version="",
    backend_tag="cpu",
    device="cpu",
    framework_name="torch",
    framework_version="2.13.0",
    python="3.11",
    packages=(Package(name="torch", version="2.13.0+cpu", index="https://download.pytorch.org/whl/cpu"),),
)

# An environment that finds its packages in SITE; $1 is where it lies.
MAKE = f"""set -e
python3 -m venv --without-pip "$1"
echo {SITE} > "$1"/lib/python3.11/site-packages/site.pth
"""


def docker(*words: str | Path, stdin: str | None = None, limit: float = 120, check: bool = True) -> str:
    done = subprocess.run(["docker", *map(str, words)], input=stdin, capture_output=True, text=True, timeout=limit, check=False)
    assert not check or done.returncode == 0, f"docker {words[0]}: {done.stderr}"
    return done.stdout.strip()


@pytest.fixture(scope="session")
def torch_packages(wheels: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that holds torch for the CPU and numpy, for the Python 3.11 of Debian 12."""
    if sys.version_info[:2] != (3, 11):
        from lab.needs import need

        need("the lab's hosts have Python 3.11, and the wheels here are for another one")
    folder = tmp_path_factory.mktemp("packages") / "site"
    argv = [UV, "pip", "install", "--quiet", "--target", folder, "--find-links", wheels, "torch==2.13.0+cpu", "numpy"]
    subprocess.run([*argv, "--python", sys.executable], check=True, timeout=300)
    # Once, for its byte code: the hosts see the folder read-only and would compile it at every start.
    subprocess.run([sys.executable, "-c", "import torch"], env={**os.environ, "PYTHONPATH": str(folder)}, check=True, timeout=120)
    return folder


@pytest.fixture(scope="session")
def host_image(base_image: str) -> str:
    """The lab's image of a host, which has a Python."""
    from lab import ssh_hosts

    return ssh_hosts.ensure_image()


def record(plan: Plan) -> str:
    return json.dumps(plans.to_document(plan))


@pytest.fixture(scope="module")
def container(host_image: str, torch_packages: Path) -> Iterator[str]:
    """A running container that was set up as a linux-cpu host."""
    name = f"envkit-test-{os.getpid()}-host"
    docker("run", "--detach", "--rm", "--name", name, f"--volume={torch_packages}:{SITE}:ro", host_image, "sleep", "900")
    try:
        set_up(name, PLAN)
        yield name
    finally:
        docker("rm", "--force", name, check=False)


def set_up(name: str, plan: Plan) -> None:
    """Makes the environment of a plan in a container, where provisioning puts it."""
    folder = f"/opt/envkit/{plan.scheme}"
    docker("exec", "--interactive", name, "sh", "-s", folder, stdin=MAKE)
    docker(
        "exec", "--interactive", name, "sh", "-c", f"mkdir {folder}/envkit; cat > {folder}/envkit/plan.json", stdin=record(plan)
    )


def cli(*words: str | Path, limit: float = 180) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-P", "-m", "envkit", "verify", *map(str, words)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=limit,
        check=False,
    )


# ---- containers --------------------------------------------------------------------------------------------------


@pytest.mark.docker
@pytest.mark.net
def test_a_container_is_held_to_its_recorded_plan(container: str) -> None:
    done = cli("--host", f"docker://{container}", "--format", "json")
    assert done.returncode == 0, done.stderr
    proof = json.loads(done.stdout)
    assert proof["passed"] is True
    assert (proof["plan"], proof["scheme"], proof["host"]) == (plans.digest(PLAN), "linux-cpu", f"docker://{container}")
    assert proof["measured"]["prefix"] == "/opt/envkit/linux-cpu"


@pytest.mark.docker
@pytest.mark.net
def test_nothing_of_the_probe_stays_on_the_host(container: str) -> None:
    docker("exec", container, "sh", "-c", "touch /tmp/before")
    verify_host(None, f"docker://{container}")
    changed = docker(
        "exec", container, "sh", "-c", "find / -xdev -newer /tmp/before -type f -not -path '/proc/*' -not -path '/sys/*'"
    )
    assert [path for path in changed.splitlines() if "__pycache__" not in path and "ld.so" not in path] == []


@pytest.mark.docker
@pytest.mark.net
def test_a_host_is_not_held_to_a_scheme_it_does_not_serve(container: str) -> None:
    done = cli("linux-cuda", "--host", f"docker://{container}")
    assert done.returncode == 5
    assert done.stderr == (
        f"error: docker://{container} has no environment: "
        "no Python at /opt/envkit/linux-cuda/bin/python or /opt/venv/bin/python\n"
        "hint: name its Python: --python PATH, or provision the host first\n"
    )
    done = cli("linux-cuda", "--host", f"docker://{container}", "--python", "/opt/envkit/linux-cpu/bin/python")
    assert done.returncode == 2
    assert "was set up as linux-cpu, not linux-cuda" in done.stderr


@pytest.mark.docker
@pytest.mark.net
def test_a_python_without_a_plan_is_held_to_the_scheme(container: str) -> None:
    docker("exec", "--interactive", container, "sh", "-s", "/srv/plain", stdin=MAKE)
    done = cli("linux-cpu", "--host", f"docker://{container}", "--python", "/srv/plain/bin/python")
    assert done.returncode == 0, done.stdout + done.stderr
    done = cli("linux-cuda", "--host", f"docker://{container}", "--python", "/srv/plain/bin/python")
    assert done.returncode == 1
    assert "device-nodes" in done.stdout
    assert "there is no /dev/nvidiactl" in done.stdout
    done = cli("--host", f"docker://{container}", "--python", "/srv/plain/bin/python")
    assert done.returncode == 5
    assert "no plan is recorded here" in done.stderr
    assert "hint: say what to hold it to: envkit verify SCHEME --host URL" in done.stderr


@pytest.mark.docker
@pytest.mark.net
def test_several_environments_on_one_host_have_to_be_told_apart(container: str) -> None:
    other = replace(PLAN, scheme="linux-cuda", backend_name="cuda")
    set_up(container, other)
    try:
        with pytest.raises(
            UsageError, match="has several environments: /opt/envkit/linux-cpu/bin/python /opt/envkit/linux-cuda/"
        ):
            verify_host(None, f"docker://{container}")
        assert verify_host(None, f"docker://{container}", scheme="linux-cpu").passed
    finally:
        docker("exec", container, "rm", "-r", "/opt/envkit/linux-cuda")


@pytest.mark.docker
def test_a_container_that_is_not_there_is_unavailable(engine: Any) -> None:
    done = cli("--host", "docker://envkit-test-absent")
    assert done.returncode == 5
    assert "docker://envkit-test-absent cannot be reached" in done.stderr
    assert "hint: see what runs with: docker ps" in done.stderr


# ---- images ------------------------------------------------------------------------------------------------------


@pytest.fixture
def make_image(host_image: str, tmp_path: Path) -> Iterator[Callable[..., str]]:
    """Builds an image as `envkit build` lays it out, with its packages on a volume; `lines` go into the Dockerfile."""
    made: list[str] = []

    def make(plan: Plan, *, label: str = "", lines: str = "") -> str:
        name = f"envkit-test/{plan.scheme}:{os.getpid()}-{len(made)}"
        (tmp_path / "plan.json").write_text(record(plan), encoding="utf-8")
        (tmp_path / "make").write_text(MAKE, encoding="utf-8")
        text = (
            f"FROM {host_image}\nCOPY make /make\nRUN sh /make /opt/venv && useradd worker\n"
            "COPY plan.json /opt/envkit/plan.json\n"
            f'LABEL org.envkit.plan={label or plans.digest(plan)}\n{lines}\nUSER worker\nENTRYPOINT ["false"]\n'
        )
        docker("build", "--quiet", "--tag", name, "--file", "-", tmp_path, stdin=text)
        made.append(name)
        return name

    yield make
    for name in made:
        docker("image", "rm", "--force", name, check=False)


def leftovers() -> list[str]:
    return docker("ps", "--all", "--filter", "name=envkit-verify-", "--format", "{{.Names}}").split()


def with_packages(plan: Plan, packages: Path) -> Plan:
    return replace(plan, run_flags=(f"--volume={packages}:{SITE}:ro",))


@pytest.mark.docker
@pytest.mark.net
def test_an_image_is_proven_with_its_plans_run_flags(make_image: Callable[..., str], torch_packages: Path) -> None:
    image = make_image(with_packages(PLAN, torch_packages))
    done = cli("--image", image, "--format", "json")
    assert done.returncode == 0, done.stdout + done.stderr
    proof = json.loads(done.stdout)
    assert proof["host"] == f"docker://{image}"
    assert {check["id"]: check["outcome"] for check in proof["checks"]}["image-plan"] == "passed"
    assert proof["measured"]["executable"] == "/opt/venv/bin/python"
    assert leftovers() == []


@pytest.mark.docker
@pytest.mark.net
def test_an_image_whose_label_lies_has_failed(make_image: Callable[..., str], torch_packages: Path) -> None:
    proof = verify_image(None, make_image(with_packages(PLAN, torch_packages), label="sha256:" + "0" * 64))
    assert [check.id for check in proof.checks if check.outcome == "failed"] == ["image-plan"]
    assert not proof.passed


@pytest.mark.docker
def test_an_image_without_its_framework_has_failed(make_image: Callable[..., str]) -> None:
    proof = verify_image(None, make_image(PLAN), limit=60)
    words = {check.id: check.detail for check in proof.checks if check.outcome == "failed"}
    assert words == {
        "flavour": "torch is not installed, the plan wants 2.13.0+cpu",
        "import": "torch is not installed in this environment",
    }
    assert leftovers() == []


HANGING = (
    "RUN mkdir -p /opt/venv/lib/python3.11/site-packages/torch "
    "&& echo 'import time; time.sleep(600)' > /opt/venv/lib/python3.11/site-packages/torch/__init__.py"
)


@pytest.mark.docker
def test_a_hanging_image_is_ended_within_the_limit(make_image: Callable[..., str]) -> None:
    image = make_image(PLAN, lines=HANGING)
    started = time.monotonic()
    proof = verify_image(None, image, limit=4)
    assert time.monotonic() - started < 20
    assert next(c.detail for c in proof.checks if c.id == "import").startswith(
        "did not come back within 4 s while importing torch"
    )
    assert leftovers() == []


@pytest.mark.docker
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_verification_leaves_no_container(make_image: Callable[..., str], number: signal.Signals) -> None:
    image = make_image(PLAN, lines=HANGING)
    running = subprocess.Popen(
        [sys.executable, "-P", "-m", "envkit", "verify", "--image", image],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    until = time.monotonic() + 30
    while not leftovers() and time.monotonic() < until:
        time.sleep(0.1)
    assert leftovers()
    running.send_signal(number)
    _, errors = running.communicate(timeout=30)
    assert running.returncode == 130
    assert errors.split() == ["interrupted"]
    assert leftovers() == []


@pytest.mark.docker
def test_an_image_that_cannot_get_its_devices_says_what_is_missing(make_image: Callable[..., str]) -> None:
    image = make_image(replace(PLAN, scheme="linux-cuda", backend_name="cuda", run_flags=("--gpus=all",)))
    with pytest.raises(Unavailable, match="could not select device driver") as raised:
        verify_image(None, image, limit=60)
    assert raised.value.hint.startswith("install the NVIDIA Container Toolkit")
    assert leftovers() == []


@pytest.mark.docker
def test_what_is_not_our_image_is_told(base_image: str) -> None:
    with pytest.raises(UsageError, match=re.escape(f"{base_image} holds no plan")):
        verify_image(None, base_image)
    done = cli("--image", "envkit/linux-rocm:never-built")
    assert done.returncode == 5
    assert done.stderr == "error: there is no image envkit/linux-rocm:never-built here\nhint: envkit build linux-rocm\n"


# ---- ssh ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def set_up_host(make_ssh_hosts: Callable[..., Any], torch_packages: Path) -> Any:
    """An SSH host that was set up as a linux-cpu host."""
    host = make_ssh_hosts(1)[0]
    docker("cp", "--quiet", torch_packages, f"{host.name}:{SITE}", limit=300)
    set_up(host.name, PLAN)
    return host


@pytest.mark.docker
@pytest.mark.ssh
@pytest.mark.net
def test_a_host_is_proven_over_ssh(set_up_host: Any) -> None:
    proof = verify_host(None, set_up_host.url)
    assert proof.passed
    assert proof.host == f"ssh://{set_up_host.user}@127.0.0.1:{set_up_host.port}"
    options = ("--identity", set_up_host.key, "--ssh-config", set_up_host.ssh_config)
    done = cli("linux-cpu", "--host", set_up_host.url.partition("?")[0], *options)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1].startswith("PASSED: one step trained on cpu")


@pytest.mark.docker
@pytest.mark.ssh
@pytest.mark.net
def test_an_inventory_tells_each_host_by_itself(set_up_host: Any, tmp_path: Path) -> None:
    from lab import ssh_hosts

    inventory = tmp_path / "hosts.ini"
    lines = ssh_hosts.inventory([set_up_host])
    gone = re.sub(r'ansible_port="?\d+"?', 'ansible_port="1"', lines.splitlines()[1]).replace(set_up_host.name, "gone", 1)
    inventory.write_text(f"{lines}{gone}\n", encoding="utf-8")
    done = cli("-i", inventory, "--format", "json")
    assert done.returncode == 5, done.stderr
    document = json.loads(done.stdout)
    assert [(proof["host"], proof["passed"]) for proof in document["proofs"]] == [(f"ansible://{set_up_host.name}", True)]
    assert [host["host"] for host in document["unreached"]] == ["gone"]
    assert "Connection refused" in document["unreached"][0]["why"]


@pytest.mark.docker
@pytest.mark.ssh
def test_a_host_that_refuses_the_key_says_so(ssh_host: Any, tmp_path: Path) -> None:
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", tmp_path / "key"], check=True, timeout=30)
    config = tmp_path / "config"
    known = ssh_host.ssh_config.parent / "known_hosts"
    config.write_text(f"Host *\n  UserKnownHostsFile {known}\n  IdentitiesOnly yes\n", encoding="utf-8")
    url = f"ssh://{ssh_host.user}@127.0.0.1:{ssh_host.port}?ssh_config={config}&ssh_identity_file={tmp_path / 'key'}"
    with pytest.raises(Unavailable, match="Permission denied") as raised:
        verify_host(None, url)
    assert "--identity FILE" in raised.value.hint


@pytest.mark.docker
@pytest.mark.ssh
def test_a_host_whose_key_is_not_known_is_not_asked_about(ssh_host: Any, tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text(f"Host *\n  UserKnownHostsFile {tmp_path / 'none'}\n", encoding="utf-8")
    url = f"ssh://{ssh_host.user}@127.0.0.1:{ssh_host.port}?ssh_config={config}&ssh_identity_file={ssh_host.key}"
    with pytest.raises(Unavailable, match="Host key verification failed") as raised:
        verify_host(None, url)
    assert raised.value.hint.startswith("log in once by hand to accept its key: ssh ")


@pytest.mark.ssh
def test_a_host_that_takes_the_call_and_stays_silent_is_left_in_time() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        started = time.monotonic()
        done = connect(f"ssh://me@127.0.0.1:{silent.getsockname()[1]}?timeout=600")(["true"], limit=2)
        assert done.timed_out
        assert time.monotonic() - started < 6


# ---- smoke tests -------------------------------------------------------------------------------------------------


def smoke(folder: Path, *words: str | Path, limit: float = 300) -> subprocess.CompletedProcess[str]:
    root = Path(__file__).resolve().parents[2]
    # Without the repository's own settings, as someone who only has envkit installed runs them.
    return subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-p",
            "envkit.verify.smoke.options",
            "--pyargs",
            "envkit.verify.smoke",
            "-rs",
            *map(str, words),
        ],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(root), "PYTEST_ADDOPTS": "-p no:cacheprovider"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=limit,
        check=False,
    )


@pytest.mark.docker
@pytest.mark.ssh
@pytest.mark.net
def test_the_smoke_tests_present_each_host(container: str, set_up_host: Any, tmp_path: Path) -> None:
    hosts = f"--hosts=docker://{container},{set_up_host.url}"
    done = smoke(tmp_path, hosts, "--envkit-scheme=linux-cpu", "-v")
    assert done.returncode == 0, done.stdout + done.stderr
    for label in (f"docker://{container}", "ssh://127.0.0.1"):
        assert re.search(rf"test_check\[{re.escape(label)}-train-step\] PASSED", done.stdout)
        assert re.search(rf"test_something_was_computed\[{re.escape(label)}\] PASSED", done.stdout)
        assert re.search(rf"test_records_are_safe\[{re.escape(label)}\] PASSED", done.stdout)
        assert re.search(rf"test_python_is_a_file_of_the_environment\[{re.escape(label)}\] PASSED", done.stdout)


@pytest.mark.docker
@pytest.mark.net
def test_the_smoke_tests_fail_where_nothing_is_computed(container: str, tmp_path: Path) -> None:
    docker("exec", container, "python3", "-m", "venv", "--without-pip", "/srv/empty")
    plan = tmp_path / "plan.json"
    plan.write_text(record(PLAN), encoding="utf-8")
    words = (f"--hosts=docker://{container}", "--envkit-python=/srv/empty/bin/python", f"--envkit-plan={plan}")
    done = smoke(tmp_path, *words)
    assert done.returncode == 1
    assert f"nothing was computed on docker://{container}" in done.stdout
    assert "flavour: torch is not installed, the plan wants 2.13.0+cpu" in done.stdout


@pytest.mark.docker
def test_the_smoke_tests_fail_on_a_host_that_is_not_there(engine: Any, tmp_path: Path) -> None:
    done = smoke(tmp_path, "--hosts=docker://envkit-test-absent", "--envkit-scheme=linux-cpu")
    assert done.returncode == 1
    assert "docker://envkit-test-absent cannot be reached" in done.stdout
    assert " passed" not in done.stdout


@pytest.mark.net
def test_the_smoke_tests_take_this_machine(torch_packages: Path, tmp_path: Path) -> None:
    env = tmp_path / "env"
    subprocess.run([UV, "venv", "--quiet", "--python", sys.executable, env], check=True, timeout=60)
    site = next(env.glob("lib/python*/site-packages"))
    (site / "site.pth").write_text(f"{torch_packages}\n", encoding="utf-8")
    plan = tmp_path / "plan.json"
    plan.write_text(record(PLAN), encoding="utf-8")
    done = smoke(tmp_path, "--hosts=local://", f"--envkit-python={env / 'bin/python'}", f"--envkit-plan={plan}")
    assert done.returncode == 0, done.stdout + done.stderr
    broken = plans.to_document(replace(PLAN, packages=(replace(PLAN.packages[0], version="2.13.0+cu130"),)))
    plan.write_text(json.dumps(broken), encoding="utf-8")
    done = smoke(tmp_path, "--hosts=local://", f"--envkit-python={env / 'bin/python'}", f"--envkit-plan={plan}")
    assert done.returncode == 1
    assert "the plan wants torch 2.13.0+cu130, this environment has 2.13.0+cpu" in done.stdout

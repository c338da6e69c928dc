"""How the probe gets to a venv, an image and a host: commands, refusals, and what becomes of a probe that says nothing."""

from __future__ import annotations

import ast
import base64
import builtins
import dis
import json
import zlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import CodeType, SimpleNamespace
from typing import Any

import pytest

from envkit import plan as plans
from envkit.errors import InvalidFile, Unavailable, UsageError
from envkit.model import Backend, Container, Os, Package, Plan, Scheme, Verdict
from envkit.process import Completed
from envkit.verify import aim_at_plan, aim_at_scheme, image_name, probe, verify_host, verify_image, verify_venv
from envkit.verify.runner import (
    Image,
    flags_here,
    host_command,
    judge_image,
    pack,
    packed_probe,
    recorded_plan,
    slim,
    venv_python,
)

PROBE = Path(probe.__file__)

PLAN = Plan(
    scheme="linux-cuda",
    verdict=Verdict.SUPPORTED,
    platform="debian-12/x86_64",
    accelerator_name="NVIDIA H200",
    accelerator_arch="sm_90",
    driver_have="580.65.06",
    driver_need="525.60.13",
    backend_name="cuda",
    backend_version="12.8",
    backend_tag="cu128",
    device="cuda",
    framework_name="torch",
    framework_version="2.7.1",
    python="3.12",
    packages=(Package(name="torch", version="2.7.1+cu128", index="https://download.pytorch.org/whl/cu128"),),
    container=Container(platform="debian-12", base="debian:bookworm-slim", run_flags=("--gpus=all",)),
    run_flags=("--gpus=all",),
    reasons=("a reason " * 500,),
)
DIGEST = plans.digest(PLAN)
PROBED = {
    "schema": "envkit/probe/1",
    "checks": [{"id": "train-step", "level": "compute", "outcome": "passed", "seconds": 1.0, "detail": "fine"}],
    "measured": {"device": "cuda:0"},
}


def ended(
    status: int | None = 0, stdout: str = "", stderr: str = "", *, timed_out: bool = False, missing: bool = False
) -> Completed:
    return Completed(argv=(), returncode=status, stdout=stdout, stderr=stderr, timed_out=timed_out, missing=missing)


class Told:
    """A Runner that answers by the first words of a command, and remembers what it was asked."""

    def __init__(self, answers: dict[str, Completed]) -> None:
        self.answers = answers
        self.asked: list[list[str]] = []

    def __call__(self, argv: Sequence[str], *, limit: float = 30.0) -> Completed:
        self.asked.append(list(argv))
        line = " ".join(argv)
        return next((answer for words, answer in self.answers.items() if words in line), ended())


# ---- aims --------------------------------------------------------------------------------------------------------


def unpack(text: str) -> Any:
    return json.loads(zlib.decompress(base64.b64decode(text)))


def test_a_plan_travels_without_its_reasons() -> None:
    aim = aim_at_plan(PLAN)
    assert (aim.digest, aim.scheme) == (DIGEST, "linux-cuda")
    assert aim.expect["packages"][0]["version"] == "2.7.1+cu128"
    assert "reasons" not in aim.expect
    assert unpack(pack(aim.expect)) == aim.expect


def test_a_scheme_alone_says_backend_and_framework() -> None:
    scheme = Scheme(name="linux-rocm", os=Os.LINUX, backend="rocm", framework="torch", task="train", title="", for_whom="")
    aim = aim_at_scheme(scheme, Backend(name="rocm", vendor="amd", title="ROCm", device="cuda"))
    assert aim.digest == ""
    expect = {
        "scheme": "linux-rocm",
        "backend": {"name": "rocm", "device": "cuda"},
        "framework": {"name": "torch"},
        "env": {},
    }
    assert aim.expect == expect


def test_the_packed_probe_fits_every_command_line() -> None:
    # CreateProcess takes 32767 characters, Linux 131072 in one argument; the expectation and a shell's quotes need room too.
    for framework in probe.FRAMEWORKS:
        assert len(packed_probe(framework)) < 29000
    # All frameworks travel only over a connection to a host, where the plan that is recorded there will tell.
    assert len(packed_probe()) < 48000
    for framework in ("", *probe.FRAMEWORKS):
        assert "\n" not in packed_probe(framework)
        compile(packed_probe(framework), "<packed>", "exec")


def global_names(code: CodeType) -> set[str]:
    """The names that a piece of code, with all that is in it, takes from its module or from Python."""
    names = {word.argval for word in dis.get_instructions(code) if word.opname == "LOAD_GLOBAL"}
    return names.union(*(global_names(inner) for inner in code.co_consts if isinstance(inner, CodeType)))


@pytest.mark.parametrize("framework", ["", *probe.FRAMEWORKS])
def test_a_slim_probe_lacks_nothing_that_it_uses(framework: str) -> None:
    text = slim(PROBE.read_text(encoding="utf-8"), framework)
    code = compile(text, "<slim>", "exec")
    there: dict[str, Any] = {"__name__": "slim"}
    exec(code, there)
    assert set(there["FRAMEWORKS"]) == ({framework} if framework else set(probe.FRAMEWORKS))
    assert global_names(code) - set(there) - set(dir(builtins)) <= {"WORKER"}


def test_a_slim_probe_reads_as_old_python_does() -> None:
    text = slim(PROBE.read_text(encoding="utf-8"))
    ast.parse(text, feature_version=(3, 8))
    assert '"""' not in text
    assert len(text) < len(PROBE.read_text(encoding="utf-8"))


def test_an_unknown_framework_leaves_what_all_need() -> None:
    there: dict[str, Any] = {"__name__": "slim"}
    exec(slim(PROBE.read_text(encoding="utf-8"), "caffe"), there)
    assert there["FRAMEWORKS"] == {}
    assert callable(there["prove"])


# ---- venvs -------------------------------------------------------------------------------------------------------


def make_venv(folder: Path, *, state: object = "complete", plan: Plan | None = PLAN) -> Path:
    (folder / "bin").mkdir(parents=True)
    (folder / "bin/python").touch()
    (folder / "envkit").mkdir()
    if state is not None:
        text = (
            state if isinstance(state, str) and state.startswith("{") else json.dumps({"schema": "envkit/venv/1", "state": state})
        )
        (folder / "envkit/state.json").write_text(text, encoding="utf-8")
    if plan is not None:
        (folder / "envkit/plan.json").write_text(json.dumps(plans.to_document(plan)), encoding="utf-8")
    return folder


def test_a_whole_venv_gives_its_plan(tmp_path: Path) -> None:
    assert recorded_plan(make_venv(tmp_path / "env")) == PLAN


@pytest.mark.parametrize("state", ["making", "changing", "", None])
def test_a_half_made_venv_is_refused(tmp_path: Path, state: str | None) -> None:
    with pytest.raises(Unavailable, match="is half made") as refused:
        recorded_plan(make_venv(tmp_path / "env", state=state))
    assert refused.value.hint == f"make it whole with: envkit up {tmp_path / 'env'}"


def test_a_foreign_venv_has_no_plan(tmp_path: Path) -> None:
    assert recorded_plan(make_venv(tmp_path / "env", state=None, plan=None)) is None


@pytest.mark.parametrize("state", ["{", '{"state": "complete"}'])
def test_records_that_cannot_be_trusted_are_named(tmp_path: Path, state: str) -> None:
    folder = make_venv(tmp_path / "env", state=state, plan=None)
    (folder / "envkit/plan.json").write_text(json.dumps({**plans.to_document(PLAN), "python": "3.9"}), encoding="utf-8")
    with pytest.raises(InvalidFile, match=r"(state|plan)\.json cannot be (read|trusted)"):
        recorded_plan(folder)


def test_a_folder_without_python_is_no_venv(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="does not exist"):
        venv_python(tmp_path / "absent")
    with pytest.raises(Unavailable, match="is no virtual environment"):
        venv_python(tmp_path)
    (tmp_path / "Scripts").mkdir()
    (tmp_path / "Scripts/python.exe").touch()
    assert venv_python(tmp_path) == tmp_path / "Scripts/python.exe"


@pytest.fixture
def answer(monkeypatch: pytest.MonkeyPatch) -> Callable[[Completed], list[dict[str, Any]]]:
    """Lets the process that would be started end in a given way; what it was started with."""

    def set_answer(completed: Completed) -> list[dict[str, Any]]:
        calls: list[dict[str, Any]] = []

        def run(argv: Sequence[str], **more: Any) -> Completed:
            calls.append({"argv": list(argv), **more})
            return completed

        monkeypatch.setattr("envkit.process.run", run)
        return calls

    return set_answer


def test_a_venv_keeps_its_proof(tmp_path: Path, answer: Callable[[Completed], list[dict[str, Any]]]) -> None:
    calls = answer(ended(0, json.dumps(PROBED)))
    folder = make_venv(tmp_path / "env")
    proof = verify_venv(PLAN, folder, limit=60)
    assert proof.passed
    assert proof.plan == DIGEST
    assert json.loads((folder / "envkit/proof.json").read_text(encoding="utf-8"))["plan"] == DIGEST
    assert calls[0]["argv"][0] == str(folder / "bin/python")
    assert "--limit=60" in calls[0]["argv"]
    assert calls[0]["limit"] > 60  # the probe ends a hang by itself, and says where


def test_nothing_is_kept_of_less_than_a_proof_or_in_a_foreign_folder(
    tmp_path: Path, answer: Callable[[Completed], list[dict[str, Any]]]
) -> None:
    answer(ended(0, json.dumps(PROBED)))
    folder = make_venv(tmp_path / "env")
    verify_venv(PLAN, folder, level="runtime")
    verify_venv(PLAN, folder, record=False)
    assert not (folder / "envkit/proof.json").exists()
    (tmp_path / "foreign/bin").mkdir(parents=True)
    (tmp_path / "foreign/bin/python").touch()
    verify_venv(PLAN, tmp_path / "foreign")
    assert sorted(entry.name for entry in (tmp_path / "foreign").iterdir()) == ["bin"]


def test_a_proof_that_cannot_be_kept_is_still_a_proof(
    tmp_path: Path, answer: Callable[[Completed], list[dict[str, Any]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    answer(ended(0, json.dumps(PROBED)))

    def refuse(path: Path, proof: object) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr("envkit.verify.runner.write_proof", refuse)
    proof = verify_venv(PLAN, make_venv(tmp_path / "env"))
    assert proof.passed
    assert proof.checks[-1].detail == "the proof could not be kept: [Errno 30] Read-only file system"


@pytest.mark.parametrize(
    ("completed", "words"),
    [
        (
            ended(1, "", "Fatal Python error: init_fs_encoding\nNo module named 'encodings'\n"),
            "the probe ended with status 1 and printed no result: No module named 'encodings'",
        ),
        (ended(-11), "the probe ended with status -11 and printed no result: it did not say why"),
        (ended(None, timed_out=True), "no answer within 75 s: hung, and was killed"),
        (
            ended(None, stderr="[Errno 8] Exec format error"),
            "the probe ended with status None and printed no result: [Errno 8] Exec format error",
        ),
    ],
)
def test_a_probe_that_says_nothing_has_failed(
    tmp_path: Path, answer: Callable[[Completed], list[dict[str, Any]]], completed: Completed, words: str
) -> None:
    answer(completed)
    proof = verify_venv(PLAN, make_venv(tmp_path / "env"), limit=60)
    assert not proof.passed
    assert [(check.id, check.detail) for check in proof.checks] == [("probe", words)]


# ---- images ------------------------------------------------------------------------------------------------------


def engine(**more: Completed) -> Told:
    answers = {
        "image inspect": ended(0, json.dumps({"org.envkit.plan": DIGEST})),
        "--entrypoint=cat": ended(0, json.dumps(plans.to_document(PLAN))),
        "--entrypoint=/opt/venv/bin/python": ended(0, json.dumps(PROBED)),
    }
    names = {"inspect": "image inspect", "cat": "--entrypoint=cat", "probe": "--entrypoint=/opt/venv/bin/python"}
    return Told({**answers, **{names[name]: completed for name, completed in more.items()}})


def test_an_image_is_run_with_its_plans_flags_and_its_container_removed() -> None:
    run = engine()
    proof = verify_image(None, "envkit/linux-cuda:latest", run=run)
    assert proof.passed
    assert proof.host == "docker://envkit/linux-cuda:latest"
    assert (proof.plan, proof.scheme) == (DIGEST, "linux-cuda")
    assert proof.checks[0].detail == f"label and plan agree: {DIGEST[:19]}"
    started = next(argv for argv in run.asked if "--entrypoint=/opt/venv/bin/python" in argv)
    assert {"--rm", "--gpus=all", "--network=none"} <= set(started)
    name = next(word.removeprefix("--name=") for word in started if word.startswith("--name="))
    assert run.asked[-1] == ["docker", "rm", "--force", name]


def test_groups_are_handed_in_by_the_number_they_have_here(monkeypatch: pytest.MonkeyPatch) -> None:
    grp = pytest.importorskip("grp", reason="only POSIX has groups")
    numbers = {"render": 992}
    monkeypatch.setattr(grp, "getgrnam", lambda name: SimpleNamespace(gr_gid=numbers[name]))
    container = Container(platform="debian-12", base="debian:bookworm-slim", groups=("render", "nobody-has-it"))
    plan = replace(PLAN, container=container, run_flags=("--device=/dev/kfd",))
    assert flags_here(plan) == ["--device=/dev/kfd", "--group-add=992"]


@pytest.mark.parametrize(
    ("device", "flags", "left"),
    [
        ("CPU", ("--device=/dev/null", "--device=/dev/no-such-node"), ["--device=/dev/null"]),
        ("CPU", ("--device=/dev/no-such-node:/dev/dri", "--ipc=host"), ["--ipc=host"]),
        ("cuda", ("--device=/dev/no-such-node",), ["--device=/dev/no-such-node"]),
    ],
)
def test_what_computes_on_the_cpu_needs_no_device_file(device: str, flags: tuple[str, ...], left: list[str]) -> None:
    assert flags_here(replace(PLAN, device=device, run_flags=flags)) == left


def test_a_container_is_removed_however_it_ends() -> None:
    class Interrupted(Told):
        def __call__(self, argv: Sequence[str], *, limit: float = 30.0) -> Completed:
            completed = super().__call__(argv, limit=limit)
            if "--entrypoint=/opt/venv/bin/python" in argv:
                raise KeyboardInterrupt
            return completed

    run = Interrupted(engine().answers)
    with pytest.raises(KeyboardInterrupt):
        verify_image(None, "envkit/linux-cuda:latest", run=run)
    assert run.asked[-1][:3] == ["docker", "rm", "--force"]


def test_an_image_of_another_plan_has_failed() -> None:
    other = "sha256:" + "f" * 64
    proof = verify_image(None, "x", run=engine(inspect=ended(0, json.dumps({"org.envkit.plan": other}))))
    assert not proof.passed
    assert proof.checks[0].detail == f"x is labelled for the plan {other[:19]}, the plan inside is {DIGEST[:19]}"


@pytest.mark.parametrize(
    ("label", "wanted", "outcome"),
    [
        (DIGEST, DIGEST, "passed"),
        (DIGEST, "", "passed"),
        ("", DIGEST, "failed"),
        (DIGEST, "sha256:1", "failed"),
        ("sha256:1", "", "failed"),
    ],
)
def test_label_and_plans_are_one(label: str, wanted: str, outcome: str) -> None:
    assert judge_image(Image(name="x", label=label, plan=PLAN), wanted).outcome == outcome


@pytest.mark.parametrize(
    ("run", "error", "words", "hint"),
    [
        (
            engine(inspect=ended(None, missing=True)),
            Unavailable,
            "an image needs Docker, and there is no `docker` on PATH",
            "install Docker Engine, or verify a venv: --venv DIR",
        ),
        (
            engine(inspect=ended(1, "", "Cannot connect to the Docker daemon at unix:///var/run/docker.sock.")),
            Unavailable,
            "the Docker engine cannot be reached: Cannot connect to the Docker daemon at unix:///var/run/docker.sock.",
            "start the engine: sudo systemctl start docker",
        ),
        (
            engine(inspect=ended(1, "", "permission denied while trying to connect to the Docker daemon socket")),
            Unavailable,
            "the Docker engine cannot be reached: permission denied while trying to connect to the Docker daemon socket",
            "let this user talk to the engine: sudo usermod -aG docker $USER, then log in again",
        ),
        (
            engine(inspect=ended(None, timed_out=True)),
            Unavailable,
            "the Docker engine does not answer",
            "sudo systemctl restart docker",
        ),
        (
            engine(inspect=ended(1, "[]", "Error response from daemon: No such image: envkit/linux-cuda:latest")),
            Unavailable,
            "there is no image envkit/linux-cuda:latest here",
            "envkit build linux-cuda",
        ),
        (
            engine(cat=ended(1, "", "cat: no such file")),
            UsageError,
            "envkit/linux-cuda:latest holds no plan (/opt/envkit/plan.json): cat: no such file",
            "verify takes images that `envkit build` made",
        ),
        (
            engine(
                probe=ended(125, "", "docker: could not select device driver \"\" with capabilities.\n\nRun 'docker run --help'")
            ),
            Unavailable,
            'the container could not be started: could not select device driver "" with capabilities.',
            "install the NVIDIA Container Toolkit, then: sudo nvidia-ctk runtime configure --runtime=docker",
        ),
        (
            engine(
                probe=ended(
                    127,
                    "",
                    "docker: Error response from daemon: error gathering device information while adding custom device"
                    ' "/dev/kfd": no such file or directory',
                )
            ),
            Unavailable,
            "the container could not be started: Error response from daemon: error gathering device information while adding"
            ' custom device "/dev/kfd": no such file or directory',
            "the device is not on this machine, or its driver is not loaded: envkit detect",
        ),
        (
            engine(probe=ended(127, "", "exec: /opt/venv/bin/python: not found")),
            UsageError,
            "envkit/linux-cuda:latest has no Python at /opt/venv/bin/python",
            "verify takes images that `envkit build` made",
        ),
    ],
)
def test_what_keeps_an_image_from_being_verified_is_said(run: Told, error: type[Exception], words: str, hint: str) -> None:
    with pytest.raises(error) as raised:
        verify_image(None, "envkit/linux-cuda:latest", run=run)
    assert (getattr(raised.value, "message", ""), getattr(raised.value, "hint", "")) == (words, hint)


def test_an_image_for_another_scheme_is_refused() -> None:
    with pytest.raises(UsageError, match="was built for linux-cuda, not linux-cpu"):
        verify_image(None, "envkit/linux-cpu:latest", scheme="linux-cpu", run=engine())


def test_a_hanging_container_has_failed() -> None:
    proof = verify_image(None, "x", limit=10, run=engine(probe=ended(None, timed_out=True)))
    assert not proof.passed
    assert proof.checks[-1].detail == "no answer within 25 s: hung, and was killed"


def test_an_image_has_the_name_that_build_gives_it() -> None:
    assert image_name("linux-cpu") == "envkit/linux-cpu:latest"


# ---- hosts -------------------------------------------------------------------------------------------------------


def test_a_named_python_is_started_as_it_is() -> None:
    argv = host_command(aim_at_plan(PLAN), python="/srv/py", scheme="linux-cuda", recorded=False, limit=60, level="compute")
    assert argv[:2] == ["/srv/py", "-c"]
    assert "--expect" not in argv
    assert argv[-2:] == ["--limit=60", "--level=compute"]


def test_without_a_plan_the_recorded_one_counts() -> None:
    argv = host_command(None, python="", scheme="linux-cpu", recorded=True, limit=60, level="compute")
    assert argv[:2] == ["/bin/sh", "-c"]
    assert "/opt/envkit/linux-cpu/bin/python" in argv[2]
    assert argv[argv.index("--expect") + 1] == "recorded"
    assert "--packed" not in argv


def test_a_scheme_goes_along_for_a_host_without_a_record() -> None:
    argv = host_command(aim_at_plan(PLAN), python="", scheme="", recorded=True, limit=60, level="compute")
    assert "--packed" in argv and "--expect" in argv


def host(completed: Completed) -> Told:
    return Told({"": completed})


def test_a_host_is_held_to_its_recorded_plan() -> None:
    document = {**PROBED, "plan": plans.to_document(PLAN)}
    proof = verify_host(None, "ssh://me:secret@lab1?ssh_identity_file=/k", run=host(ended(0, json.dumps(document))))
    assert (proof.plan, proof.scheme, proof.host) == (DIGEST, "linux-cuda", "ssh://me:***@lab1")
    assert proof.passed


def test_a_host_set_up_for_another_scheme_is_told() -> None:
    document = {**PROBED, "plan": plans.to_document(PLAN)}
    with pytest.raises(UsageError, match="ssh://lab1 was set up as linux-cuda, not linux-cpu"):
        verify_host(None, "ssh://lab1", scheme="linux-cpu", run=host(ended(0, json.dumps(document))))


@pytest.mark.parametrize(
    ("completed", "error", "words"),
    [
        (
            ended(127, "", "envkit: no environment: no Python at /opt/envkit/*/bin/python or /opt/venv/bin/python"),
            Unavailable,
            "ssh://lab1 has no environment: no Python at /opt/envkit/*/bin/python or /opt/venv/bin/python",
        ),
        (
            ended(125, "", "envkit: several environments: /opt/envkit/a/bin/python /opt/envkit/b/bin/python"),
            UsageError,
            "ssh://lab1 has several environments: /opt/envkit/a/bin/python /opt/envkit/b/bin/python",
        ),
        (
            ended(127, "", "sh: 1: /srv/py: not found"),
            Unavailable,
            "ssh://lab1: the Python cannot be started: sh: 1: /srv/py: not found",
        ),
        (
            ended(2, "", "probe.py: error: no plan is recorded here: there is neither a nor b"),
            Unavailable,
            "ssh://lab1: probe.py: error: no plan is recorded here: there is neither a nor b",
        ),
        (ended(None, timed_out=True), Unavailable, "ssh://lab1 did not answer within 315 s"),
        (
            ended(0, json.dumps({**PROBED, "plan": {**plans.to_document(PLAN), "python": "3.9"}})),
            Unavailable,
            "ssh://lab1: its recorded plan cannot be trusted: "
            "the plan was changed after it was made: its digest does not fit its content",
        ),
    ],
)
def test_what_keeps_a_host_from_being_verified_is_said(completed: Completed, error: type[Exception], words: str) -> None:
    with pytest.raises(error) as raised:
        verify_host(None, "ssh://lab1", run=host(completed))
    assert getattr(raised.value, "message", "") == words
    assert getattr(raised.value, "hint", "")


def test_a_host_that_hangs_under_a_plan_has_failed() -> None:
    proof = verify_host(PLAN, "ssh://lab1", limit=10, run=host(ended(None, timed_out=True)))
    assert not proof.passed
    assert proof.checks[0].detail == "no answer within 25 s: hung, and was killed"


@pytest.mark.parametrize(
    ("completed", "words"),
    [
        (ended(None, "", "[Errno 2] No such file", missing=True), "local://: there is no /absent/python"),
        (ended(127, "", "sh: 1: /absent/python: not found", missing=True), "local://: there is no /absent/python"),
        (
            ended(None, "", "[Errno 13] Permission denied"),
            "local://: /absent/python cannot be started: [Errno 13] Permission denied",
        ),
    ],
)
def test_a_python_that_was_named_and_is_not_there(completed: Completed, words: str) -> None:
    for target in (None, PLAN):
        with pytest.raises(Unavailable) as raised:
            verify_host(target, "local://", python="/absent/python", run=host(completed))
        assert raised.value.message == words
        assert raised.value.hint.startswith("--python takes the path of a Python on that host")

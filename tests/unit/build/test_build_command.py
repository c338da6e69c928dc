"""`envkit build` as it is called; nothing is built here."""

from __future__ import annotations

import errno
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from click.testing import CliRunner, Result

from envkit import build
from envkit.build import building, engine
from envkit.build.deciding import Decision
from envkit.build.engine import Engine, Image
from envkit.build.progress import Stream
from envkit.cli import app
from envkit.cli.build import check_tags
from envkit.data import packaged
from envkit.errors import UsageError
from envkit.plan import digest
from envkit.process import Completed


def call(*arguments: str) -> Result:
    return CliRunner().invoke(app.envkit, ["build", *arguments])


def document(text: str) -> dict[str, Any]:
    found = json.loads(text)
    jsonschema.validate(found, json.loads((packaged("schemas") / "build.json").read_text(encoding="utf-8")))
    assert isinstance(found, dict)
    return found


@pytest.fixture
def decided(make_decision: Callable[..., Decision], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Each scheme is decided without package sources, on a machine without settings."""
    monkeypatch.setattr(build, "decide", lambda _matrix, name, *_more, only_look=False: make_decision(name))
    monkeypatch.setattr(building, "find_uv", lambda: tmp_path / "uv")
    (tmp_path / "uv").write_bytes(b"")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))


@pytest.fixture
def engine_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine that answers."""
    monkeypatch.setattr(engine, "look", lambda: Engine(version="26.1", arch="x86_64", buildx="v0.13.1"))


@pytest.fixture
def no_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever asks for an engine fails the test."""

    def refuse(*_args: object) -> None:
        pytest.fail("an engine was asked")

    monkeypatch.setattr(engine, "look", refuse)


@pytest.mark.usefixtures("decided", "no_engine")
def test_a_dry_run_prints_the_dockerfile_and_the_command(tmp_path: Path) -> None:
    shown = call("linux-cpu", "--dry-run")
    assert shown.exit_code == 0
    lines = shown.stdout.splitlines()
    assert "FROM system AS environment" in lines
    assert lines[-1].startswith("# docker buildx build --progress rawjson ")
    assert lines[-1].endswith(" CONTEXT/images")
    assert str(tmp_path) not in shown.stdout
    assert [path.name for path in tmp_path.iterdir()] == ["uv"], "nothing is left behind"


@pytest.mark.usefixtures("decided", "no_engine")
def test_a_dry_run_as_a_document() -> None:
    found = document(call("linux-cpu", "--dry-run", "--format", "json").stdout)
    assert found["dry_run"] is True
    assert found["command"][:3] == ["docker", "buildx", "build"]
    (image,) = found["images"]
    assert image["dockerfile"].startswith("# PyTorch on the CPU")
    assert image["tags"] == ["envkit/linux-cpu:latest", "envkit/linux-cpu:2.13.0-cpu"]


@pytest.mark.usefixtures("decided", "no_engine")
def test_a_dry_run_names_the_wished_tags() -> None:
    found = document(call("linux-cpu", "--dry-run", "--format", "json", "--tag", "r.example/{scheme}:1").stdout)
    assert found["images"][0]["tags"] == ["r.example/linux-cpu:1"]
    assert "r.example/linux-cpu:1" in found["command"]


@pytest.mark.usefixtures("decided", "no_engine")
def test_options_can_be_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENVKIT_BUILD_TAG", "r.example/{scheme}:1 r.example/{scheme}:2")
    monkeypatch.setenv("ENVKIT_BUILD_DRY_RUN", "1")
    monkeypatch.setenv("ENVKIT_BUILD_FORMAT", "json")
    monkeypatch.setenv("ENVKIT_BUILD_NO_CACHE", "1")
    found = document(call("linux-cpu").stdout)
    assert found["images"][0]["tags"] == ["r.example/linux-cpu:1", "r.example/linux-cpu:2"]
    assert "--no-cache" in found["command"]


class Builder:
    """Stands in for docker: tells a captured stream and writes what a builder writes."""

    def __init__(self, stream: str, returncode: int = 0) -> None:
        self.stream = stream
        self.returncode = returncode
        self.argv: list[str] = []
        self.folder = Path()

    def __call__(self, argv: list[str], *, on_line: Callable[[str], None], cwd: Path, **_more: Any) -> Completed:
        self.argv, self.folder = list(argv), cwd
        for line in self.stream.splitlines():
            on_line(line)
        if self.returncode == 0:
            path = Path(argv[argv.index("--metadata-file") + 1])
            path.write_text(json.dumps({"containerimage.config.digest": f"sha256:{'c' * 64}"}), encoding="utf-8")
        return Completed(argv=tuple(argv), returncode=self.returncode, seconds=12.34)


@pytest.fixture
def builder(
    monkeypatch: pytest.MonkeyPatch, captured: Callable[[str], str], decision: Decision
) -> Iterator[Callable[..., Builder]]:
    """Makes `docker` tell a captured stream."""

    def make(name: str, returncode: int = 0) -> Builder:
        stand_in = Builder(captured(name), returncode)
        monkeypatch.setattr(building, "run", stand_in)
        return stand_in

    labels = {"org.envkit.plan": digest(decision.plan)}
    monkeypatch.setattr(engine, "image", lambda name: Image(id=name, size_bytes=820_000_000, labels=labels))
    yield make


@pytest.mark.usefixtures("decided", "engine_there")
def test_a_build_tells_what_it_made(builder: Callable[..., Builder], capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    stand_in = builder("success.rawjson")
    assert app.run(["build", "linux-cpu"]) == 0
    shown = capsys.readouterr()
    assert shown.out == (
        "linux-cpu: envkit/linux-cpu:latest, envkit/linux-cpu:2.13.0-cpu\n"
        "  torch 2.13.0+cpu, numpy 2.4.6, Python 3.11 on debian:bookworm-slim\n"
        f"  820 MB, built in 12.3 s, sha256:{'c' * 64}\n"
        "  prove it on this machine: envkit verify linux-cpu\n"
    )
    assert "building linux-cpu: torch 2.13.0+cpu, numpy 2.4.6, Python 3.11\n" in shown.err
    assert "  Python and a user: as before\n" in shown.err
    assert "  install, prune and prove: done in " in shown.err
    assert not stand_in.folder.exists()


@pytest.mark.usefixtures("decided", "engine_there")
def test_a_build_as_a_document(builder: Callable[..., Builder], decision: Decision) -> None:
    builder("success.rawjson")
    shown = call("linux-cpu", "--format", "json", "--progress", "quiet")
    assert [line for line in shown.stderr.splitlines() if not line.startswith("warning: ")] == []
    found = document(shown.stdout)
    (image,) = found["images"]
    assert image["plan"] == digest(decision.plan)
    assert image["size_bytes"] == 820_000_000
    assert image["seconds"] == 12.34
    assert {"name": "Python and a user", "seconds": 0.0, "cached": True} in image["steps"]
    log = Path(image["log"]).read_text(encoding="utf-8")
    assert log.startswith("$ docker buildx build")
    assert " + torch==2.13.0+cpu\n" in log
    assert log.endswith("ended with 0 after 12.3 s\n")


@pytest.mark.usefixtures("decided", "engine_there")
@pytest.mark.parametrize(
    ("stream", "code", "words"),
    [
        ("not-proven.rawjson", 6, "the environment did not prove itself"),
        ("disk-full.rawjson", 6, "no space left"),
        ("base-unreachable.rawjson", 5, "could not be had"),
        ("index-unreachable.rawjson", 5, "could not be reached"),
    ],
)
def test_a_build_that_fails(
    builder: Callable[..., Builder], stream: str, code: int, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    stand_in = builder(stream, 1)
    assert app.run(["build", "linux-cpu"]) == code
    shown = capsys.readouterr()
    assert words in shown.err
    assert "\nlog: " in shown.err
    assert shown.out == ""
    assert not stand_in.folder.exists()


@pytest.mark.usefixtures("decided", "engine_there")
def test_an_interrupted_build_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_args: object, **_more: object) -> Completed:
        raise KeyboardInterrupt

    monkeypatch.setattr(building, "run", interrupted)
    assert app.run(["build", "linux-cpu"]) == 130
    assert capsys.readouterr().err.endswith("interrupted\n")
    assert [path.name for path in tmp_path.iterdir()] == ["uv"]


@pytest.mark.usefixtures("decided", "engine_there")
def test_an_image_that_the_builder_keeps_elsewhere(
    builder: Callable[..., Builder], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    builder("success.rawjson")
    # The engine still has an older image of that name.
    monkeypatch.setattr(engine, "image", lambda name: Image(id="old", size_bytes=1, labels={"org.envkit.plan": "sha256:other"}))
    assert app.run(["build", "linux-cpu"]) == 0
    assert "  size not known here, built in 12.3 s" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "Missing argument 'SCHEME...'"),
        (["linux-cpi"], "unknown scheme 'linux-cpi'; did you mean 'linux-cpu'?"),
        (["windows-cuda"], "windows-cuda has no image: "),
        (["linux-cpu", "--push"], "--push needs a name that leads to a registry"),
        (["linux-cpu", "--tag", "Upper/Case"], "--tag 'Upper/Case' is no name of an image"),
        (["linux-cpu", "linux-cuda", "--tag", "one:1"], "several images cannot have one name"),
        (["linux-cpu", "--progress", "loud"], "'loud' is not one of"),
    ],
)
@pytest.mark.usefixtures("no_engine")
def test_wrong_usage_asks_no_engine(arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert app.run(["build", *arguments]) == 2
    assert words in capsys.readouterr().err


@pytest.mark.parametrize(
    ("tag", "fits"),
    [
        ("envkit/linux-cpu", True),
        ("envkit/{scheme}:1.0-a_b", True),
        ("localhost:5000/a/b:latest", True),
        ("registry.example/team/x", True),
        ("a b", False),
        ("", False),
        ("x:", False),
        ("x:" + "a" * 129, False),
        ("-x", False),
        ("x;rm", False),
    ],
)
def test_names_of_images(tag: str, fits: bool) -> None:
    if fits:
        check_tags(["linux-cpu"], [tag], False)
    else:
        with pytest.raises(UsageError):
            check_tags(["linux-cpu"], [tag], False)


def test_steps_of_one_image_are_told_from_anothers() -> None:
    stream = Stream()
    for name in ("[a environment 1/1] RUN x", "[b environment 1/1] RUN x", "[system 1/1] RUN x"):
        stream.feed(json.dumps({"vertexes": [{"digest": name, "name": name, "started": "2026-01-01T00:00:00Z"}]}))
    assert [step.target for step in stream.steps.values()] == ["a", "b", ""]


@pytest.mark.usefixtures("decided", "engine_there")
def test_the_hint_leads_to_the_image_that_was_made(builder: Callable[..., Builder], capsys: pytest.CaptureFixture[str]) -> None:
    builder("success.rawjson")
    assert app.run(["build", "linux-cpu", "--tag", "lab/train:1"]) == 0
    assert capsys.readouterr().out.endswith("  prove it on this machine: envkit verify --image lab/train:1\n")


@pytest.mark.usefixtures("decided", "engine_there")
def test_a_full_temporary_folder_is_named(
    builder: Callable[..., Builder], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def full(*_words: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", "/usr/bin/uv")  # as shutil tells it: the source

    builder("success.rawjson")
    monkeypatch.setattr(building, "stage", full)
    assert app.run(["build", "linux-cpu"]) == 6
    said = capsys.readouterr().err
    assert f"error: the temporary folder {tmp_path} is full: No space left on device\n" in said
    assert "TMPDIR=/path" in said
    assert "/usr/bin/uv" not in said
    assert not list(tmp_path.glob("envkit-build-*"))

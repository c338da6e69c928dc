"""What a build is handed, and what it is not."""

from __future__ import annotations

import json
import os
import shlex
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from envkit.build import staging
from envkit.build.deciding import Decision, fits_container
from envkit.build.staging import Options, Staged, command, stage
from envkit.sources import Sources, read_sources

Make = Callable[..., Decision]
ELF = b"\x7fELF\x02\x01\x01" + b"\0" * 9 + b"\x03\x00\x3e\x00"


def sources_of(folder: Path, **environ: str) -> Sources:
    """The sources of a user whose home is `folder`, with nothing but these settings."""
    home = folder / "home"
    home.mkdir(exist_ok=True)
    return read_sources({"HOME": str(home), "PIP_CONFIG_FILE": os.devnull, "UV_NO_CONFIG": "1", **environ}, folder)


def wheel(folder: Path, name: str, size: int = 10) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_bytes(b"x" * size)
    return path


TORCH = "torch-2.13.0+cpu-cp311-cp311-manylinux_2_28_x86_64.whl"


@pytest.fixture(autouse=True)
def no_bundle(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tests' machine must not add its own certificates."""

    class Paths:
        cafile = None

    monkeypatch.setattr(staging.ssl, "get_default_verify_paths", Paths)


def staged(
    decisions: list[Decision], sources: Sources, folder: Path, options: Options | None = None, uv: Path | None = None
) -> Staged:
    place = folder / "stage"
    place.mkdir()
    return stage(decisions, sources, options or Options(), place, uv)


def exported(path: Path) -> dict[str, str]:
    """The settings of a file of shell lines."""
    found = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        word, assignment = shlex.split(line)
        assert word == "export"
        name, _, value = assignment.partition("=")
        found[name] = value
    return found


# ---- the folder and the command ----------------------------------------------------------------------------------


def test_a_plain_build(decision: Decision, tmp_path: Path) -> None:
    done = staged([decision], sources_of(tmp_path), tmp_path)
    assert sorted(str(path.relative_to(done.folder)) for path in done.folder.rglob("*") if path.is_file()) == [
        "images/linux-cpu/Dockerfile",
        "images/linux-cpu/plan/constraints.txt",
        "images/linux-cpu/plan/plan.json",
        "images/linux-cpu/plan/pyproject.toml",
        "images/probe.py",
        "secrets/linux-cpu/pyproject.toml",
        "secrets/linux-cpu/settings",
    ]
    own = f"{done.folder}/secrets/linux-cpu"
    assert command(done, Options()) == [
        "docker", "buildx", "build", "--progress", "rawjson", "--metadata-file", f"{done.folder}/metadata.json",
        "--provenance", "false", "--load", "--file", f"{done.folder}/images/linux-cpu/Dockerfile",
        "--tag", "envkit/linux-cpu:latest", "--tag", "envkit/linux-cpu:2.13.0-cpu",
        "--secret", f"id=project,src={own}/pyproject.toml", "--secret", f"id=settings,src={own}/settings",
        f"{done.folder}/images",
    ]  # fmt: skip
    assert done.notes == ()


def test_options_of_a_build(decision: Decision, tmp_path: Path) -> None:
    options = Options(tags=("registry.example/{scheme}:1",), push=True, no_cache=True, prune=False)
    done = staged([decision], sources_of(tmp_path), tmp_path, options)
    argv = command(done, options)
    assert "--push" in argv
    assert "--load" not in argv
    assert "--no-cache" in argv
    assert argv[argv.index("--tag") + 1] == "registry.example/linux-cpu:1"
    assert "rm -rf" not in (done.folder / "images/linux-cpu/Dockerfile").read_text(encoding="utf-8")


def test_several_images_are_built_by_bake(make_decision: Make, tmp_path: Path) -> None:
    decisions = [make_decision("linux-cpu"), make_decision("linux-cpu-two")]
    options = Options(no_cache=True)
    done = staged(decisions, sources_of(tmp_path, HTTPS_PROXY="http://localhost:3128"), tmp_path, options)
    assert command(done, options, "v0.13.1")[:3] == ["docker", "buildx", "bake"]
    assert "--allow" not in command(done, options, "v0.17.9")
    assert command(done, options, "0.18.0+ds1")[-4:-2] == ["--allow", "network.host"]
    document = json.loads((done.folder / "bake.json").read_text(encoding="utf-8"))
    assert document["group"]["default"]["targets"] == ["linux-cpu", "linux-cpu-two"]
    target = document["target"]["linux-cpu-two"]
    assert target["dockerfile"] == "linux-cpu-two/Dockerfile"
    assert target["tags"][0] == "envkit/linux-cpu-two:latest"
    assert target["args"] == {"HTTPS_PROXY": None}, "its value stays in the environment"
    assert target["network"] == "host"
    assert target["no-cache"] is True
    assert f"id=project,src={done.folder}/secrets/linux-cpu-two/pyproject.toml" in target["secret"]


# ---- the ways to the packages ------------------------------------------------------------------------------------


def test_mirrors_and_logins_are_secrets(decision: Decision, tmp_path: Path) -> None:
    sources = sources_of(
        tmp_path,
        PIP_INDEX_URL="https://me:pa%24s@pypi.example/simple",
        UV_INDEX="https://extra.example/simple",
        ENVKIT_PYTORCH_MIRROR="https://torch.example/whl",
        UV_HTTP_TIMEOUT="99",
        UV_CACHE_DIR="/somewhere",
        PIP_TRUSTED_HOST="pypi.example",
    )
    done = staged([decision], sources, tmp_path)
    project = tomllib.loads((done.folder / "secrets/linux-cpu/pyproject.toml").read_text(encoding="utf-8"))
    urls = {index["url"]: index for index in project["tool"]["uv"]["index"]}
    assert set(urls) == {"https://pypi.example/simple", "https://extra.example/simple", "https://torch.example/whl/cpu"}
    assert project["tool"]["uv"]["sources"]["torch"] == {"index": urls["https://torch.example/whl/cpu"]["name"]}
    settings = exported(done.folder / "secrets/linux-cpu/settings")
    assert settings["PIP_INDEX_URL"] == "https://me:pa%24s@pypi.example/simple"
    assert [value for name, value in settings.items() if name.endswith("_PASSWORD")] == ["pa$s"]
    assert settings["UV_HTTP_TIMEOUT"] == "99"
    assert "UV_CACHE_DIR" not in settings
    # What goes into the image, or decides whether a step is run again, knows nothing of all that.
    context = b"".join(path.read_bytes() for path in (done.folder / "images").rglob("*") if path.is_file())
    for needle in (b"pypi.example", b"extra.example", b"torch.example", b"pa%24s", b"pa$s"):
        assert needle not in context
    assert not any("example" in part for part in command(done, Options()))


def test_a_folder_of_wheels_is_a_context_of_its_own(make_decision: Make, tmp_path: Path) -> None:
    folder = tmp_path / "wheels"
    wheel(folder, TORCH)
    done = staged([make_decision(place=str(folder))], sources_of(tmp_path, PIP_FIND_LINKS=str(folder)), tmp_path)
    assert f"wheels={folder}" in command(done, Options()), "the folder itself, which the builder remembers by its path"
    project = (done.folder / "secrets/linux-cpu/pyproject.toml").read_text(encoding="utf-8")
    assert 'url = "/run/wheels"' in project
    assert str(folder) not in project
    assert exported(done.folder / "secrets/linux-cpu/settings")["AT_HAND"] == "torch==2.13.0+cpu"


def test_of_several_folders_or_a_crowded_one_only_what_fits_is_handed_over(make_decision: Make, tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    fitting = wheel(one, TORCH)
    for name in ("torch-2.13.0+cpu-cp312-cp312-manylinux_2_28_x86_64.whl", "numpy-1.0-cp311-cp311-win_amd64.whl", "x.zip"):
        wheel(one, name)
    wheel(two, "six-1.0-py3-none-any.whl")
    wheel(two, TORCH, 99)
    wheel(two, "broken.whl")
    sources = sources_of(tmp_path, PIP_FIND_LINKS=f"{one} {two}")
    done = staged([make_decision(place=str(one))], sources, tmp_path)
    (context,) = [part.removeprefix("wheels=") for part in command(done, Options()) if part.startswith("wheels=")]
    assert Path(context) == done.folder / "wheels"
    assert sorted(path.name for path in Path(context).iterdir()) == ["six-1.0-py3-none-any.whl", TORCH]
    assert (Path(context) / TORCH).read_bytes() == fitting.read_bytes(), "the first folder wins"


def test_a_folder_with_folders_in_it_is_not_handed_over_whole(make_decision: Make, tmp_path: Path) -> None:
    folder = tmp_path / "wheels"
    wheel(folder, TORCH)
    wheel(folder / "private", "notes.txt")
    done = staged([make_decision(place=str(folder))], sources_of(tmp_path, PIP_FIND_LINKS=str(folder)), tmp_path)
    assert f"wheels={done.folder}/wheels" in command(done, Options())
    assert [path.name for path in (done.folder / "wheels").iterdir()] == [TORCH]


def test_indexes_that_are_folders_here_are_left_out_and_named(decision: Decision, tmp_path: Path) -> None:
    index = tmp_path / "simple"
    index.mkdir()
    done = staged([decision], sources_of(tmp_path, PIP_EXTRA_INDEX_URL=f"file://{index}"), tmp_path)
    assert done.notes == (f"file://{index} (PIP_EXTRA_INDEX_URL) is a folder of this machine; the build does without it",)
    assert str(index) not in (done.folder / "secrets/linux-cpu/pyproject.toml").read_text(encoding="utf-8")


def test_certificates_logins_and_proxies(decision: Decision, tmp_path: Path) -> None:
    ca, client = tmp_path / "ca.pem", tmp_path / "with,comma.pem"
    ca.write_text("CA", encoding="utf-8")
    client.write_text("CLIENT", encoding="utf-8")
    sources = sources_of(
        tmp_path,
        SSL_CERT_FILE=str(ca),
        SSL_CLIENT_CERT=str(client),
        https_proxy="http://user:word@proxy.example:3128",
        NO_PROXY="localhost",
    )
    (tmp_path / "home/.netrc").write_text("machine x", encoding="utf-8")
    done = staged([decision], sources, tmp_path)
    argv = command(done, Options())
    assert f"id=ca,src={ca}" in argv
    assert f"id=netrc,src={tmp_path}/home/.netrc" in argv
    assert f"id=client,src={done.folder}/secrets/client" in argv, "a comma would end the option's value"
    assert [argv[at + 1] for at, part in enumerate(argv) if part == "--build-arg"] == ["https_proxy", "NO_PROXY"]
    assert "word" not in " ".join(argv)
    assert "--network" not in argv


def test_pips_own_proxy_goes_by_the_environment(decision: Decision, tmp_path: Path) -> None:
    done = staged([decision], sources_of(tmp_path, PIP_PROXY="http://proxy.example:3128"), tmp_path)
    argv = command(done, Options())
    assert [argv[at + 1] for at, part in enumerate(argv) if part == "--build-arg"] == ["HTTP_PROXY", "HTTPS_PROXY"]
    assert done.environment["HTTPS_PROXY"] == "http://proxy.example:3128"


def test_a_bundle_that_is_too_large_for_a_secret_is_named(decision: Decision, tmp_path: Path) -> None:
    ca = tmp_path / "ca.pem"
    ca.write_bytes(b"x" * (500 * 1024 + 1))
    done = staged([decision], sources_of(tmp_path, SSL_CERT_FILE=str(ca)), tmp_path)
    assert done.notes == (f"{ca} is larger than BuildKit takes as a secret (500 KiB); the build does without it",)
    assert not any("id=ca" in part for part in command(done, Options()))


def test_the_users_constraints_hold_in_the_build_too(decision: Decision, tmp_path: Path) -> None:
    file = tmp_path / "constraints.txt"
    file.write_text("sympy<2", encoding="utf-8")
    done = staged([decision], sources_of(tmp_path, PIP_CONSTRAINT=str(file)), tmp_path)
    assert (done.folder / "images/linux-cpu/plan/more-constraints.txt").read_text(encoding="utf-8") == "sympy<2\n"
    settings = exported(done.folder / "secrets/linux-cpu/settings")
    assert settings["UV_CONSTRAINT"] == "/opt/envkit/constraints.txt /run/plan/more-constraints.txt"


@pytest.mark.parametrize(
    ("variable", "url", "here"),
    [
        ("PIP_INDEX_URL", "http://127.0.0.1:8080/simple", True),
        ("ENVKIT_PYTORCH_MIRROR", "http://localhost/whl", True),
        ("https_proxy", "http://[::1]:3128", True),
        ("HTTPS_PROXY", "localhost:3128", True),
        ("NO_PROXY", "localhost,127.0.0.1", False),
        ("PIP_INDEX_URL", "https://mirror.example/127.0.0.1/", False),
        ("PIP_FIND_LINKS", "http://127.1.2.3/wheels", True),
    ],
)
def test_what_only_this_machine_can_reach_needs_its_network(
    decision: Decision, tmp_path: Path, variable: str, url: str, here: bool
) -> None:
    done = staged([decision], sources_of(tmp_path, **{variable: url}), tmp_path)
    argv = command(done, Options())
    assert ("--network" in argv) is here
    if here:
        at = argv.index("--network")
        assert argv[at : at + 4] == ["--network", "host", "--allow", "network.host"]


# ---- uv ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "machine", "runs"),
    [
        (ELF, "x86_64", True),
        (ELF, "aarch64", False),
        (ELF.replace(b"\x3e", b"\xb7"), "aarch64", True),
        (ELF + b"/nix/store/abc/ld-linux-x86-64.so.2", "x86_64", False),
        (b"MZ\x90\x00", "x86_64", False),
        (b"\xcf\xfa\xed\xfe", "aarch64", False),
        (b"#!/bin/sh\n", "x86_64", False),
        (b"", "x86_64", False),
        (ELF, "riscv64", False),
    ],
)
def test_only_a_program_that_runs_in_the_container_is_brought_along(
    tmp_path: Path, content: bytes, machine: str, runs: bool
) -> None:
    program = tmp_path / "uv"
    program.write_bytes(content)
    assert staging.runs_in_container(program, machine) is runs


def test_uv_is_brought_along(decision: Decision, tmp_path: Path) -> None:
    program = tmp_path / "uv"
    program.write_bytes(ELF)
    done = staged([decision], sources_of(tmp_path), tmp_path, uv=program)
    assert f"uv={done.folder}/uv" in command(done, Options())
    assert [path.name for path in (done.folder / "uv").iterdir()] == ["uv"], "and nothing that lies beside it"


@pytest.mark.parametrize(
    ("tags", "fits"),
    [
        (["cp311-cp311-manylinux_2_28_x86_64"], True),
        (["cp311-cp311-manylinux_2_28_aarch64"], False),
        (["cp312-cp312-manylinux_2_28_x86_64"], False),
        (["cp39-abi3-manylinux2014_x86_64"], True),
        (["py3-none-any"], True),
        (["py2-none-any"], False),
        (["cp311-none-linux_x86_64"], True),
        (["cp311-cp311-win_amd64", "cp311-cp311-manylinux2014_x86_64"], True),
        (["cp311-cp311-macosx_11_0_arm64"], False),
        ([], False),
    ],
)
def test_which_wheels_fit_the_container(tags: list[str], fits: bool) -> None:
    assert fits_container(tags, "3.11", "x86_64") is fits


def test_settings_survive_the_shell() -> None:
    values = {"A": "it's $5", "B": 'say "x"\nand y', "C": ""}
    assert dict(line.removeprefix("export ").split("=", 1) for line in staging.settings_text({"Z": "1"}).splitlines()) == {
        "Z": "1"
    }
    assert shlex.split(staging.settings_text(values)) == ["export", "A=it's $5", "export", 'B=say "x"\nand y', "export", "C="]

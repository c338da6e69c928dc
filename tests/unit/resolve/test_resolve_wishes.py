"""What people write, and what it is taken for."""

from __future__ import annotations

import pytest

from envkit import matrix as matrices
from envkit.errors import UsageError
from envkit.model import Matrix, Os
from envkit.resolve import wishes


@pytest.fixture(scope="module")
def matrix() -> Matrix:
    return matrices.load()


@pytest.mark.parametrize(
    ("text", "specifier", "tag"),
    [
        ("", "", ""),
        ("latest", "", ""),
        ("torch", "", ""),
        ("2.7.1", "==2.7.1", ""),
        ("2.7", "==2.7.*", ""),
        ("2", "==2.*", ""),
        ("2.7.*", "==2.7.*", ""),
        ("2.7.x", "==2.7.*", ""),
        ("torch==2.7.1", "==2.7.1", ""),
        ("==2.7.1", "==2.7.1", ""),
        ("torch 2.7", "==2.7.*", ""),
        ("2.7.1+cu128", "==2.7.1", "cu128"),
        ("2.9+rocm6.4", "==2.9.*", "rocm6.4"),
        (">=2.4,<2.8", ">=2.4,<2.8", ""),
        ("torch>=2.4", ">=2.4", ""),
        ("~=2.4", "~=2.4", ""),
        ("2.8.0rc1", "==2.8.0rc1", ""),
        (" 2.7.1 ", "==2.7.1", ""),
    ],
)
def test_torch(text: str, specifier: str, tag: str) -> None:
    found = wishes.read_torch(text)
    assert (found.specifier, found.tag) == (specifier, tag)


@pytest.mark.parametrize("text", ["banana", "2.7.1 or newer", ">=", "2..7", "v2.7-final", "٢.٧", "==2.7.1==2.8"])
def test_torch_that_names_no_release(text: str) -> None:
    with pytest.raises(UsageError) as raised:
        wishes.read_torch(text)
    assert raised.value.message == f"--torch {text!r} names no release"
    assert raised.value.hint == 'write a version ("2.7.1", "2.7"), a range (">=2.4,<2.8"), a build ("2.7.1+cu128") or "latest"'


@pytest.mark.parametrize(
    ("text", "name", "version", "tag"),
    [
        ("", "", None, ""),
        ("cuda", "cuda", None, ""),
        ("CUDA", "cuda", None, ""),
        ("cuda 12.8", "cuda", "12.8", ""),
        ("cuda12.8", "cuda", "12.8", ""),
        ("cuda-12.8", "cuda", "12.8", ""),
        ("12.8", "cuda", "12.8", ""),
        ("cu128", "cuda", None, "cu128"),
        ("rocm6.4", "rocm", None, "rocm6.4"),
        ("rocm 6.4", "rocm", "6.4", ""),
        ("cpu", "cpu", None, ""),
        ("directml", "directml", None, ""),
    ],
)
def test_backend(matrix: Matrix, text: str, name: str, version: str | None, tag: str) -> None:
    found = wishes.read_backend(matrix, text)
    assert (found.name, str(found.version) if found.version else None, found.tag) == (name, version, tag)


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("cu127", "unknown backend 'cu127'; did you mean", "write a backend"),
        ("cudda", "unknown backend 'cudda'; did you mean 'cuda'", "write a backend"),
        ("cuda 99", "the matrix has no cuda 99", "it has cuda 11.6"),
        ("99.9", "unknown backend '99.9'", "write a backend"),
        ("!!", "unknown backend '!!'", "write a backend"),
    ],
)
def test_backend_that_is_none(matrix: Matrix, text: str, message: str, hint: str) -> None:
    with pytest.raises(UsageError) as raised:
        wishes.read_backend(matrix, text)
    assert raised.value.message.startswith(message)
    assert raised.value.hint.startswith(hint)


@pytest.mark.parametrize(
    ("text", "os", "release", "arch", "libc"),
    [
        ("linux", Os.LINUX, "", "x86_64", "glibc"),
        ("Linux/arm64", Os.LINUX, "", "aarch64", "glibc"),
        ("windows", Os.WINDOWS, "", "x86_64", ""),
        ("windows/arm64", Os.WINDOWS, "", "arm64", ""),
        ("macos", Os.MACOS, "", "arm64", ""),
        ("wsl2", Os.WSL2, "", "x86_64", "glibc"),
        ("wsl", Os.WSL2, "", "x86_64", "glibc"),
        ("ubuntu-24.04", Os.LINUX, "ubuntu-24.04", "x86_64", "glibc"),
        ("ubuntu 24.04", Os.LINUX, "ubuntu-24.04", "x86_64", "glibc"),
        ("ubuntu-24.04.2", Os.LINUX, "ubuntu-24.04", "x86_64", "glibc"),
        ("ubuntu-24.04/x86_64", Os.LINUX, "ubuntu-24.04", "x86_64", "glibc"),
        ("debian-12/aarch64", Os.LINUX, "debian-12", "aarch64", "glibc"),
        ("windows-11", Os.WINDOWS, "windows-11", "x86_64", ""),
    ],
)
def test_platform(matrix: Matrix, text: str, os: Os, release: str, arch: str, libc: str) -> None:
    found = wishes.read_platform(matrix, text)
    assert (found.os, found.release, found.arch, found.libc) == (os, release, arch, libc)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("linx", "unknown platform 'linx'; did you mean 'linux'?"),
        ("ubuntu-99.04", "unknown platform 'ubuntu-99.04'; did you mean 'ubuntu-"),
        ("linux/sparc", "--os 'linux/sparc': unknown architecture 'sparc'"),
        ("/", "unknown platform '/'"),
    ],
)
def test_platform_that_is_none(matrix: Matrix, text: str, message: str) -> None:
    with pytest.raises(UsageError) as raised:
        wishes.read_platform(matrix, text)
    assert raised.value.message.startswith(message)
    assert raised.value.hint


@pytest.mark.parametrize(
    ("text", "release"),
    [
        ("Ubuntu 24.04.1 LTS", "ubuntu-24.04"),
        ("Debian GNU/Linux 12 (bookworm)", "debian-12"),
        ("Rocky Linux 9.4 (Blue Onyx)", "rocky-9"),
        ("something of my own", ""),
        ("", ""),
        ("Ubuntu 99.04", ""),
    ],
)
def test_a_system_as_it_names_itself(matrix: Matrix, text: str, release: str) -> None:
    found = wishes.release_named(matrix, text)
    assert (found.id if found else "") == release


@pytest.mark.parametrize(
    ("text", "python"),
    [
        ("", ""),
        ("3.12", "3.12"),
        ("3.12.4", "3.12"),
        ("cp312", "3.12"),
        ("python3.9", "3.9"),
        ("3.13t", "3.13t"),
        ("3.15.0rc1", "3.15"),
        ("3.8", "3.8"),
    ],
)
def test_python(text: str, python: str) -> None:
    assert wishes.read_python(text) == python


@pytest.mark.parametrize("text", ["banana", "2.7", "3", "3.x", "4.0", "٣.١٢"])
def test_python_that_is_none(text: str) -> None:
    with pytest.raises(UsageError, match="names no Python 3"):
        wishes.read_python(text)


@pytest.mark.parametrize("text", ["banana", "570.x", "v570", "570.86.10-0ubuntu1", "-1"])
def test_driver_that_is_no_version(text: str) -> None:
    with pytest.raises(UsageError) as raised:
        wishes.read_driver(text)
    assert raised.value.message == f"--driver {text!r} is no version"


def test_unknown_scheme_is_met_with_what_was_meant(matrix: Matrix) -> None:
    with pytest.raises(UsageError) as raised:
        wishes.read_scheme(matrix, "linux-cudda")
    assert raised.value.message == "unknown scheme 'linux-cudda'; did you mean 'linux-cuda'?"
    assert raised.value.hint == "list them with: envkit schemes"

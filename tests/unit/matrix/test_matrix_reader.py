"""Reading matrix.toml: typed rows, and every fault with its path."""

from __future__ import annotations

from pathlib import Path
from types import MappingProxyType

import pytest

from envkit.errors import InvalidFile
from envkit.matrix import check, load
from envkit.model import Dotted, Evidence, Matrix, Os, Pin

BASE = """
[meta]
schema = 1
updated = "2026-11-30"
[source]
notes = { text = "Release notes", url = "https://example.org/notes", date = "2026-11-30" }
[platform]
debian-12 = { os = "linux", name = "Debian 12", glibc = "2.36", python = "3.11", source = "notes" }
[arch]
sm_80 = { vendor = "nvidia", family = "Ampere", min_backend = "11.0", source = "notes" }
sm_90 = { vendor = "nvidia", family = "Hopper", source = ["notes"] }
[backend.cuda]
vendor = "nvidia"
title = "CUDA"
device = "cuda"
code_rule = "cuda"
source = "notes"
[[backend.cuda.release]]
version = "12.6"
tag = "cu126"
min_driver = { linux = "525.60.13", windows = "528.33" }
source = "notes"
[[backend.cuda.release]]
version = "12.8"
tag = "cu128"
min_driver = { linux = "525.60.13" }
source = "notes"
[[backend.cuda.branch]]
branch = "580"
max_backend = "13.0"
source = "notes"
[framework.torch]
package = "torch"
index = "https://download.example.org/whl/{tag}"
default_packages = ["numpy"]
companions = ["torchvision"]
source = "notes"
[[framework.torch.release]]
version = "2.7.0"
pythons = ["3.12", "3.13t"]
companions = { torchvision = ["0.22.0"] }
requires = { numpy = "<2" }
source = "notes"
[[framework.torch.build]]
release = "2.7"
tag = "cu126"
platforms = ["linux/aarch64", "linux/x86_64"]
archs = ["sm_80"]
glibc = "2.28"
evidence = "wheel-measured"
source = "notes"
[[framework.torch.build]]
release = "2.7.0"
tag = "cu128"
platforms = ["linux/x86_64"]
published = "unknown"
source = "notes"
[[library.numpy.release]]
version = "1.26.4"
pythons = ["3.12"]
source = "notes"
[[library.numpy.release]]
version = "2.2.6"
pythons = ["3.12"]
source = "notes"
[scheme.linux-cuda]
os = "linux"
backend = "cuda"
framework = "torch"
task = "train"
title = "CUDA"
for_whom = "all"
needs = ["a card"]
pros = ["fast"]
cons = ["large"]
cannot = ["fly"]
source = "notes"
[scheme.linux-cuda.container]
platform = "debian-12"
base = "debian:bookworm-slim"
run_flags = ["--gpus=all"]
"""


def read(tmp_path: Path, text: str) -> Matrix:
    path = tmp_path / "m.toml"
    path.write_text(text, encoding="utf-8")
    return load(path)


def faults(tmp_path: Path, text: str) -> list[str]:
    """The faults of a text, without the file's name before each."""
    path = tmp_path / "m.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InvalidFile) as caught:
        load(path)
    assert all(line.startswith(f"{path}: ") for line in caught.value.faults)
    return [line.removeprefix(f"{path}: ") for line in caught.value.faults]


def changed(old: str, new: str) -> str:
    assert old in BASE
    return BASE.replace(old, new, 1)


def test_rows_become_typed_objects(tmp_path: Path) -> None:
    matrix = read(tmp_path, BASE)
    assert check(matrix) == []
    release = matrix.backends["cuda"].releases[0]
    assert (release.tag, release.version) == ("cu126", Dotted("12.6"))
    assert release.min_driver == {Os.LINUX: "525.60.13", Os.WINDOWS: "528.33"}
    assert release.sources == ("notes",)
    assert release.archs is None
    first, second = matrix.frameworks["torch"].builds
    assert first.platforms == ("linux/aarch64", "linux/x86_64")
    assert (first.glibc, first.evidence, first.published) == (Dotted("2.28"), Evidence.WHEEL_MEASURED, True)
    assert (second.published, second.archs, second.evidence) == (None, None, Evidence.CLAIMED)
    assert matrix.frameworks["torch"].releases[0].companions == {"torchvision": ("0.22.0",)}
    assert matrix.schemes["linux-cuda"].container is not None
    assert matrix.schemes["linux-cuda"].container.run_flags == ("--gpus=all",)
    assert matrix.platforms["debian-12"].glibc == Dotted("2.36")
    assert matrix.archs["sm_90"].min_backend is None


def test_libraries_are_newest_first(tmp_path: Path) -> None:
    assert [row.version for row in read(tmp_path, BASE).libraries["numpy"]] == ["2.2.6", "1.26.4"]


def test_nothing_read_can_be_changed(tmp_path: Path) -> None:
    matrix = read(tmp_path, BASE)
    for table in (matrix.schemes, matrix.backends, matrix.backends["cuda"].releases[0].min_driver):
        assert isinstance(table, MappingProxyType)


def test_the_two_examples_of_the_style_guide(tmp_path: Path) -> None:
    text = changed('linux = "525.60.13", windows', "linux = 525.6, windows")
    assert faults(tmp_path, text) == ["backend.cuda.release[0].min_driver.linux: expected text, got float"]
    text = changed('backend = "cuda"\nframework', 'backend = "cdua"\nframework')
    assert faults(tmp_path, text) == ["scheme.linux-cuda.backend: unknown backend 'cdua'; did you mean 'cuda'?"]


BUILD, RELEASE, CUDA, SCHEME = "framework.torch.build", "framework.torch.release[0]", "backend.cuda", "scheme.linux-cuda"


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("schema = 1", "schema = 2", "meta.schema: this envkit reads schema 1, not 2"),
        ("schema = 1", "schema = true", "meta.schema: expected 1, got true or false"),
        ('updated = "2026-11-30"', "updated = 2026-11-30", "meta.updated: expected text, got date or time"),
        ('version = "12.8"', "version = 12.8", f"{CUDA}.release[1].version: expected text, got float"),
        ('version = "12.8"', 'version = "12.x"', f"{CUDA}.release[1].version: expected a version such as \"12.8\", got '12.x'"),
        ('tag = "cu128"\nmin', 'tga = "cu128"\nmin', f"{CUDA}.release[1].tga: unknown key 'tga'; did you mean 'tag'?"),
        ('code_rule = "cuda"', 'code_rule = "cud"', f"{CUDA}.code_rule: unknown code rule 'cud'; did you mean 'cuda'?"),
        ('os = "linux"\nbackend', 'os = "linus"\nbackend', f"{SCHEME}.os: unknown os 'linus'; did you mean 'linux'?"),
        ('pythons = ["3.12", "3.13t"]', "pythons = []", f"{RELEASE}.pythons: expected at least one item, got an empty list"),
        (
            'pythons = ["3.12", "3.13t"]',
            'pythons = ["3.12", "3.12"]',
            f"{RELEASE}.pythons[1]: '3.12' stands there twice",
        ),
        ('archs = ["sm_80"]', 'archs = ["sm_8O"]', f"{BUILD}[0].archs[0]: unknown architecture 'sm_8O'; did you mean 'sm_80'?"),
        ('published = "unknown"', 'published = "maybe"', f'{BUILD}[1].published: expected true, false or "unknown", got text'),
        (
            'evidence = "wheel-measured"',
            'evidence = "wheel-mesured"',
            f"{BUILD}[0].evidence: unknown evidence 'wheel-mesured'; did you mean 'wheel-measured'?",
        ),
        ('release = "2.7"\n', 'release = "2.8"\n', f"{BUILD}[0].release: unknown release of torch '2.8'; did you mean '2.7'?"),
        (
            'requires = { numpy = "<2" }',
            'requires = { numpi = "<2" }',
            f"{RELEASE}.requires.numpi: unknown library 'numpi'; did you mean 'numpy'?",
        ),
        (
            'requires = { numpy = "<2" }',
            'requires = { numpy = "under 2" }',
            f"{RELEASE}.requires.numpy: expected a specifier such as \"<2\", got 'under 2'",
        ),
        (
            'platform = "debian-12"',
            'platform = "debian-21"',
            f"{SCHEME}.container.platform: unknown platform 'debian-21'; did you mean 'debian-12'?",
        ),
        (
            'run_flags = ["--gpus=all"]',
            'run_flags = ["--gpus=all; rm -rf /"]',
            f"{SCHEME}.container.run_flags[0]: expected a flag such as \"--gpus=all\", got '--gpus=all; rm -rf /'",
        ),
        (
            'title = "CUDA"\nfor_whom',
            "title = '''CU\nDA'''\nfor_whom",
            f"{SCHEME}.title: expected text of one line, got a line break or control character",
        ),
        ('for_whom = "all"\n', "", f"{SCHEME}.for_whom: is missing"),
        ('glibc = "2.28"', "glibc = 2", f"{BUILD}[0].glibc: expected text, got integer"),
        (
            'source = "notes"\n[scheme.linux-cuda.container]',
            'source = "notse"\n[scheme.linux-cuda.container]',
            f"{SCHEME}.source: unknown source 'notse'; did you mean 'notes'?",
        ),
        (
            "[[backend.cuda.branch]]",
            "[backend.cuda.branch]",
            f"{CUDA}.branch: expected a list of tables ([[backend.cuda.branch]]), got table",
        ),
        (
            "[[library.numpy.release]]",
            "[[library.numpy.relase]]",
            "library.numpy.relase: unknown key 'relase'; did you mean 'release'?",
        ),
    ],
)
def test_a_fault_is_told_with_its_path(tmp_path: Path, old: str, new: str, fault: str) -> None:
    assert fault in faults(tmp_path, changed(old, new))


def test_one_slip_is_one_fault(tmp_path: Path) -> None:
    """A row that cannot be read is not told again by each row that mentions it."""
    text = changed('sm_80 = { vendor = "nvidia"', "sm_80 = { vendor = 80")
    assert faults(tmp_path, text) == ["arch.sm_80.vendor: expected text, got integer"]
    text = changed('tag = "cu126"\nmin_driver = {', 'tag = "cu126"\nmin_drver = {')
    assert faults(tmp_path, text) == ["backend.cuda.release[0].min_drver: unknown key 'min_drver'; did you mean 'min_driver'?"]


def test_all_faults_are_told_together(tmp_path: Path) -> None:
    text = BASE.replace('version = "12.8"', "version = 12.8").replace('task = "train"', 'task = "tran"')
    text = text.replace('glibc = "2.28"', "glibc = [2, 28]").replace("[meta]", "[metta]")
    assert faults(tmp_path, text) == [
        "metta: unknown key 'metta'; did you mean 'meta'?",
        "meta: is missing",
        "backend.cuda.release[1].version: expected text, got float",
        "framework.torch.build[0].glibc: expected text, got list",
        "scheme.linux-cuda.task: unknown task 'tran'; did you mean 'train'?",
    ]


def test_the_same_row_twice_is_a_fault(tmp_path: Path) -> None:
    text = changed('version = "12.8"\ntag = "cu128"', 'version = "12.8"\ntag = "cu126"')
    assert "backend.cuda.release[1]: cu126 stands there already, as backend.cuda.release[0]" in faults(tmp_path, text)


def test_a_platform_is_served_once_by_a_tag(tmp_path: Path) -> None:
    text = changed('release = "2.7.0"\ntag = "cu128"', 'release = "2.7"\ntag = "cu126"')
    assert "framework.torch.build[1]: 2.7 cu126 for linux/x86_64 stands there already, as framework.torch.build[0]" in faults(
        tmp_path, text
    )


def test_a_scheme_has_a_container_or_says_why_not(tmp_path: Path) -> None:
    without = BASE[: BASE.index("[scheme.linux-cuda.container]")]
    assert faults(tmp_path, without) == ["scheme.linux-cuda.container: is missing; without one, say why in no_container"]
    assert read(tmp_path, without + 'no_container = "Windows"\n').schemes["linux-cuda"].container is None
    both = changed("[scheme.linux-cuda.container]", 'no_container = "why"\n[scheme.linux-cuda.container]')
    assert faults(tmp_path, both) == ["scheme.linux-cuda.no_container: stands beside a container; one of them is wrong"]


@pytest.mark.parametrize("section", ["source", "platform", "arch", "backend", "framework", "library", "scheme"])
@pytest.mark.parametrize("value", ['"text"', "1.5", "[1]", "true", "[{ a = 1 }]"])
def test_a_section_of_the_wrong_kind_is_a_fault(tmp_path: Path, section: str, value: str) -> None:
    found = faults(tmp_path, f'{section} = {value}\n[meta]\nschema = 1\nupdated = "2026"\n')
    assert len(found) == 1
    assert found[0].startswith(f"{section}: expected a table, got ")


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ('[meta]\nschema = 1\nupdated = "2026-11-30', "line 3, column 22: "),
        ("[meta]\nschema == 1\n", "line 2, column 9: invalid value"),
        ("a = 1\na = 2\n", "line 2, column 6: cannot overwrite a value"),
        ("[meta\n", "line 1, column 6: expected ']' at the end of a table declaration"),
    ],
)
def test_a_syntax_error_has_line_and_column(tmp_path: Path, text: str, fault: str) -> None:
    path = tmp_path / "m.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InvalidFile) as caught:
        load(path)
    assert caught.value.message.startswith(f"{path}: {fault}")


def test_text_that_is_not_utf8(tmp_path: Path) -> None:
    path = tmp_path / "m.toml"
    path.write_bytes(b'[meta]\nupdated = "\xff"\n')
    with pytest.raises(InvalidFile, match=r"m\.toml: line 2: not UTF-8 text"):
        load(path)


def test_a_byte_order_mark_and_windows_line_ends_do_no_harm(tmp_path: Path) -> None:
    path = tmp_path / "m.toml"
    path.write_bytes(b"\xef\xbb\xbf" + BASE.replace("\n", "\r\n").encode())
    assert list(load(path).schemes) == ["linux-cuda"]


def test_nesting_too_deep_is_told(tmp_path: Path) -> None:
    path = tmp_path / "m.toml"
    path.write_text("a = " + "[" * 20000 + "]" * 20000, encoding="utf-8")
    with pytest.raises(InvalidFile, match="nested too deeply"):
        load(path)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InvalidFile, match="cannot be read: No such file"):
        load(tmp_path / "none.toml")


# ---- other vendors, other frameworks, legacy and future rows -----------------------------------------------------


def test_the_shape_carries_what_is_not_there_yet(tmp_path: Path) -> None:
    text = (
        BASE
        + """
[backend.xpu]
vendor = "intel"
title = "Intel XPU"
device = "xpu"
code_rule = "any"
[[backend.xpu.release]]
version = "2025.1"
tag = "xpu"
min_driver = { linux = "24.35", windows = "32.0.101.6739" }
platforms = ["debian-12"]
archs = ["bmg"]
[backend.tpu]
vendor = "google"
title = "TPU"
device = "tpu"
[[backend.tpu.release]]
version = "0"
tag = "tpu"
[framework.jax]
package = "jax"
index = "pypi"
default_packages = ["numpy"]
[[framework.jax.release]]
version = "0.12.0rc1"
pythons = ["3.12"]
[[framework.jax.build]]
release = "0.12"
tag = "tpu"
platforms = ["linux/x86_64", "linux/s390x"]
local = ""
packages = { libtpu = "0.0.50", torch-xla = { version = "2.9.0", index = "pypi", extras = "tpu" } }
extras = "tpu"
published = "unknown"
[scheme.linux-tpu-jax]
os = "linux"
backend = "tpu"
framework = "jax"
task = "train"
title = "JAX on TPUs"
for_whom = "tenants of TPU machines"
no_container = "not in this test"
env = { JAX_PLATFORMS = "tpu" }
"""
    ).replace("[arch]", '[arch]\nbmg = { vendor = "intel", family = "Battlemage" }')
    matrix = read(tmp_path, text)
    assert matrix.frameworks["jax"].builds[0].packages == {
        "libtpu": Pin(version="0.0.50"),
        "torch-xla": Pin(version="2.9.0", index="pypi", extras="tpu"),
    }
    assert matrix.schemes["linux-tpu-jax"].env == {"JAX_PLATFORMS": "tpu"}
    assert matrix.backends["xpu"].releases[0].min_driver[Os.WINDOWS] == Dotted("32.0.101.6739")

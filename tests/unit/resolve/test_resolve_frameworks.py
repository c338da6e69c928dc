"""Frameworks besides the default one, builds of vendors and devices under other names, over rows of an overlay."""

from __future__ import annotations

from dataclasses import replace

import pytest

from envkit import matrix as matrices
from envkit.errors import UsageError
from envkit.model import Facts, Gpu, Machine, Matrix, PythonFacts, Verdict, Wish
from envkit.resolve import plan_of, resolve

OVERLAY = """
[source.test]
text = "rows of this test"

[arch.testchip]
vendor = "testvendor"
family = "Test"
source = "test"

[backend.testnpu]
vendor = "testvendor"
title = "Test NPU"
device = "npu"
code_rule = "listed"
visible = "TEST_VISIBLE"
source = "test"
[[backend.testnpu.release]]
version = "8.2.RC1"
tag = "testnpu8.2.rc1"
archs = ["testchip"]
source = "test"
[[backend.testnpu.release]]
version = "8.2"
tag = "testnpu8.2"
archs = ["testchip"]
source = "test"

[framework.testflow]
package = "testflow"
index = "pypi"
source = "test"
[[framework.testflow.release]]
version = "1.0"
pythons = ["3.11", "3.12"]
source = "test"
[[framework.testflow.build]]
release = "1.0"
tag = "testnpu8.2.rc1"
platforms = ["linux/x86_64"]
local = ""
source = "test"
[[framework.testflow.build]]
release = "1.0"
tag = "testnpu8.2"
platforms = ["linux/x86_64"]
local = ""
package = "testflow-npu"
index = "vendor"
image = "registry.example/testflow:1.0"
packages = { testplugin = { version = "2.0", index = "pypi", extras = "npu" }, testruntime = "8.2" }
source = "test"

[scheme.linux-testnpu-testflow]
os = "linux"
backend = "testnpu"
framework = "testflow"
task = "train"
title = "Test"
for_whom = "this test"
device = "Chip"
source = "test"
[scheme.linux-testnpu-testflow.container]
platform = "debian-12"
base = "debian:bookworm-slim"
digest = "sha256:0000000000000000000000000000000000000000000000000000000000000000"
"""


@pytest.fixture(scope="module")
def matrix(tmp_path_factory: pytest.TempPathFactory) -> Matrix:
    overlay = tmp_path_factory.mktemp("overlay") / "matrix.toml"
    overlay.write_text(OVERLAY, encoding="utf-8")
    return matrices.load(overlays=[overlay])


def test_a_build_under_another_name_with_packages_of_other_places(matrix: Matrix) -> None:
    made = plan_of(resolve(matrix, Wish(scheme="linux-testnpu-testflow")))
    assert [(p.requirement, p.index) for p in made.packages] == [
        ("testflow-npu==1.0", "vendor"),
        ("testplugin[npu]==2.0", "pypi"),
        ("testruntime==8.2", "vendor"),
    ]
    assert made.framework_package.name == "testflow-npu"
    assert (made.framework_name, made.backend_version, made.device) == ("testflow", "8.2", "Chip")
    assert made.container is not None
    assert (made.container.base, made.container.digest) == ("registry.example/testflow:1.0", "")


def test_a_release_candidate_comes_before_its_release(matrix: Matrix) -> None:
    judged = resolve(matrix, Wish(scheme="linux-testnpu-testflow")).judged
    assert [each.candidate.build.tag for each in judged] == ["testnpu8.2", "testnpu8.2.rc1"]


def test_only_the_default_framework_is_considered_unasked(matrix: Matrix) -> None:
    judged = resolve(matrix, Wish(gpu="RTX 4090", os="linux")).judged
    assert {each.candidate.framework.name for each in judged} == {"torch"}
    judged = resolve(matrix, Wish(gpu="none", os="linux", framework="testflow")).judged
    assert {each.candidate.scheme.name for each in judged} == {"linux-testnpu-testflow"}


def test_a_framework_that_is_not_there_and_one_that_the_scheme_has_not(matrix: Matrix) -> None:
    with pytest.raises(UsageError, match="unknown framework 'testflo'; did you mean 'testflow'"):
        resolve(matrix, Wish(gpu="none", framework="testflo"))
    with pytest.raises(UsageError, match="linux-cpu is a scheme of torch, not of testflow") as caught:
        resolve(matrix, Wish(scheme="linux-cpu", framework="testflow"))
    assert caught.value.hint == "name one of: linux-testnpu-testflow"


def test_the_python_of_an_image_is_no_matter_of_the_machines(matrix: Matrix) -> None:
    card = Gpu(arch="testchip", vendor="testvendor")
    facts = Facts(machine=Machine(os="linux", gpus=(card,)), python=PythonFacts(version="3.14.0"))
    wish = Wish(scheme="linux-testnpu-testflow", accept=(Verdict.SUPPORTED, Verdict.UNKNOWN))
    assert plan_of(resolve(matrix, wish, facts)).python == "3.12"
    assert resolve(matrix, replace(wish, python="3.14"), facts).plan is None

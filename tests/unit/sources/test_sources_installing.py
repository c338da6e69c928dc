"""What uv is handed for a plan."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from lab.fake_wheels import make_index, make_wheel

from envkit.model import Build, Framework, Package, Plan, Verdict
from envkit.sources import Index, Sources, installation, look, partners

INDEX = "https://index.example/whl/cu128"


def plan(*packages: Package, python: str = "3.11") -> Plan:
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
        python=python,
        packages=packages
        or (Package(name="torch", version="2.7.1+cu128", index=INDEX), Package(name="numpy", version="2.3.5", index="pypi")),
    )


def project(sources: Sources, **more: Any) -> dict[str, Any]:
    return tomllib.loads(installation(sources, more.pop("plan", plan()), **more).project)


def test_the_framework_comes_from_its_own_index_and_the_rest_from_the_default() -> None:
    made = project(Sources())
    assert made["project"]["dependencies"] == ["torch==2.7.1+cu128", "numpy==2.3.5"]
    assert made["tool"]["uv"]["index"] == [{"name": "envkit-1", "url": INDEX, "explicit": True}]
    assert made["tool"]["uv"]["sources"] == {"torch": {"index": "envkit-1"}}


def test_packages_of_one_index_share_it_and_mirrors_stand_in() -> None:
    both = plan(
        Package(name="torch", version="2.7.1+cu128", index=INDEX, extras="x"),
        Package(name="torchvision", version="0.22.1+cu128", index=INDEX),
    )
    made = project(Sources(mirrors={"https://index.example/whl": "https://mirror/w"}), plan=both)
    assert made["tool"]["uv"]["index"] == [{"name": "envkit-1", "url": "https://mirror/w/cu128", "explicit": True}]
    assert made["tool"]["uv"]["sources"] == {"torch": {"index": "envkit-1"}, "torchvision": {"index": "envkit-1"}}
    assert made["project"]["dependencies"] == ["torch[x]==2.7.1+cu128", "torchvision==0.22.1+cu128"]


def test_credentials_are_in_the_environment_and_nowhere_else() -> None:
    sources = Sources(
        default=Index(url="https://me:p%40ss@corp/simple", default=True),
        extra=(Index(url="https://extra:pw1@corp/extra"),),
        find_links=(Index(url="https://links:pw2@corp/wheels", flat=True), Index(url="/srv/wheels", flat=True)),
        mirrors={"https://index.example/whl": "https://torch:pw3@corp/whl"},
        environ={"UV_FIND_LINKS": "/already"},
    )
    made = installation(sources, plan())
    for text in (made.project, made.constraints, *made.arguments, repr(made)):
        assert not any(word in text for word in ("p@ss", "p%40ss", "pw1", "pw2", "pw3"))
    assert made.environment == {
        "UV_INDEX_ENVKIT_1_USERNAME": "extra",
        "UV_INDEX_ENVKIT_1_PASSWORD": "pw1",
        "UV_INDEX_ENVKIT_2_USERNAME": "me",
        "UV_INDEX_ENVKIT_2_PASSWORD": "p@ss",
        "UV_INDEX_ENVKIT_3_USERNAME": "torch",
        "UV_INDEX_ENVKIT_3_PASSWORD": "pw3",
        "UV_FIND_LINKS": "/already,https://links:pw2@corp/wheels",
    }


def test_pips_settings_become_uvs_and_uvs_own_are_left_to_it(tmp_path: Path) -> None:
    sources = Sources(
        default=Index(url="https://default/simple", default=True),
        extra=(Index(url="https://a/simple"), Index(url="https://uv/simple", known_to_uv=True)),
        find_links=(Index(url=str(tmp_path), flat=True), Index(url="/uv", flat=True, known_to_uv=True)),
        trusted_hosts=("a",),
        constraints=("/c.txt",),
        certificates="/ca.pem",
        proxy="http://proxy:1",
        timeout="60",
        uv_settings={"link-mode": "copy"},
    )
    made = installation(sources, plan())
    settings = tomllib.loads(made.project)["tool"]["uv"]
    assert [row["url"] for row in settings["index"]] == ["https://a/simple", "https://default/simple", INDEX]
    assert [row.get("default", False) for row in settings["index"]] == [False, True, False]
    assert (settings["find-links"], settings["allow-insecure-host"], settings["link-mode"]) == ([str(tmp_path)], ["a"], "copy")
    # pip looks through all its indexes; uv's own way would stop at the first that knows a name.
    assert settings["index-strategy"] == "unsafe-first-match"
    assert made.arguments == ("--constraints", "/c.txt")
    assert made.environment == {
        "SSL_CERT_FILE": "/ca.pem",
        "HTTPS_PROXY": "http://proxy:1",
        "HTTP_PROXY": "http://proxy:1",
        "UV_HTTP_TIMEOUT": "60",
    }


@pytest.mark.parametrize("variable", ["https_proxy", "HTTPS_PROXY", "ALL_PROXY"])
def test_what_the_user_told_uv_is_not_overruled_by_pips_settings(variable: str) -> None:
    made = installation(
        Sources(proxy="http://proxy:1", certificates="/ca.pem", environ={variable: "http://own:1", "SSL_CERT_FILE": "/own"}),
        plan(),
    )
    assert "HTTPS_PROXY" not in made.environment
    assert "SSL_CERT_FILE" not in made.environment


def test_variables_that_would_change_what_is_installed_are_kept_from_uv() -> None:
    base = {
        "UV_TORCH_BACKEND": "auto",
        "UV_VENV_CLEAR": "1",
        "UV_OVERRIDE": "x",
        "UV_CONSTRAINT": "/env/envkit/constraints.txt",
        "PATH": "/bin",
    }
    assert installation(Sources(uv_constraints=("/own.txt",)), plan()).environ(base) == {
        "PATH": "/bin",
        "UV_CONSTRAINT": "/own.txt",
    }


def test_without_indexes_everything_comes_from_the_folders(tmp_path: Path) -> None:
    make_wheel(tmp_path, "torch", "2.7.1+cu128")
    sources = Sources(find_links=(Index(url=str(tmp_path), flat=True),), no_index=True)
    shape = Framework(
        name="torch",
        package="torch",
        index="https://index.example/whl/{tag}",
        builds=(Build(release="2.7", tag="cu128", platforms=()),),
    )
    made = project(sources, found=look(sources, shape, ["cu128"]))
    assert made["tool"]["uv"]["no-index"] is True
    assert "index" not in made["tool"]["uv"]
    assert "sources" not in made["tool"]["uv"]


def test_a_folder_that_has_the_wheel_comes_before_the_index(tmp_path: Path) -> None:
    make_wheel(tmp_path, "torch", "2.7.1+cu128")
    sources = Sources(find_links=(Index(url=str(tmp_path), flat=True),))
    shape = Framework(name="torch", package="torch", index="https://index.example/whl/{tag}")
    made = project(sources, found=look(sources, shape, []))
    assert made["tool"]["uv"]["index"] == [{"name": "envkit-1", "url": str(tmp_path), "explicit": True, "format": "flat"}]


def test_a_build_sees_folders_where_they_are_mounted(tmp_path: Path) -> None:
    (tmp_path / "w").mkdir()
    sources = Sources(find_links=(Index(url=str(tmp_path / "w"), flat=True),), constraints=(str(tmp_path / "w" / "c.txt"),))
    made = installation(sources, plan(), moved={str(tmp_path / "w"): "/run/wheels/0"})
    assert tomllib.loads(made.project)["tool"]["uv"]["find-links"] == ["/run/wheels/0"]
    assert made.arguments == ("--constraints", "/run/wheels/0/c.txt")
    assert str(tmp_path) not in made.project


def test_odd_texts_survive_the_file(tmp_path: Path) -> None:
    folder = tmp_path / 'a "b" \\ ü'
    folder.mkdir()
    made = project(
        Sources(find_links=(Index(url=str(folder), flat=True),), uv_settings={"concurrent-downloads": 3, "offline": False})
    )
    assert made["tool"]["uv"]["find-links"] == [str(folder)]
    assert (made["tool"]["uv"]["concurrent-downloads"], made["tool"]["uv"]["offline"]) == (3, False)


# ---- partners ----------------------------------------------------------------------------------------------------

REQUIRES = (
    "filelock",
    "sympy>=1.13",
    "numpy==1.0",
    "triton==3.3.1 ; platform_system == 'Linux'",
    "nvidia-runtime==12.8.*",
    "pytorch-triton-rocm==3.3.1",
    "elsewhere==1.0",
    "optional==1.0 ; extra == 'all'",
)


def test_what_the_wheel_pins_exactly_comes_from_its_index_where_that_has_it(tmp_path: Path) -> None:
    wheels = [
        ("torch", "2.7.1+cu128", REQUIRES),
        ("triton", "3.3.1", ()),
        ("pytorch-triton-rocm", "3.3.1", ()),
        ("numpy", "1.0", ()),
        ("optional", "1.0", ()),
    ]
    index = make_index(
        tmp_path / "whl" / "cu128", [*wheels, ("filelock", "1", ()), ("nvidia-runtime", "12.8.1", ()), ("elsewhere", "2.0", ())]
    )
    shape = Framework(
        name="torch",
        package="torch",
        index=f"{(tmp_path / 'whl').as_uri()}/{{tag}}",
        builds=(Build(release="2.7", tag="cu128", platforms=()),),
    )
    chosen = plan(
        Package(name="torch", version="2.7.1+cu128", index=index.as_uri()), Package(name="numpy", version="2.3.5", index="pypi")
    )
    found = look(Sources(), shape, ["cu128"])
    pinned = partners(Sources(), chosen, found)
    assert pinned == ('triton==3.3.1; platform_system == "Linux"', "pytorch-triton-rocm==3.3.1")
    made = installation(Sources(), chosen, found, pinned)
    settings = tomllib.loads(made.project)["tool"]["uv"]
    assert settings["sources"] == {name: {"index": "envkit-1"} for name in ("torch", "triton", "pytorch-triton-rocm")}
    assert made.constraints.splitlines()[1:] == [
        "torch==2.7.1+cu128",
        "numpy==2.3.5",
        'triton==3.3.1 ; platform_system == "Linux"',
        "pytorch-triton-rocm==3.3.1",
    ]


def test_a_wheel_from_a_folder_has_no_partners(tmp_path: Path) -> None:
    make_wheel(tmp_path, "torch", "2.7.1+cu128", requires=REQUIRES)
    sources = Sources(find_links=(Index(url=str(tmp_path), flat=True),))
    found = look(sources, Framework(name="torch", package="torch", index=INDEX), [])
    assert partners(sources, plan(), found) == ()
    assert partners(sources, replace(plan(), packages=(Package(name="torch", version="9", index=INDEX),)), found) == ()


def test_what_a_plan_says_must_come_from_the_frameworks_index_is_bound_to_it() -> None:
    rocm = replace(plan(), partners=("triton-rocm",))
    text = project(Sources(), plan=rocm)
    own = text["tool"]["uv"]["sources"]["torch"]
    assert text["tool"]["uv"]["sources"]["triton-rocm"] == own
    assert "triton-rocm" in text["project"]["dependencies"]
    # Its version is the one that torch pins; a constraint without a version would be none.
    assert "triton" not in installation(Sources(), rocm).constraints


def test_what_the_wheel_itself_pins_takes_the_place_of_the_bare_name() -> None:
    rocm = replace(plan(), partners=("triton-rocm",))
    made = installation(Sources(), rocm, partners=["triton-rocm==3.6.0"])
    assert tomllib.loads(made.project)["project"]["dependencies"].count("triton-rocm") == 0
    assert "triton-rocm==3.6.0" in tomllib.loads(made.project)["project"]["dependencies"]
    assert "triton-rocm==3.6.0\n" in made.constraints

"""What pip's, uv's and envkit's settings come to."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from envkit.errors import InvalidFile
from envkit.sources import Sources, read_sources, redact, settings

PYTORCH = "https://download.pytorch.org/whl/cu128"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home and a system without settings."""
    monkeypatch.setattr(settings, "_SYSTEM_PIP", tmp_path / "system-pip.conf")
    monkeypatch.setattr(settings, "_SYSTEM_UV", tmp_path / "system-uv.toml")
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


def read(home: Path, cwd: Path | None = None, **variables: str) -> Sources:
    environ = {"HOME": str(home), "XDG_CONFIG_DIRS": str(home.parent / "xdg"), **variables}
    work = cwd or home.parent / "work"
    work.mkdir(exist_ok=True)
    return read_sources(environ, work)


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def urls(sources: Sources) -> tuple[str | None, list[str], list[str]]:
    return (
        sources.default.url if sources.default else None,
        [index.url for index in sources.extra],
        [place.url for place in sources.find_links],
    )


def test_no_settings_mean_the_default_index_alone(home: Path) -> None:
    assert urls(read(home)) == (None, [], [])


# ---- pip ---------------------------------------------------------------------------------------------------------


def test_pip_levels_outrank_each_other_key_by_key(home: Path) -> None:
    base = home.parent
    write(base / "xdg" / "pip" / "pip.conf", "[global]\nindex-url = https://xdg/simple\nproxy = http://xdg:1\ncert = /xdg.pem\n")
    write(base / "system-pip.conf", "[global]\nindex-url = https://system/simple\nproxy = http://system:1\n")
    write(home / ".pip" / "pip.conf", "[global]\nindex-url = https://old/simple\n")
    write(home / ".config" / "pip" / "pip.conf", "[install]\nindex-url = https://user/simple\n")
    sources = read(home)
    assert (urls(sources)[0], sources.proxy, sources.certificates) == ("https://user/simple", "http://system:1", "/xdg.pem")
    named = write(base / "named.conf", "[global]\nproxy = http://named:1\n")
    assert read(home, PIP_CONFIG_FILE=str(named)).proxy == "http://named:1"
    assert read(home, PIP_CONFIG_FILE=str(named), PIP_PROXY="http://env:1").proxy == "http://env:1"
    assert urls(read(home, PIP_CONFIG_FILE=os.devnull))[0] is None


def test_pip_command_section_outranks_the_global_one_even_of_a_later_file(home: Path) -> None:
    write(home / ".pip" / "pip.conf", "[install]\nfind-links = /a\n")
    write(home / ".config" / "pip" / "pip.conf", "[global]\nfind-links = /b\n")
    assert urls(read(home))[2] == ["/a"]


def test_pip_lists_are_split_at_blanks_and_lines_and_a_variable_replaces_them(home: Path) -> None:
    write(
        home / ".config" / "pip" / "pip.conf",
        "[global]\nextra-index-url =\n    https://a/simple\n    file:///b/simple https://c/simple\nfind-links = wheels\n",
    )
    sources = read(home)
    assert urls(sources)[1] == ["https://a/simple", "file:///b/simple", "https://c/simple"]
    assert urls(sources)[2] == [str(home.parent / "work" / "wheels")]
    assert urls(read(home, PIP_EXTRA_INDEX_URL="https://d/simple"))[1] == ["https://d/simple"]


def test_pip_settings_of_the_active_environment_count(home: Path) -> None:
    env = home.parent / "active"
    write(env / "pip.conf", "[global]\nindex-url = https://env/simple\nno-index = true\n")
    sources = read(home, VIRTUAL_ENV=str(env))
    assert (urls(sources)[0], sources.no_index) == ("https://env/simple", True)


def test_the_pins_of_an_environment_of_ours_bind_no_other(home: Path) -> None:
    env = home.parent / "active"
    write(env / "envkit" / "state.json", "{}")
    pins = write(env / "envkit" / "constraints.txt", "torch==2.7.1\n")
    write(env / "pip.conf", f"[install]\nconstraint = {pins}\n")
    company = write(home.parent / "company.txt", "numpy<2\n")
    write(home / ".config" / "pip" / "pip.conf", f"[global]\nconstraint = {company}\n")
    sources = read(home, VIRTUAL_ENV=str(env), UV_CONSTRAINT=f"{company} {pins}")
    assert sources.constraints == (str(company),)
    assert sources.uv_constraints == (str(company),)


def test_a_broken_pip_file_is_named_without_its_secrets(home: Path) -> None:
    file = write(home / ".config" / "pip" / "pip.conf", "index-url = https://me:secret@host/simple\n")
    with pytest.raises(InvalidFile) as caught:
        read(home)
    assert str(file) in caught.value.message
    assert "secret" not in caught.value.message


# ---- uv ----------------------------------------------------------------------------------------------------------


def test_uv_variables(home: Path) -> None:
    sources = read(
        home,
        UV_DEFAULT_INDEX="https://default/simple",
        UV_INDEX="named=https://a/simple https://b/simple",
        UV_EXTRA_INDEX_URL="https://c/simple",
        UV_FIND_LINKS="/x,https://page/wheels",
        UV_OFFLINE="1",
        UV_INSECURE_HOST="b:8443",
    )
    assert urls(sources) == (
        "https://default/simple",
        ["https://a/simple", "https://b/simple", "https://c/simple"],
        ["/x", "https://page/wheels"],
    )
    assert (sources.extra[0].name, sources.offline, sources.trusted_hosts) == ("named", True, ("b:8443",))
    assert all(index.known_to_uv for index in (*sources.extra, *sources.find_links))


def test_uv_settings_outrank_pips_default_index(home: Path) -> None:
    assert urls(read(home, UV_INDEX_URL="https://uv/simple", PIP_INDEX_URL="https://pip/simple"))[0] == "https://uv/simple"


def test_a_projects_uv_settings_are_carried_and_the_users_are_left_to_uv(home: Path) -> None:
    write(home / ".config" / "uv" / "uv.toml", '[[index]]\nurl = "https://user/simple"\n')
    work = home.parent / "project"
    write(
        work / "pyproject.toml",
        '[tool.uv]\nnative-tls = true\nfind-links = ["wheels"]\nexclude-newer = "2020-01-01"\n'
        '[[tool.uv.index]]\nname = "corp"\nurl = "https://corp/simple"\ndefault = true\n',
    )
    (work / "below").mkdir()
    sources = read(home, work / "below")
    assert urls(sources) == ("https://corp/simple", ["https://user/simple"], [str(work / "wheels")])
    assert [index.known_to_uv for index in (sources.default, *sources.extra, *sources.find_links) if index] == [
        False,
        True,
        False,
    ]
    assert dict(sources.uv_settings) == {"native-tls": True}


def test_the_pip_table_of_uv_settings_counts(home: Path) -> None:
    work = home.parent / "project"
    write(work / "uv.toml", 'index-url = "https://a/simple"\n[pip]\nextra-index-url = ["https://b/simple"]\n')
    assert urls(read(home, work))[:2] == ("https://a/simple", ["https://b/simple"])


def test_uv_config_file_stands_for_all_others(home: Path) -> None:
    write(home / ".config" / "uv" / "uv.toml", 'index-url = "https://user/simple"\n')
    named = write(home.parent / "named.toml", 'index-url = "https://named/simple"\n')
    sources = read(home, UV_CONFIG_FILE=str(named))
    assert sources.default is not None
    assert (sources.default.url, sources.default.known_to_uv) == ("https://named/simple", False)
    assert urls(read(home, UV_NO_CONFIG="1"))[0] is None


def test_every_fault_of_uvs_files_is_named(home: Path) -> None:
    work = home.parent / "project"
    file = write(work / "uv.toml", 'extra-index-url = "https://b"\nindex = [{ name = "x" }]\n')
    with pytest.raises(InvalidFile) as caught:
        read(home, work)
    assert caught.value.faults == (f"{file}: index[0].url: expected text", f"{file}: extra-index-url: expected a list of texts")


# ---- mirrors -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("table", "url", "mirrored"),
    [
        ('pytorch = "https://mirror/whl"', PYTORCH, "https://mirror/whl/cu128"),
        ('pytorch = "https://mirror/pytorch-wheels/"', PYTORCH, "https://mirror/pytorch-wheels/cu128"),
        ('pytorch = "https://m/w"', "https://download.pytorch.org/whl/nightly/cu130", "https://m/w/nightly/cu130"),
        ('pytorch = "https://m/w"', "https://repo.radeon.com/rocm/manylinux", "https://repo.radeon.com/rocm/manylinux"),
        (
            '"https://repo.radeon.com/rocm/manylinux" = "https://m/amd"',
            "https://repo.radeon.com/rocm/manylinux/x",
            "https://m/amd/x",
        ),
        (
            '"https://repo.radeon.com/rocm" = "https://m/amd"',
            "https://repo.radeon.com/rocm-old/x",
            "https://repo.radeon.com/rocm-old/x",
        ),
        ('pypi = "https://m/simple"', "pypi", "https://m/simple"),
        ("", "pypi", "https://pypi.org/simple"),
    ],
)
def test_mirrors_replace_prefixes(home: Path, table: str, url: str, mirrored: str) -> None:
    work = home.parent / "project"
    write(work / "envkit.toml", f"[mirrors]\n{table}\n")
    assert read(home, work).mirrored(url) == mirrored


def test_the_variable_outranks_the_file_and_the_folders_file_the_users(home: Path) -> None:
    work = home.parent / "project"
    write(home / ".config" / "envkit" / "envkit.toml", '[mirrors]\npytorch = "https://user/whl"\nradeon = "https://user/amd"\n')
    write(work / "envkit.toml", '[mirrors]\npytorch = "https://folder/whl"\n')
    assert dict(read(home, work).mirrors) == {"pytorch": "https://folder/whl", "radeon": "https://user/amd"}
    assert read(home, work, ENVKIT_PYTORCH_MIRROR="file:///srv/whl").mirrors["pytorch"] == "file:///srv/whl"


def test_every_fault_of_the_mirrors_is_named_with_its_path(home: Path) -> None:
    work = home.parent / "project"
    file = write(work / "envkit.toml", '[mirrors]\npytorch = 3\npypi = "me:secret@host"\n"https://a" = "ftp://b"\n')
    with pytest.raises(InvalidFile) as caught:
        read(home, work)
    assert caught.value.exit_code == 3
    assert caught.value.faults == (
        f"{file}: mirrors.pytorch: expected text, got int",
        f"{file}: mirrors.pypi: not a URL: '***@host'",
        f"{file}: mirrors.\"https://a\": not a URL: 'ftp://b'",
    )


def test_a_mirror_variable_that_is_no_url_is_refused(home: Path) -> None:
    with pytest.raises(InvalidFile, match="ENVKIT_PYTORCH_MIRROR: not a URL: 'banana'"):
        read(home, ENVKIT_PYTORCH_MIRROR="banana")


# ---- secrets -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("https://me:secret@host/simple", "https://***@host/simple"),
        ("https://token@host:8443/simple", "https://***@host:8443/simple"),
        ("https://me:p%40ss@host/x", "https://***@host/x"),
        ("https://me:p@ss/word@host/x", "https://***@host/x"),
        ("https://host/simple", "https://host/simple"),
        ("https://host/@scope/pkg", "https://host/@scope/pkg"),
        ("failed: https://me:secret@host/a and https://you:other@host/b", "failed: https://***@host/a and https://***@host/b"),
        ("/srv/wheels", "/srv/wheels"),
    ],
)
def test_credentials_are_never_shown(text: str, shown: str) -> None:
    assert redact(text) == shown


def test_nothing_that_is_printed_of_sources_holds_credentials(home: Path) -> None:
    sources = read(
        home, PIP_INDEX_URL="https://me:secret@a/s", PIP_FIND_LINKS="https://me:secret@b/w", UV_INDEX="https://me:secret@c/s"
    )
    assert "secret" not in repr(sources)
    assert "secret" not in str(sources.find_links)


def test_places_that_uv_cannot_use_are_noted(home: Path) -> None:
    wheel = write(home.parent / "one.whl", "")
    sources = read(home, PIP_FIND_LINKS=f"{wheel} /nowhere {home}")
    assert sources.notes == (
        f"{wheel} (PIP_FIND_LINKS) is not a folder: uv reads folders and pages of wheels only",
        "/nowhere (PIP_FIND_LINKS) does not exist",
    )

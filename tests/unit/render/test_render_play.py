"""Plans as plays, and several images as one bake file."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
import yaml

from envkit.model import Os, Plan, Scheme
from envkit.plan import from_document
from envkit.render.bake import Target, bake
from envkit.render.play import play


def test_a_play_carries_the_whole_plan_and_no_logic(cpu_plan: Plan, cpu_scheme: Scheme) -> None:
    text = play(cpu_plan, cpu_scheme)
    (found,) = yaml.safe_load(text)
    assert from_document(found["vars"]["envkit_plan"]) == cpu_plan
    assert found["hosts"] == "{{ envkit_hosts | default('all') }}"
    assert found["roles"] == [{"role": "python_env"}, {"role": "verify"}]
    assert "tasks" not in found
    assert text.startswith("---\n")
    assert text.endswith("\n")
    assert "Written by `envkit render`" in text


def test_a_play_for_windows_says_what_is_needed_and_does_nothing(cpu_plan: Plan, cpu_scheme: Scheme) -> None:
    plan = replace(cpu_plan, scheme="windows-cpu", platform="windows/x86_64", container=None)
    (found,) = yaml.safe_load(play(plan, replace(cpu_scheme, name="windows-cpu", os=Os.WINDOWS)))
    assert found["gather_facts"] is False
    assert [set(task) - {"name"} for task in found["tasks"]] == [{"ansible.builtin.fail"}]
    assert "envkit up --scheme {{ envkit_plan.scheme }}" in found["tasks"][0]["ansible.builtin.fail"]["msg"]


@pytest.mark.parametrize(("os", "system"), [(Os.MACOS, "macOS"), (Os.WINDOWS, "Windows")])
def test_a_system_without_roles_says_what_does_it(cpu_plan: Plan, cpu_scheme: Scheme, os: Os, system: str) -> None:
    text = play(cpu_plan, replace(cpu_scheme, os=os))
    assert f"envkit has no roles for {system} hosts" in text
    assert "ansible.builtin.fail" in text


def test_wsl2_is_set_up_as_linux_is(cpu_plan: Plan, cpu_scheme: Scheme) -> None:
    assert play(cpu_plan, replace(cpu_scheme, os=Os.WSL2)) == play(cpu_plan, replace(cpu_scheme, os=Os.LINUX))


def test_a_bake_file_names_each_image_and_all_of_them() -> None:
    targets = [
        Target(name="a", context=".", dockerfile="a/Dockerfile", tags=("envkit/a:latest",)),
        Target(
            name="b",
            context=".",
            dockerfile="b/Dockerfile",
            tags=("envkit/b:latest",),
            contexts={"wheels": "/w"},
            secrets=("id=ca,src=/c",),
            args={"HTTP_PROXY": None},
            no_cache=True,
            network="host",
        ),
    ]
    document = json.loads(bake(targets))
    assert document["group"] == {"default": {"targets": ["a", "b"]}}
    assert document["target"]["a"] == {"context": ".", "dockerfile": "a/Dockerfile", "tags": ["envkit/a:latest"]}
    assert document["target"]["b"] == {
        "context": ".",
        "dockerfile": "b/Dockerfile",
        "tags": ["envkit/b:latest"],
        "contexts": {"wheels": "/w"},
        "secret": ["id=ca,src=/c"],
        "args": {"HTTP_PROXY": None},
        "no-cache": True,
        "network": "host",
    }

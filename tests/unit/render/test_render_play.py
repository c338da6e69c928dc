"""Plans as plays, and several images as one bake file."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
import yaml

from envkit.errors import EnvkitError
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


def test_an_os_without_template_says_what_to_write(cpu_plan: Plan, cpu_scheme: Scheme) -> None:
    with pytest.raises(EnvkitError) as caught:
        play(cpu_plan, replace(cpu_scheme, os=Os.MACOS))
    assert caught.value.hint == "add templates/playbook/macos.yml.j2"


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

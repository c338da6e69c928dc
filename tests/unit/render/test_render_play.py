"""Plans as plays, and several images as one bake file."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
import yaml

from envkit.model import Os, Package, Plan, Scheme
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


def test_wsl2_is_set_up_as_linux_is_after_a_look_at_the_kernel(cpu_plan: Plan, cpu_scheme: Scheme) -> None:
    (wsl,) = yaml.safe_load(play(cpu_plan, replace(cpu_scheme, os=Os.WSL2)))
    (linux,) = yaml.safe_load(play(cpu_plan, replace(cpu_scheme, os=Os.LINUX)))
    (look,) = wsl.pop("pre_tasks")
    assert look["ansible.builtin.assert"]["that"] == "'microsoft' in ansible_facts.kernel | lower"
    assert wsl == linux


def test_what_no_index_has_is_left_to_a_person_with_the_steps(cpu_plan: Plan, cpu_scheme: Scheme) -> None:
    vendor = Package(name="torch-mlu", version="1.25.0", index="vendor")
    plan = replace(cpu_plan, packages=(*cpu_plan.packages, vendor), container=None)
    scheme = replace(cpu_scheme, install=("sign in: {{ there }}", "install the wheel"))
    text = play(plan, scheme)
    (found,) = yaml.load(text, Loader=_WithUnsafe)
    assert "roles" not in found
    assert found["gather_facts"] is False
    assert found["vars"]["envkit_steps"] == ["sign in: {{ there }}", "install the wheel"]
    assert '!unsafe "sign in: {{ there }}"' in text, "a step is text, not an expression"
    message = found["tasks"][0]["ansible.builtin.fail"]["msg"]
    assert message == (
        "No package index has torch-mlu==1.25.0, so nothing was installed on {{ inventory_hostname }}. "
        "By hand: {{ envkit_steps | join('; ') }}."
    )
    with_image = play(replace(plan, container=cpu_plan.container), scheme)
    assert "envkit build {{ envkit_plan.scheme }}" in with_image


class _WithUnsafe(yaml.SafeLoader):
    """Reads Ansible's mark as plain text."""


_WithUnsafe.add_constructor("!unsafe", lambda loader, node: loader.construct_scalar(node))


def test_a_play_says_what_an_administrator_does_first(cpu_plan: Plan, cpu_scheme: Scheme) -> None:
    steps = ("install the driver " + "of the card " * 12, "look: {{ here }}")
    text = play(cpu_plan, replace(cpu_scheme, install=steps))
    head = text.partition("- name:")[0]
    assert "# - install the driver of the card" in head
    assert "#   of the card" in head, "a long step goes on in the next line"
    assert "# - look: {{ here }}\n" in head
    assert all(len(line) <= 125 for line in head.splitlines())
    assert "first:" not in play(cpu_plan, cpu_scheme)


def test_ascend_hosts_read_canns_settings_before_the_proof(cpu_plan: Plan, cpu_scheme: Scheme) -> None:
    (found,) = yaml.safe_load(play(replace(cpu_plan, backend_name="npu"), cpu_scheme))
    assert found["vars"]["verify_setup"] == "/usr/local/Ascend/ascend-toolkit/set_env.sh"
    (found,) = yaml.safe_load(play(cpu_plan, cpu_scheme))
    assert "verify_setup" not in found["vars"]


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

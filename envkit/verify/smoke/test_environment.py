"""The probe's checks, a test each, and what testinfra's own modules see of the host."""

from __future__ import annotations

from typing import Any

import pytest

from envkit.model import Check, Proof
from envkit.verify.probe import CHECKS, NODES


def checks_of(proof: Proof, identity: str) -> list[Check]:
    """The checks of one id, on every device."""
    return [check for check in proof.checks if check.id.split("/")[0] == identity]


@pytest.mark.parametrize("identity", [identity for identity, _ in CHECKS])
def test_check(proof: Proof, identity: str) -> None:
    """A check of the probe: passed on every device, or skipped with its reason."""
    found = checks_of(proof, identity)
    if not found:
        pytest.skip("this plan has no such check")
    failed = [f"{check.id}: {check.detail}" for check in found if check.outcome == "failed"]
    if failed:
        pytest.fail("\n".join(failed), pytrace=False)
    if all(check.outcome == "skipped" for check in found):
        pytest.skip(found[0].detail)


def test_no_other_check_failed(proof: Proof) -> None:
    """Checks beyond the usual ones: a probe that could not run says so here."""
    usual = {identity for identity, _ in CHECKS}
    failed = [f"{c.id}: {c.detail}" for c in proof.checks if c.outcome == "failed" and c.id.split("/")[0] not in usual]
    if failed:
        pytest.fail("\n".join(failed), pytrace=False)


def test_something_was_computed(proof: Proof) -> None:
    """A proof in which nothing was computed has not passed."""
    computed = [check.id for check in proof.checks if check.level == "compute" and check.outcome == "passed"]
    if not computed:
        pytest.fail(f"nothing was computed on {proof.host}", pytrace=False)


def test_python_is_a_file_of_the_environment(host: Any, proof: Proof) -> None:
    """The Python that proved itself, as the host's own file system shows it."""
    path = str(proof.measured.get("executable", ""))
    if not path.startswith("/"):
        pytest.skip("the probe named no path that this host's shell could look at")
    python = host.file(path)
    assert python.exists, f"{path} is not there"
    resolved = host.file(python.linked_to) if python.is_symlink else python
    assert resolved.mode & 0o111, f"{path} is not executable"


def test_records_are_safe(host: Any, proof: Proof) -> None:
    """The recorded plan cannot be changed by just anybody: it says what the host is held to."""
    prefix = str(proof.measured.get("prefix", ""))
    beside = prefix.rpartition("/")[0]
    records = [host.file(f"{folder}/envkit/plan.json") for folder in (prefix, beside)]
    there = [record for record in records if record.exists]
    if not prefix.startswith("/") or not there:
        pytest.skip("no plan is recorded on this host")
    for record in there:
        assert not record.mode & 0o002, f"{record.path} can be changed by anybody (mode {record.mode:o})"


def test_device_files_belong_to_a_group(host: Any, proof: Proof) -> None:
    """The files through which the backend reaches its devices are there, and their group exists on the host."""
    patterns = [pattern for group in NODES.get(str(proof.measured.get("backend", "")), []) for pattern in group]
    if not patterns or not checks_of(proof, "device-nodes"):
        pytest.skip("this backend, or the device that the plan names, needs no device files")
    listed = host.run("ls -d " + " ".join(patterns) + " 2>/dev/null").stdout.split()
    assert listed, f"none of {', '.join(patterns)} is there"
    for path in listed:
        group = host.file(path).group
        assert host.group(group).exists, f"{path} belongs to the group {group}, which this host does not know"

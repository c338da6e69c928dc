"""Causes that lie in the wheel, its index or its Python."""

from __future__ import annotations

from collections.abc import Iterator

from envkit.doctor import commands
from envkit.doctor.case import Case
from envkit.model import Finding
from envkit.resolve.target import card_name

_TORCH_INDEX = "PyTorch: wheel indexes by build: https://pytorch.org/get-started/previous-versions/"
_FLAVOURS = {"nvidia": "cuda", "amd": "rocm", "intel": "xpu"}


def cpu_only_wheel(case: Case) -> Iterator[Finding]:
    """The torch that runs was built without GPU code, beside a card that it could use."""
    torch = case.torch
    cards = [card for card in case.gpus if card.vendor in _FLAVOURS]
    if torch.flavour != "cpu" or torch.available or not cards:
        return
    evidence = [f"torch.version: {torch.version}" if torch.version else "torch: no CUDA, no HIP"]
    evidence += [str(hit) for hit in (case.hit(r"^\s*None\s*$", "torch.version"),) if hit]
    yield Finding(
        cause="cpu-only-wheel",
        message=f"torch {torch.version or ''} was built without GPU code, so it cannot use {card_name(cards[0])}".replace(
            "  ", " "
        ),
        evidence=(*evidence, f"machine.gpu: {card_name(cards[0])}"),
        remedy="Replace torch in that environment by a build for this card; driver and toolkit stay as they are.",
        commands=tuple(commands.reinstall_torch(case)),
        sources=(_TORCH_INDEX,),
        likelihood=85,
    )


CHECKS = (cpu_only_wheel,)
EXPLAINS: dict[str, tuple[str, ...]] = {"cpu-only-wheel": ("wrong-accelerator-wheel",)}

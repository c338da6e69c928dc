"""A number of cards in --gpu: that many of the card are in the machine."""

from __future__ import annotations

import pytest

from envkit.matrix import load
from envkit.model import Wish
from envkit.resolve import resolve
from envkit.resolve.target import cards_text, read

MATRIX = load()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("4x A100", "4 x A100 PCIe (sm_80)"),
        ("8 x H100 80GB", "8 x H100 SXM5 (sm_90)"),
        ("2x gfx942", "2 x gfx942"),
        ("A100", "A100 PCIe (sm_80)"),
        ("v5litepod-8", "8 x TPU v5e (tpu-v5e)"),
        # How many chips a slice of that name has is not known.
        ("tpu7x-8", "TPU7x (tpu-v7x)"),
    ],
)
def test_cards(text: str, said: str) -> None:
    accelerators = read(MATRIX, Wish(gpu=text)).target.accelerators
    assert accelerators is not None
    assert cards_text(accelerators) == said


@pytest.mark.parametrize(("one", "several"), [("A100", "4x A100"), ("MI300X", "8x MI300X"), ("RTX 3090", "2x RTX 3090")])
def test_several_of_one_card_get_the_plan_of_one(one: str, several: str) -> None:
    first, second = resolve(MATRIX, Wish(gpu=one)).plan, resolve(MATRIX, Wish(gpu=several)).plan
    assert first is not None
    assert second is not None
    assert (first.scheme, first.framework_version, first.verdict) == (second.scheme, second.framework_version, second.verdict)

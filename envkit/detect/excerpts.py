"""Evidence fit to be shown around: short, and without serial numbers, host names or network addresses."""

from __future__ import annotations

import re
from collections.abc import Mapping

LIMIT = 4000  # characters of one excerpt

_UUID = re.compile(r"\b[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}\b|(?<=GPU-)[0-9a-fA-F]{16}\b")
_MAC = re.compile(r"(?<![0-9a-fA-F:.])(?:[0-9a-fA-F]{2}[:-]){5}[0-9a-fA-F]{2}(?![0-9a-fA-F:])")
# NVIDIA's and the kernel's version lines name who built them: with DKMS, root at this very host.
_BUILDER = re.compile(r"\s*\([\w.+-]+@[^()\s]*\)")
_SERIAL = re.compile(r"(?im)^(.*\b(?:serial|asic_serial|product_serial|fru_id|board id|unique id)\b[^:=\n]*[:=]\s*)\S.*$")


class Privacy:
    """Replaces what identifies a machine; the same identifier gets the same stand-in everywhere in one document."""

    def __init__(self) -> None:
        self._known: dict[str, str] = {}

    def clean(self, text: str) -> str:
        """`text` without identifiers."""
        text = _UUID.sub(self._stand_in, text)
        text = _MAC.sub("xx:xx:xx:xx:xx:xx", text)
        text = _BUILDER.sub("", text)
        return _SERIAL.sub(r"\1(left out)", text)

    def _stand_in(self, found: re.Match[str]) -> str:
        number = self._known.setdefault(found[0].lower(), f"{len(self._known) + 1:08d}")
        return f"{number}-0000-0000-0000-000000000000" if "-" in found[0] else number.rjust(16, "0")

    def table(self, excerpts: Mapping[str, str]) -> dict[str, str]:
        """The excerpts, cleaned and cut to length; empty ones are left out."""
        cleaned = {key: shorten(self.clean(text)) for key, text in excerpts.items()}
        return {key: text for key, text in cleaned.items() if text}


def shorten(text: str, limit: int = LIMIT) -> str:
    """`text` without blank ends, cut in the middle where it is too long."""
    text = "".join(char for char in text.strip("\n") if char in "\n\t" or char.isprintable()).rstrip()
    return text if len(text) <= limit else text[: limit * 2 // 3] + "\n...\n" + text[-limit // 4 :]

"""Whether everything that the matrix names is still there: indexes, wheels, image tags."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from envkit.matrix.refresh.changes import CHANGED, GONE, LOOK
from envkit.matrix.refresh.net import Net, Settings
from envkit.matrix.refresh.refreshing import IMAGES, LIBRARIES, Options, Place, refresh
from envkit.model import Matrix


@dataclass(frozen=True, kw_only=True)
class Online:
    """The answer: what is missing upstream, and what could not be asked."""

    faults: tuple[str, ...]
    places: tuple[Place, ...]

    @property
    def unknown(self) -> tuple[Place, ...]:
        """The places that could not be asked: what the matrix names there is neither confirmed nor missing."""
        return tuple(place for place in self.places if place.state == "unreachable")

    @property
    def nothing_reached(self) -> bool:
        """Whether no place at all answered."""
        return bool(self.places) and all(place.state == "unreachable" for place in self.places)


def check_online(
    matrix: Matrix,
    settings: Settings,
    *,
    limit: float = 30.0,
    tell: Callable[[str], None] = lambda _: None,
    net: Net | None = None,
) -> Online:
    """Asks every place that the matrix names."""
    only = (*matrix.frameworks, LIBRARIES, IMAGES)
    report = refresh(matrix, settings, Options(only=only, limit=limit), tell, net)
    faults = [f"{place.url}: {place.why}" for place in report.refused]
    for change in report.changes:
        gone = change.kind == GONE or (change.kind == CHANGED and "yanked" in change.now)
        missing = change.kind == LOOK and ("no wheel of" in change.because or "its tag is gone" in change.because)
        if gone or missing:
            faults.append(f"{change.table} {change.label}: {change.because} ({change.place})")
    return Online(faults=tuple(faults), places=report.places)

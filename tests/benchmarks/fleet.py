"""How long it takes to resolve the facts of many different machines, and whether memory stays flat.

    python tests/benchmarks/fleet.py [MACHINES] [PROCESSES]

The machines are made up from the catalogue and the matrix: every card, many drivers, systems and Pythons, no two alike.
"""

from __future__ import annotations

import multiprocessing
import random
import resource
import sys
import time
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from envkit.devices.catalogue import read_catalogue  # noqa: E402
from envkit.matrix import load  # noqa: E402
from envkit.model import DriverFacts, Facts, Gpu, Machine, Matrix, Os, PythonFacts, Wish  # noqa: E402
from envkit.resolve import resolve  # noqa: E402


def machines(matrix: Matrix, count: int, seed: int = 7) -> Iterator[Facts]:
    """The facts of machines of which no two are alike."""
    chance = random.Random(seed)
    known = read_catalogue()
    products = [product for product in map(known.product, range(len(known))) if product.arch]
    systems = [row for row in matrix.platforms.values() if row.os is Os.LINUX]
    branches = [str(row.branch) for row in matrix.backends["cuda"].branches]
    for number in range(count):
        product, system = chance.choice(products), chance.choice(systems)
        driver = f"{chance.choice(branches)}.{number % 300}.{chance.randint(1, 20):02d}" if product.vendor == "nvidia" else ""
        card = Gpu(name=product.name, arch=product.arch, vendor=product.vendor, pci_id=next(iter(product.pci_ids), ""))
        yield Facts(
            machine=Machine(
                os="linux",
                os_id=system.id,
                kernel=f"6.{chance.randint(1, 17)}.0-{number}-generic",
                arch=product.cpu or "x86_64",
                glibc=str(system.glibc or ""),
                gpus=(card,) * chance.choice((1, 1, 2, 4, 8)),
                driver=DriverFacts(kernel=driver, license=chance.choice(("", "NVIDIA", "Dual MIT/GPL"))),
            ),
            python=PythonFacts(version=f"3.{chance.randint(8, 14)}.{chance.randint(0, 9)}"),
        )


def resolve_share(share: tuple[int, int, int]) -> tuple[int, int, int]:
    """Resolves every n-th of so many machines; gives how many got a plan, and the peak memory in KiB halfway and in the end."""
    count, start, step = share
    matrix = load()
    facts = list(machines(matrix, count))[start::step]
    planned, halfway = 0, 0
    for number, each in enumerate(facts):
        planned += resolve(matrix, Wish(), each).plan is not None
        if number == len(facts) // 2:
            halfway = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return planned, halfway, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def measure(count: int, processes: int) -> tuple[float, int, float]:
    """Seconds in all, how many got a plan, and how much the memory of a process grew in the second half, as a ratio."""
    shares = [(count, start, processes) for start in range(processes)]
    started = time.perf_counter()
    with multiprocessing.Pool(processes) as pool:
        results = pool.map(resolve_share, shares, chunksize=1)
    seconds = time.perf_counter() - started
    return seconds, sum(planned for planned, _, _ in results), max(end / half for _, half, end in results)


def main(words: list[str]) -> int:
    """Prints the figures."""
    count = int(words[0]) if words else 10_000
    processes = int(words[1]) if len(words) > 1 else 2
    seconds, planned, growth = measure(count, processes)
    print(
        f"{count} machines in {seconds:.1f} s on {processes} processes, the making of their facts included; "
        f"{planned} with a plan; memory in the second half x {growth:.3f}"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

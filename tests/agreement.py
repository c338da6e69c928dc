"""Prints how envkit agrees with its peers' and the vendors' tables:  python tests/agreement.py [--all]

With --all every difference is printed with its reason. Exits with 1 where one has no reason.
"""

from __future__ import annotations

import sys
from pathlib import Path


def main() -> int:
    """0 where every difference has its reason."""
    sys.path[:0] = [str(Path(__file__).resolve().parent), str(Path(__file__).resolve().parents[1])]
    from lab import agreement

    from envkit import matrix as matrices

    if not agreement.FACTS.is_dir():
        print(agreement.MISSING)
        return 2
    matrix, total = matrices.load(), []
    known = {name: agreement.read_deviations(name) for name in ("peers", "vendors")}
    for name, tables in (("peers", agreement.PEERS), ("vendors", agreement.VENDORS)):
        for table in tables:
            rows = list(table(matrix))
            total += [(row, known[name]) for row in rows]
            print(f"{table.__name__:20} {agreement.figures(rows, known[name])}")
            if "--all" in sys.argv[1:]:
                for row in (row for row in rows if not row.agrees):
                    why = next((each for each in known[name] if each.covers(row)), None)
                    print(
                        f"    {row.key}: {row.theirs} / {row.ours}  {f'({why.right} right) {why.reason}' if why else 'NO REASON'}"
                    )
    without = [row for row, listed in total if agreement.unlisted([row], listed)]
    agreed = sum(row.agrees for row, _ in total)
    listed = len(total) - agreed - len(without)
    print(f"{'all':20} {len(total)} compared, {agreed} agree, {listed} differ for a listed reason, {len(without)} unexplained")
    return 1 if without else 0


if __name__ == "__main__":
    sys.exit(main())

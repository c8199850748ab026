"""How often an audit finds the convention of a made-up study, how often it accuses wrongly, and how often it takes
random numbers for derived ones.

    python bench/audit_made_up.py --studies 2000 --tables 2000 --seed 1

Half of the studies have one odd convention and no fault, the other half one fault too. Prints shares, and with
`--show` every study that was missed.
"""

import argparse
import sys
import time
from collections import Counter, defaultdict
from pathlib import Path
from random import Random

sys.path.insert(0, str(Path(__file__).parents[1] / "tests/helpers"))

from dpscale.audit.search import search
from made_up_studies import FAULTS, made_up, outcome, random_table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--studies", type=int, default=2000)
    parser.add_argument("--tables", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--show", action="store_true")
    options = parser.parse_args()
    started = time.process_time()
    studies(options.studies, options.seed, options.show)
    tables(options.tables, options.seed, options.show)
    print(f"{time.process_time() - started:.0f} s of processor time")


def studies(number: int, seed: int, show: bool) -> None:
    """Found and wrongly accused, by fault."""
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for n in range(number):
        fault = FAULTS[0] if n % 2 == 0 else FAULTS[1 + n // 2 % (len(FAULTS) - 1)]
        result = outcome(made_up(Random(f"{seed} {n}"), fault))
        for name in (fault, "all"):
            counts[name].update(studies=1, found=not result.missed, wrong=bool(result.wrong))
        if show and (result.missed or result.wrong):
            print(n, fault, "missed", result.missed, "wrong", result.wrong)
    print(f"{'fault':20} {'studies':>8} {'found':>8} {'wrongly accused':>16}")
    for name, count in counts.items():
        shares = count["found"] / count["studies"], count["wrong"] / count["studies"]
        print(f"{name:20} {count['studies']:8} {shares[0]:8.1%} {shares[1]:16.1%}")


def tables(number: int, seed: int, show: bool) -> None:
    """Random figures that are called reproduced."""
    verdicts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for n in range(number):
        study = random_table(Random(f"table {seed} {n}"))
        for quantity in study.quantities:
            found = search(study, quantity)
            for name in (quantity, "all"):
                verdicts[name][found.verdict] += 1
            if show and found.verdict.startswith(("reproduced", "up to")):
                print(n, quantity, found.verdict, found.chance, found.best and found.best.convention.formula)
    for name, count in verdicts.items():
        shares = ", ".join(f"{verdict} {times / count.total():.2%}" for verdict, times in count.most_common())
        print(f"random {name:16} {shares}")


if __name__ == "__main__":
    main()

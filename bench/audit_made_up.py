"""How often an audit names what is wrong in a made-up table, and how often it accuses what is right.

    python bench/audit_made_up.py --tables 600 --seed 1

A third of the tables are honest, a third have a single fault, and a third a column by a mistaken definition or by none.
Prints what was found, missed and falsely accused by kind; with `--show` every table that was missed or accused.
"""

import argparse
import sys
import tempfile
import time
from collections import Counter, defaultdict
from pathlib import Path
from random import Random

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.made_up_tables import FAULTS, HONEST_KINDS, made_up, named

from dpscale.audit.audit import audit
from dpscale.audit.own_table import read_table

KINDS = (HONEST_KINDS, FAULTS, ("mistaken", "outside"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--tables", type=int, default=600)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--show", action="store_true")
    options = parser.parse_args()
    started = time.process_time()
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    with tempfile.TemporaryDirectory() as folder:
        for number in range(options.tables):
            of_third = KINDS[number % 3]
            kind = of_third[number // 3 % len(of_third)]
            made = made_up(Random(f"{options.seed} {number}"), kind)
            path = Path(folder) / "table.csv"
            path.write_text(made.text)
            (study,) = read_table(path)
            record = audit(study)
            found, accused = named(made, record)
            counts[kind].update(
                tables=1, found=found and bool(made.wrong), wrong=bool(made.wrong), accused=bool(accused)
            )
            if options.show and (accused or (made.wrong and not found)):
                print(f"{number} {kind} {made.wrong} accused {sorted(accused)}\n{made.text}{record.answer}\n")
    print(f"{'kind':24} {'tables':>7} {'found':>7} {'missed':>7} {'falsely accused':>16}")
    for kind, count in counts.items():
        missed = count["wrong"] - count["found"]
        print(f"{kind:24} {count['tables']:7} {count['found']:7} {missed:7} {count['accused']:16}")
    print(f"{time.process_time() - started:.0f} s of processor time")


if __name__ == "__main__":
    main()

"""How often the interval of `dpscale versus` holds the truth: the same script twice, and B with 2 % more work.

    python bench/versus_coverage.py --device cpu --times 20

Every time both are started anew, for a quarter of a minute. Printed are the answers, how many intervals hold 1 where
the scripts are the same, and how many lie above 1 where B's step is longer.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

import click
import msgspec

from dpscale.diagnosis.versus import compare_scripts, step_ratio
from dpscale.options import FILE
from dpscale.records.files import write_text

# A step of about 10 ms, in 50 equal parts or 51.
TRAINING = """
import sys, torch
device, parts = sys.argv[1], int(sys.argv[2])
torch.set_num_threads(1)
width = 128 if device == "cpu" else 2048
net = torch.nn.Sequential(torch.nn.Linear(width, width), torch.nn.ReLU(), torch.nn.Linear(width, width)).to(device)
optimizer = torch.optim.SGD(net.parameters(), lr=1e-6)
x = torch.randn(32 if device == "cpu" else 2048, width, device=device)
while True:
    optimizer.zero_grad()
    for _ in range(parts):
        net(x).square().mean().backward()
    optimizer.step()
"""
PARTS = {"same": 50, "longer": 51}


def training(device: str, parts: int) -> list[str]:
    """Return the command of a script whose step has so many equal parts."""
    return [sys.executable, "-c", TRAINING, device, str(parts)]


@click.command()
@click.option("--device", type=click.Choice(["cpu", "cuda"]), default="cpu", show_default=True)
@click.option("--times", type=int, default=20, show_default=True, help="Of each of the two cases.")
@click.option("--case", "cases", type=click.Choice(list(PARTS)), multiple=True, default=list(PARTS), help="This alone.")
@click.option("--minutes", type=float, default=0.25, show_default=True)
@click.option("--records", type=FILE, help="Where all records are written, a line each.")
def main(device: str, times: int, cases: Sequence[str], minutes: float, records: Path | None) -> None:
    """Ask both cases in turn."""
    lines, hits, said = [], dict.fromkeys(cases, 0), {"same": "hold 1", "longer": "find 2 %"}
    for number in range(1, times + 1):
        for case in cases:
            a, b = (training(device, PARTS[name]) for name in ("same", case))
            record = compare_scripts({"A": a, "B": b}, minutes, 60.0, lambda _: None)
            ratio = step_ratio(record.blocks)
            hits[case] += ratio.low <= 1 <= ratio.high if case == "same" else ratio.low > 1
            lines.append(msgspec.json.encode(record).decode())
            click.echo(f"{number} {case}: {ratio.value:.4f} [{ratio.low:.4f}, {ratio.high:.4f}], {len(record.blocks)}")
            if records:
                write_text(records, "\n".join(lines) + "\n")
    click.echo(f"{device}: " + "; ".join(f"{hits[case]} of {times} {said[case]}" for case in cases))


if __name__ == "__main__":
    main()

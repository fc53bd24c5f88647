"""How close the headline of `python -m pijit --report` comes to a stopwatch.

    python bench/headline.py [--runs N] [names...]

Each program runs in fresh processes, in turn plain and under `--report`, and takes the time of its own work. The
stopwatch's saving is the difference of the fastest runs, which other processes disturbed least; the report's is
`seconds_saved` of that run. The last column is the difference of the two, as a part of what plain Python takes.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

SETUP = """
import json, os, sys, time
import torch
torch.manual_seed(0)
torch.set_num_threads(1)
"""

PROGRAMS = {
    "forward": """
net = torch.nn.Sequential(
    *[m for _ in range(12) for m in (torch.nn.Linear(32, 32), torch.nn.ReLU(), torch.nn.LayerNorm(32))]
)
x = torch.randn(4, 32)
start = time.perf_counter()
with torch.no_grad():
    for _ in range(3000):
        net(x)
""",
    "training step": """
net = torch.nn.Sequential(*[m for _ in range(6) for m in (torch.nn.Linear(32, 32), torch.nn.ReLU())])
optimizer = torch.optim.SGD(net.parameters(), 1e-3)
def step(x):
    optimizer.zero_grad()
    loss = net(x).pow(2).mean()
    loss.backward()
    optimizer.step()
    return loss
start = time.perf_counter()
for _ in range(1500):
    step(torch.randn(4, 32))
""",
    "few calls": """
cell, head = torch.nn.GRUCell(16, 32), torch.nn.Linear(32, 4)
@torch.no_grad()
def classify(sequence):
    h = torch.zeros(1, 32)
    for x in sequence:
        h = torch.tanh(cell(x[None], h) * 2 - 0.5)
    return head(h)
start = time.perf_counter()
for _ in range(40):
    classify(torch.randn(400, 16))
""",
    "generations": """
from transformers import GPT2Config, GPT2LMHeadModel
from transformers.utils import logging
logging.set_verbosity_error()
config = GPT2Config(n_layer=3, n_embd=64, n_head=2, vocab_size=128, n_positions=64, bos_token_id=1, eos_token_id=2)
model = GPT2LMHeadModel(config).eval()
start = time.perf_counter()
for _ in range(25):
    ids = torch.randint(3, 128, (1, 8))
    mask = torch.ones_like(ids)
    model.generate(ids, attention_mask=mask, min_new_tokens=24, max_new_tokens=24, pad_token_id=0, do_sample=False)
""",
}
TOLD = "\nprint(time.perf_counter() - start)\n"


def measure(text: str, report: Path | None) -> tuple[float, float]:
    """Seconds that the work took, and what the report says was saved."""
    options = [] if report is None else ["-m", "pijit", f"--report={report}"]
    command = [sys.executable, *options, "-c", SETUP + text + TOLD]
    quiet = {"PIJIT_CACHE": "0", "PIJIT_QUIET": "1"}
    done = subprocess.run(command, env=os.environ | quiet, capture_output=True, text=True, check=True)
    saved = 0.0 if report is None else json.loads(report.read_text())["stats"]["seconds_saved"]
    return float(done.stdout.split()[-1]), saved


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="Compare the headline of --report with a stopwatch.")
    parser.add_argument("names", nargs="*", help=f"of {', '.join(PROGRAMS)}; all, if left out")
    parser.add_argument("--runs", type=int, default=5, help="processes of each kind")
    options = parser.parse_args()
    print(f"{'program':>15}{'plain s':>10}{'pijit s':>10}{'stopwatch':>11}{'report':>9}{'off by':>9}")
    for name in options.names or PROGRAMS:
        plain, under, said = [], [], []
        with tempfile.TemporaryDirectory() as folder:
            for _ in range(options.runs):
                plain.append(measure(PROGRAMS[name], None)[0])
                took, saved = measure(PROGRAMS[name], Path(folder) / "report.json")
                under.append(took)
                said.append(saved)
        a, (b, report) = min(plain), min(zip(under, said, strict=True))
        print(f"{name:>15}{a:>10.2f}{b:>10.2f}{a - b:>11.2f}{report:>9.2f}{(report - (a - b)) / a:>+9.1%}", flush=True)


if __name__ == "__main__":
    main()

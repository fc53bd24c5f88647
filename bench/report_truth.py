"""Is it true what `--report` says was saved or lost? `python bench/report_truth.py [--runs 3] [--burners 2]`.

Eleven programs of about two seconds run in processes of their own, in turns without pijit, with it, and with
`python -m pijit --report`, beside burners. The truth is the difference of what the main threads computed without and
with pijit (medians of the runs). Printed is, for each program, what it took without pijit, what was saved in truth,
what the report said, and how far apart that is in parts of the program's time. Then comes what it says was left
to CPython, which can be no more than the program took, and what it takes to measure all that.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

HEAD = """
import bisect, json, random, sys, time
import torch
from torch import nn
torch.set_num_threads(1)
torch.manual_seed(0)
drawn = random.Random(0)
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda turn: 1 if turn % 3 == 0 else 0.5 + turn / 1e5)
cell = nn.LSTMCell(8, 16)
def step(x, y, scheduled=False):
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(x), y)
    loss.backward()
    optimizer.step()
    if scheduled: schedule.step()
    return loss
def sequence(xs):
    state = torch.zeros(4, 16), torch.zeros(4, 16)
    for at in range(xs.shape[0]): state = cell(xs[at], state)
    return state[0]
def ways(x, way):
    for letter in way: x = torch.relu(x * 2 + 1) if letter == "a" else torch.sigmoid(x - 1) * x
    return x
def sorting(x, numbers):
    kept = []
    for number in numbers: bisect.insort(kept, number)
    return x + kept[0]
def sleeping(x):
    time.sleep(0.002)
    return model(x)
def texts(x):
    return x + len(json.loads(json.dumps({"a": [1, 2, 3], "b": {"c": None}})))
def importing(x, number):
    for name in ("colorsys", "wave", "this_is_none"):
        sys.modules.pop(name, None)
        try: __import__(name)
        except ImportError: pass
    return x * number
class Count: made = 0
def counting(x):
    Count.made += 1
    return torch.relu(x * 2 + 1)
def nested(x, depth):
    return torch.relu(x) if depth == 0 else nested(x * 2, depth - 1) + nested(x + 1, depth - 1)
def run():
    {program}
began = time.thread_time()
run()
print(time.thread_time() - began)
"""

PROGRAMS = {
    "batches": "for _ in range(36000): model(torch.randn(drawn.randint(1, 512), 16))",
    "sequences": "for _ in range(2160): sequence(torch.randn(drawn.randint(5, 60), 4, 8))",
    "step": "for _ in range(27000): step(torch.randn(4, 16), torch.randn(4, 4))",
    "schedule": "for _ in range(21600): step(torch.randn(4, 16), torch.randn(4, 4), True)",
    "ways": "for _ in range(144000): ways(torch.ones(8), drawn.choice('a ab abb ba bba aab b bb'.split()))",
    "sorting": "for _ in range(192000): sorting(torch.ones(2), [(7 * i) % 41 for i in range(40)])",
    "sleeping": "for _ in range(2500): sleeping(torch.ones(4, 16))",
    "texts": "for _ in range(270000): texts(torch.ones(2))",
    "importing": "for n in range(4800): importing(torch.ones(2), n)",
    "counting": "for _ in range(360000): counting(torch.ones(2))",
    "nested": "for n in range(60000): nested(torch.ones(2), n % 5)",
}


def main() -> None:
    """Prints a line for each program."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--burners", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--programs", default=",".join(PROGRAMS))
    options = parser.parse_args()
    burn = "import os\nos.nice(19)\nwhile os.getppid() > 1: sum(range(10000))"
    burners = [subprocess.Popen([sys.executable, "-c", burn]) for _ in range(options.burners)]
    try:
        with tempfile.TemporaryDirectory() as folder:
            for name in options.programs.split(","):
                print(line(name, Path(folder), options.runs), flush=True)
    finally:
        for burner in burners:
            burner.kill()


def line(name: str, folder: Path, runs: int) -> str:
    """What became of one program."""
    script, report = folder / f"{name}.py", folder / f"{name}.json"
    script.write_text(HEAD.replace("{program}", PROGRAMS[name]))
    plain, fast, reported, said, left = [], [], [], [], []
    for _ in range(runs):
        plain.append(seconds([str(script)]))
        fast.append(seconds(["-m", "pijit", str(script)]))
        reported.append(seconds(["-m", "pijit", f"--report={report}", str(script)]))
        functions = json.loads(report.read_text())["functions"]
        said.append(sum(function["seconds_saved"] for function in functions))
        left.append(sum(function["seconds_lost"] for function in functions))
    before, truth = statistics.median(plain), statistics.median(plain) - statistics.median(fast)
    apart = abs(statistics.median(said) - truth) / before
    cost = statistics.median(reported) - statistics.median(fast)
    return (
        f"{name:<10} {before:6.2f} s, saved {truth:6.3f} s, said {statistics.median(said):6.3f} s: {apart:5.1%} apart; "
        f"left to CPython {statistics.median(left):6.3f} s; the report took {cost:6.3f} s"
    )


def seconds(arguments: list[str]) -> float:
    """What the program prints."""
    done = subprocess.run(
        [sys.executable, *arguments],
        check=True,
        stdout=subprocess.PIPE,
        env=os.environ | {"PIJIT_CACHE": "0", "PIJIT_QUIET": "1"},
    )
    return float(done.stdout.split()[-1])


if __name__ == "__main__":
    main()

"""Calls that carry a device: each gives under `--device cpu` what it gives when it is edited by hand for the CPU."""

from __future__ import annotations

import textwrap

import pytest
from moved import run

pytestmark = pytest.mark.torch

# A call, and the same by hand.
CASES = [
    ('torch.device("cuda", 1)', 'torch.device("cpu")'),
    ('torch.device("cuda:1"), torch.device(0), torch.device(type="npu")', '(torch.device("cpu"),) * 3'),
    ('torch.device("meta"), isinstance(torch.device("cuda"), torch.device)', '(torch.device("meta"), True)'),
    ('torch.zeros(2, device="cuda")', "torch.zeros(2)"),
    ('torch.full((2,), 3, device="mps", dtype=torch.int64)', "torch.full((2,), 3)"),
    ("torch.arange(3, device=0)", "torch.arange(3)"),
    ('torch.tensor([1.0], device="xpu:0", requires_grad=True)', "torch.tensor([1.0], requires_grad=True)"),
    ('torch.empty(0, pin_memory=True), torch.eye(2, device="cuda")', "(torch.empty(0), torch.eye(2))"),
    (
        'torch.as_tensor([1, 2], device="cuda"), torch.fft.fftfreq(4, device="cuda")',
        "torch.tensor([1, 2]), torch.fft.fftfreq(4)",
    ),
    ('x.new_zeros(2, device="cuda"), torch.ones_like(x, device="cuda")', "x.new_zeros(2), torch.ones_like(x)"),
    ("x.cuda(), x.cuda(1, non_blocking=True), x.cuda() is x", "x, x, True"),
    ('x.to("cuda"), x.to("cuda:1", torch.float64), x.to(0, copy=True), x.to(torch.int32)', "x, x.double(), x, x.int()"),
    ('x.to(device="cuda", dtype=torch.half), x.to(x.double())', "x.half(), x.double()"),
    ('x.cpu() is x, x.to("cpu") is x, x.cpu()', "False, False, x"),
    ("x.pin_memory() is x, x.record_stream(torch.cuda.current_stream())", "True, None"),
    ('x.type("torch.cuda.DoubleTensor"), torch.cuda.LongTensor([3])', "x.double(), torch.LongTensor([3])"),
    ('torch.nn.Linear(2, 2, device="cuda").weight.device', 'torch.device("cpu")'),
    (
        "torch.nn.Linear(2, 2).cuda(0).bias.shape, torch.nn.Linear(2, 2).to(0, torch.half).bias.dtype",
        "torch.Size([2]), torch.half",
    ),
    ('torch.nn.Linear(2, 2, device="meta").to_empty(device="cuda").weight.device', 'torch.device("cpu")'),
    (
        "torch.nn.DataParallel(net).cuda()(x), list(torch.nn.DataParallel(net).state_dict())",
        "net(x), ['module.weight', 'module.bias']",
    ),
    (
        'torch.randn(2, generator=torch.Generator(device="cuda").manual_seed(3))',
        "torch.randn(2, generator=torch.Generator().manual_seed(3))",
    ),
    ("isinstance(torch.Generator(), torch.Generator)", "True"),
    ("(torch.cuda.manual_seed_all(7), torch.rand(1))[1]", "(torch.manual_seed(7), torch.rand(1))[1]"),
    ("torch.equal(torch.cuda.get_rng_state(), torch.get_rng_state())", "True"),
    ("torch.cuda.is_available(), torch.cuda.device_count(), torch.cuda.current_device()", "True, 1, 0"),
    ('torch.cuda.get_device_capability(), torch.cuda.get_device_name("cuda:0")', '(7, 0), "cpu"'),
    ("torch.cuda.max_memory_allocated() / 2**20, torch.cuda.memory_stats()['num_ooms']", "0.0, 0"),
    ("torch.cuda.get_device_properties(0).total_memory == torch.cuda.mem_get_info()[1]", "True"),
    ("torch.xpu.is_available(), torch.backends.mps.is_available()", "False, False"),
    ('torch.GradScaler("cuda").scale(x), torch.cuda.amp.GradScaler().get_scale()', "x * 65536.0, 65536.0"),
    ('cast(torch.autocast("cuda", dtype=torch.float16))', 'cast(torch.autocast("cpu", dtype=torch.float16))'),
    ("cast(torch.cuda.amp.autocast())", 'cast(torch.autocast("cpu"))'),
    ('torch.get_autocast_dtype("cuda")', 'torch.get_autocast_dtype("cpu")'),
    ("[batch.is_pinned() for batch in torch.utils.data.DataLoader(x, pin_memory=True)]", "[False, False]"),
    ('torch.load(file(x), map_location="cuda:3"), torch.load(file(x), lambda s, where: s.cuda(1))', "x, x"),
    ('torch.load(file(x), map_location={"cuda:0": "cuda:1"}), torch.load(file(x))', "x, x"),
    ("streams()", "True, True"),
    (
        "(torch.set_default_device('cuda'), torch.zeros(1).device, torch.set_default_device(None))[1]",
        'torch.device("cpu")',
    ),
    ("in_block()", 'torch.device("cpu")'),
    (
        "copy.deepcopy(torch.device('cuda')), pickle.loads(pickle.dumps(torch.device('cuda')))",
        '(torch.device("cpu"),) * 2',
    ),
]

SETTING = """
    import copy, io, pickle, warnings
    import torch
    warnings.simplefilter("ignore")
    torch.manual_seed(0)
    x, net = torch.randn(2, 2), torch.nn.Linear(2, 2)
    def cast(context):
        with context:
            return net(x)
    def file(value):
        stream = io.BytesIO()
        torch.save(value, stream)
        stream.seek(0)
        return stream
    def in_block():
        with torch.device("cuda"):
            return torch.zeros(1).device
    def streams():
        side, begin, end = torch.cuda.Stream(), torch.cuda.Event(enable_timing=True), torch.cuda.Event()
        begin.record()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side), torch.cuda.device(0):
            inside = torch.cuda.current_stream() is side
            end.record(side)
        torch.cuda.synchronize()
        return inside and torch.cuda.current_stream() is torch.cuda.default_stream(), begin.elapsed_time(end) >= 0
"""


def test_each_call(tmp_path):
    setting = textwrap.dedent(SETTING)
    (tmp_path / "moved.py").write_text(
        setting + "".join(f"print({i}, ({case}))\n" for i, (case, _) in enumerate(CASES))
    )
    (tmp_path / "by_hand.py").write_text(
        setting + "".join(f"print({i}, ({case}))\n" for i, (_, case) in enumerate(CASES))
    )
    moved = run(["-m", "pijit", "--device", "cpu", "moved.py"], tmp_path)
    assert moved == run(["by_hand.py"], tmp_path)


RECORDED = """
    import torch, pijit
    torch.manual_seed(0)
    def f(x, where, count):
        mask = torch.ones(count, device=where)
        with torch.autocast(device_type=torch.device("cuda").type, dtype=torch.bfloat16):
            y = x.to(where) @ torch.eye(count, device="cuda:1")
        return (y * mask).cpu(), torch.cuda.is_available(), x.cuda().sum().item()
    jitted = pijit.jit(f)
    for x, where, count in [
        (torch.ones(2, 2), "cuda", 2), (torch.rand(2, 2), "cuda", 2), (torch.rand(2, 2), "cpu", 2),
        (torch.rand(3, 3), torch.device("cuda"), 3), (torch.rand(3, 3), "cuda:1", 3), (torch.rand(3, 3).half(), 0, 3),
    ]:
        mine, plain = jitted(x, where, count), f(x, where, count)
        assert torch.equal(mine[0], plain[0]) and mine[1:] == plain[1:]
        print(mine[0].sum().item(), mine[1])
    print(pijit.stats()["replays"] > 0)
"""


def test_recorded(tmp_path):
    (tmp_path / "recorded.py").write_text(textwrap.dedent(RECORDED))
    printed = run(["-m", "pijit", "--device", "cpu", "recorded.py"], tmp_path)
    assert printed.endswith("True\n")
    assert printed[:-5] == run(["-m", "pijit", "--device", "cpu", "recorded.py"], tmp_path, PIJIT="0")[:-6]


NPU = """
    import torch
    import torch_npu
    from torch_npu.contrib import transfer_to_npu

    assert torch.npu.is_available() and torch_npu.npu.device_count() == 1
    torch.npu.set_device(0)
    torch.npu.manual_seed_all(3)
    net, x = torch.nn.Linear(2, 2).npu(), torch.ones(1, 2).npu()
    with torch.autocast("npu", dtype=torch.bfloat16), torch.npu.stream(torch.npu.Stream()):
        y = net(x.to("npu:0"))
    torch.npu.synchronize()
    print(y, torch.rand(1, device="npu"), torch.npu.max_memory_allocated(), torch.xpu.is_available())
"""
NPU_BY_HAND = """
    import torch
    torch.manual_seed(3)
    net, x = torch.nn.Linear(2, 2), torch.ones(1, 2)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = net(x)
    print(y, torch.rand(1), 0, False)
"""


def test_package_that_is_not_installed(tmp_path):
    """What adds a device to torch is not there; what it is asked for is answered."""
    (tmp_path / "npu.py").write_text(textwrap.dedent(NPU))
    (tmp_path / "by_hand.py").write_text(textwrap.dedent(NPU_BY_HAND))
    assert run(["-m", "pijit", "--device", "cpu", "npu.py"], tmp_path) == run(["by_hand.py"], tmp_path)

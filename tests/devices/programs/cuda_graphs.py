"""A training step and an inference as CUDA graphs: warm-up on a side stream, static inputs, capture, replays.

By hand for the CPU:
    assert torch.cuda.is_available() -> pass
    device="cuda" -> device="cpu"
    .cuda() -> .cpu()
    capturable=True -> capturable=False
    side.wait_stream(torch.cuda.current_stream()) -> pass
    with torch.cuda.stream(side): -> if True:
    side = torch.cuda.Stream() -> pass
    torch.cuda.current_stream().wait_stream(side) -> pass
    with torch.cuda.graph(graph): -> def train():
    graph = torch.cuda.CUDAGraph() -> static_loss = None
    graph.replay() -> static_loss = train()
    capture_loss = static_loss -> return static_loss
    net = torch.cuda.make_graphed_callables(net, (static_x,)) -> pass
"""

import torch
from torch import nn

assert torch.cuda.is_available()
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4)).cuda()
loss_fn = nn.CrossEntropyLoss()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, capturable=True)
static_x = torch.zeros(8, 16, device="cuda")
static_y = torch.zeros(8, dtype=torch.long, device="cuda")
seen = torch.zeros((), device="cuda")
data = [(torch.randn(8, 16), torch.randint(4, (8,))) for _ in range(30)]


def warm_up():
    optimizer.zero_grad(set_to_none=True)
    loss = loss_fn(model(static_x), static_y)
    loss.backward()
    optimizer.step()


side = torch.cuda.Stream()
side.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(side):
    for _ in range(3):
        warm_up()
torch.cuda.current_stream().wait_stream(side)

graph = torch.cuda.CUDAGraph()
optimizer.zero_grad(set_to_none=True)
with torch.cuda.graph(graph):
    optimizer.zero_grad(set_to_none=True)
    static_loss = loss_fn(model(static_x), static_y)
    static_loss.backward()
    optimizer.step()
    seen.add_(static_x.sum())
    capture_loss = static_loss

for i, (x, y) in enumerate(data):
    static_x.copy_(x)
    static_y.copy_(y)
    graph.replay()
    if i % 6 == 0:
        print(i, f"{static_loss.item():.5f}", f"{seen.item():.4f}")
print(f"{sum(p.double().sum() for p in model.parameters()).item():.3f}")

net = nn.Sequential(nn.Linear(16, 16), nn.Tanh()).cuda()
net = torch.cuda.make_graphed_callables(net, (static_x,))
for x, _ in data[:3]:
    y = net(x.cuda())
    y.sum().backward()
    print(y.sum().item(), net[0].weight.grad.sum().item())

"""Training steps as people write them, for training.py: each function beside `@step` builds one afresh.

A step is added by a function with the decorator. It makes models and optimizers, and gives a `Training`: the function
that does one step, the batches that it is called with in turn, and everything whose bits have to be equal after it. It
is called with torch's seed set; what two calls of it make is equal.
"""

from __future__ import annotations

import copy
import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

sys.path.append(str(Path(__file__).parents[1] / "examples"))  # sizes of `make run`

BATCHES = 5


@dataclass
class Training:
    """One side: what is called, with what, and what it changes."""

    step: Callable[..., Any]
    batches: list[tuple[Any, ...]]
    state: dict[str, Any]
    between: Callable[[], object] = lambda: None  # what the program does now and then between two steps; not timed


STEPS: dict[str, tuple[str, Callable[[], Training]]] = {}  # by name: the group, and what builds one


def step(group: str) -> Callable[[Callable[[], Training]], Callable[[], Training]]:
    """Registers a training step under the name of the function."""

    def register(make: Callable[[], Training]) -> Callable[[], Training]:
        STEPS[make.__name__] = group, make
        return make

    return register


def batches(draw: Callable[[], tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """So many as are called with in turn."""
    return [draw() for _ in range(BATCHES)]


# --- a small MLP, by optimizer ----------------------------------------------------------------


def mlp(optimizer_of: Callable[[Any], torch.optim.Optimizer]) -> Training:
    """Three layers of 64, batch 8."""
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64))
    optimizer = optimizer_of(model.parameters())
    criterion = nn.MSELoss()

    def train_step(x: Tensor, y: Tensor) -> float:
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        return loss.item()

    data = batches(lambda: (torch.randn(8, 64), torch.randn(8, 64)))
    return Training(train_step, data, {"model": model, "optimizer": optimizer})


@step("MLP")
def mlp_sgd() -> Training:
    return mlp(lambda parameters: torch.optim.SGD(parameters, lr=1e-2))


@step("MLP")
def mlp_momentum() -> Training:
    return mlp(lambda parameters: torch.optim.SGD(parameters, lr=1e-2, momentum=0.9))


@step("MLP")
def mlp_adam() -> Training:
    return mlp(lambda parameters: torch.optim.Adam(parameters, lr=1e-3))


@step("MLP")
def mlp_adamw_foreach() -> Training:
    return mlp(lambda parameters: torch.optim.AdamW(parameters, lr=1e-3, foreach=True))


@step("MLP")
def mlp_clip_schedule() -> Training:
    """AdamW, gradients clipped, and a scheduler that changes the rate after each step."""
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=1000)
    criterion = nn.MSELoss()

    def train_step(x: Tensor, y: Tensor) -> float:
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
        return loss.item()

    data = batches(lambda: (torch.randn(8, 64), torch.randn(8, 64)))
    return Training(train_step, data, {"model": model, "optimizer": optimizer, "scheduler": scheduler})


@step("MLP")
def mlp_checkpoint() -> Training:
    """The same, and now and then a checkpoint, as `torch.save` gets it."""
    training = mlp_clip_schedule()
    training.between = lambda: {name: each.state_dict() for name, each in training.state.items()}
    return training


# --- transformers -----------------------------------------------------------------------------


@step("models")
def bert() -> Training:
    """The BERT of `make run` with a head that classifies, 1x16, with its dropout."""
    import models
    from transformers import BertConfig, BertForSequenceClassification

    sizes = {"hidden_size": models.HIDDEN, "intermediate_size": models.INNER, "num_labels": 3}
    config = BertConfig(
        vocab_size=models.VOCABULARY, num_hidden_layers=models.LAYERS, num_attention_heads=models.HEADS, **sizes
    )
    model = BertForSequenceClassification(config).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-4)

    def train_step(input_ids: Tensor, attention_mask: Tensor, labels: Tensor) -> Tensor:
        outputs = model(input_ids=input_ids, attention_mask=attention_mask, labels=labels)
        loss = outputs.loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach()

    shape = 1, models.TOKENS
    data = batches(
        lambda: (
            torch.randint(models.VOCABULARY, shape),
            torch.ones(shape, dtype=torch.long),
            torch.randint(3, (1,)),
        )
    )
    return Training(train_step, data, {"model": model, "optimizer": optimizer})


@step("models")
def gpt2() -> Training:
    """Two layers that learn to tell the next token, with dropout at three places."""
    from transformers import GPT2Config, GPT2LMHeadModel

    sizes = {"vocab_size": 256, "n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 64}
    model = GPT2LMHeadModel(GPT2Config(bos_token_id=1, eos_token_id=2, **sizes)).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, weight_decay=0.1)

    def train_step(ids: Tensor) -> float:
        optimizer.zero_grad(set_to_none=True)
        loss = model(ids, labels=ids).loss
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss.item()

    return Training(
        train_step, batches(lambda: (torch.randint(256, (2, 32)),)), {"model": model, "optimizer": optimizer}
    )


# --- pictures ---------------------------------------------------------------------------------


class BasicBlock(nn.Module):
    def __init__(self, inner: int, outer: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inner, outer, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outer)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(outer, outer, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outer)
        self.downsample = None
        if stride != 1 or inner != outer:
            self.downsample = nn.Sequential(nn.Conv2d(inner, outer, 1, stride, bias=False), nn.BatchNorm2d(outer))

    def forward(self, x: Tensor) -> Tensor:
        identity = x
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        if self.downsample is not None:
            identity = self.downsample(x)
        out += identity
        return self.relu(out)


class ResNet(nn.Module):
    """As torchvision has it, whose operators need not be there."""

    def __init__(self, layers: tuple[int, ...], num_classes: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(3, 2, 1)
        inner = 64
        for number, count in enumerate(layers):
            outer = 64 << number
            blocks = [BasicBlock(inner, outer, 2 if number else 1)]
            blocks += [BasicBlock(outer, outer, 1) for _ in range(1, count)]
            setattr(self, f"layer{number + 1}", nn.Sequential(*blocks))
            inner = outer
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.fc = nn.Linear(inner, num_classes)

    def forward(self, x: Tensor) -> Tensor:
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(torch.flatten(self.avgpool(x), 1))


@step("models")
def resnet18() -> Training:
    """Batch norm in training mode, 32x32, batch 2."""
    model = ResNet((2, 2, 2, 2), 10).train()
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2, momentum=0.9, weight_decay=5e-4)

    def train_step(images: Tensor, targets: Tensor) -> tuple[float, int]:
        optimizer.zero_grad()
        outputs = model(images)
        loss = criterion(outputs, targets)
        loss.backward()
        optimizer.step()
        _, predicted = outputs.max(1)
        return loss.item(), predicted.eq(targets).sum().item()

    data = batches(lambda: (torch.randn(2, 3, 32, 32), torch.randint(10, (2,))))
    return Training(train_step, data, {"model": model, "optimizer": optimizer})


@step("models")
def gan() -> Training:
    """The discriminator on real and fake pictures, then the generator: two optimizers, three backward passes."""
    latent, width = 16, 8
    generator = nn.Sequential(
        nn.ConvTranspose2d(latent, 2 * width, 4, 1, 0, bias=False),
        nn.BatchNorm2d(2 * width),
        nn.ReLU(True),
        nn.ConvTranspose2d(2 * width, width, 4, 2, 1, bias=False),
        nn.BatchNorm2d(width),
        nn.ReLU(True),
        nn.ConvTranspose2d(width, 1, 4, 2, 1, bias=False),
        nn.Tanh(),
    )
    discriminator = nn.Sequential(
        nn.Conv2d(1, width, 4, 2, 1, bias=False),
        nn.LeakyReLU(0.2, inplace=True),
        nn.Conv2d(width, 2 * width, 4, 2, 1, bias=False),
        nn.BatchNorm2d(2 * width),
        nn.LeakyReLU(0.2, inplace=True),
        nn.Conv2d(2 * width, 1, 4, 1, 0, bias=False),
        nn.Flatten(0),
        nn.Sigmoid(),
    )
    criterion = nn.BCELoss()
    optimizer_d = torch.optim.Adam(discriminator.parameters(), lr=2e-4, betas=(0.5, 0.999))
    optimizer_g = torch.optim.Adam(generator.parameters(), lr=2e-4, betas=(0.5, 0.999))

    def train_step(real: Tensor) -> tuple[float, float, float]:
        discriminator.zero_grad()
        label = torch.full((real.size(0),), 1.0)
        loss_real = criterion(discriminator(real), label)
        loss_real.backward()
        fake = generator(torch.randn(real.size(0), latent, 1, 1))
        label.fill_(0.0)
        output = discriminator(fake.detach())
        loss_fake = criterion(output, label)
        loss_fake.backward()
        optimizer_d.step()
        generator.zero_grad()
        label.fill_(1.0)
        loss_g = criterion(discriminator(fake), label)
        loss_g.backward()
        optimizer_g.step()
        return (loss_real + loss_fake).item(), loss_g.item(), output.mean().item()

    state = {
        "generator": generator,
        "discriminator": discriminator,
        "optimizer_d": optimizer_d,
        "optimizer_g": optimizer_g,
    }
    return Training(train_step, batches(lambda: (torch.rand(4, 1, 16, 16) * 2 - 1,)), state)


class ResBlock(nn.Module):
    def __init__(self, inner: int, outer: int, embedded: int) -> None:
        super().__init__()
        self.norm1, self.conv1 = nn.GroupNorm(4, inner), nn.Conv2d(inner, outer, 3, padding=1)
        self.time = nn.Linear(embedded, outer)
        self.norm2, self.conv2 = nn.GroupNorm(4, outer), nn.Conv2d(outer, outer, 3, padding=1)
        self.skip = nn.Conv2d(inner, outer, 1) if inner != outer else nn.Identity()

    def forward(self, x: Tensor, t: Tensor) -> Tensor:
        h = self.conv1(F.silu(self.norm1(x)))
        h = h + self.time(F.silu(t))[:, :, None, None]
        return self.conv2(F.silu(self.norm2(h))) + self.skip(x)


class UNet(nn.Module):
    """Two levels, one block each, and skip connections."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.width = width
        self.embed = nn.Sequential(nn.Linear(width, 4 * width), nn.SiLU(), nn.Linear(4 * width, 4 * width))
        self.first = nn.Conv2d(1, width, 3, padding=1)
        widths = [width, 2 * width]
        self.downs, self.ups, self.shrinks = nn.ModuleList(), nn.ModuleList(), nn.ModuleList()
        for inner, outer in zip([width, *widths], widths, strict=False):
            self.downs.append(ResBlock(inner, outer, 4 * width))
            self.shrinks.append(nn.Conv2d(outer, outer, 3, stride=2, padding=1))
        self.middle = ResBlock(2 * width, 2 * width, 4 * width)
        for inner, outer in ((2 * width, width), (width, width)):
            self.ups.append(ResBlock(inner + (2 * width if not self.ups else width), outer, 4 * width))
        self.last = nn.Sequential(nn.GroupNorm(4, width), nn.SiLU(), nn.Conv2d(width, 1, 3, padding=1))

    def embedding(self, t: Tensor) -> Tensor:
        half = self.width // 2
        rates = torch.exp(-math.log(10000) * torch.arange(half, dtype=torch.float32) / half)
        angles = t[:, None].float() * rates[None]
        return torch.cat((angles.sin(), angles.cos()), dim=-1)

    def forward(self, x: Tensor, t: Tensor) -> Tensor:
        embedded = self.embed(self.embedding(t))
        h = self.first(x)
        skips = []
        for down, shrink in zip(self.downs, self.shrinks, strict=True):
            h = down(h, embedded)
            skips.append(h)
            h = shrink(h)
        h = self.middle(h, embedded)
        for up in self.ups:
            h = F.interpolate(h, scale_factor=2, mode="nearest")
            h = up(torch.cat((h, skips.pop()), dim=1), embedded)
        return self.last(h)


@step("models")
def ddpm() -> Training:
    """A tiny U-Net learns to tell the noise that was added to pictures of 16x16, batch 4."""
    model = UNet(8)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-4)
    timesteps = 100
    alphas_bar = torch.cumprod(1 - torch.linspace(1e-4, 0.02, timesteps), dim=0)

    def train_step(clean: Tensor) -> float:
        t = torch.randint(0, timesteps, (clean.shape[0],))
        noise = torch.randn_like(clean)
        kept = alphas_bar[t].view(-1, 1, 1, 1)
        noisy = kept.sqrt() * clean + (1 - kept).sqrt() * noise
        loss = F.mse_loss(model(noisy, t), noise)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item()

    return Training(train_step, batches(lambda: (torch.randn(4, 1, 16, 16),)), {"model": model, "optimizer": optimizer})


# --- sequences, graphs, equations -------------------------------------------------------------


class Recurrent(nn.Module):
    def __init__(self, features: int, hidden: int, classes: int) -> None:
        super().__init__()
        self.hidden = hidden
        self.cell = nn.LSTMCell(features, hidden)
        self.head = nn.Linear(hidden, classes)

    def forward(self, x: Tensor) -> Tensor:
        h = torch.zeros(x.size(0), self.hidden)
        c = torch.zeros(x.size(0), self.hidden)
        for t in range(x.size(1)):
            h, c = self.cell(x[:, t], (h, c))
        return self.head(h)


@step("models")
def lstm() -> Training:
    """A cell in a loop over 50 steps, batch 4."""
    model = Recurrent(8, 32, 4)
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

    def train_step(x: Tensor, y: Tensor) -> float:
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss.item()

    data = batches(lambda: (torch.randn(4, 50, 8), torch.randint(4, (4,))))
    return Training(train_step, data, {"model": model, "optimizer": optimizer})


class GCNConv(nn.Module):
    def __init__(self, inner: int, outer: int) -> None:
        super().__init__()
        self.linear = nn.Linear(inner, outer, bias=False)
        self.bias = nn.Parameter(torch.zeros(outer))

    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        source, target = edges
        degree = torch.zeros(x.size(0)).index_add_(0, target, torch.ones(target.size(0)))
        scale = degree.clamp(min=1).pow(-0.5)
        messages = self.linear(x)[source] * (scale[source] * scale[target])[:, None]
        return torch.zeros(x.size(0), messages.size(1)).index_add_(0, target, messages) + self.bias


class GCN(nn.Module):
    def __init__(self, features: int, hidden: int, classes: int) -> None:
        super().__init__()
        self.conv1, self.conv2 = GCNConv(features, hidden), GCNConv(hidden, classes)

    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        x = F.dropout(F.relu(self.conv1(x, edges)), p=0.5, training=self.training)
        return F.log_softmax(self.conv2(x, edges), dim=1)


@step("models")
def gcn() -> Training:
    """200 nodes, 1,000 edges and the loops of nodes on themselves; a mask says who is learned from."""
    nodes, classes = 200, 4
    model = GCN(16, 16, classes)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
    itself = torch.arange(nodes)
    edges = torch.cat((torch.randint(nodes, (2, 1000)), torch.stack((itself, itself))), dim=1)
    x, y, mask = torch.randn(nodes, 16), torch.randint(classes, (nodes,)), torch.rand(nodes) < 0.3

    def train_step() -> float:
        model.train()
        optimizer.zero_grad()
        out = model(x, edges)
        loss = F.nll_loss(out[mask], y[mask])
        loss.backward()
        optimizer.step()
        return float(loss)

    return Training(train_step, [()], {"model": model, "optimizer": optimizer})


class ODEFunc(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 2))

    def forward(self, t: Tensor, y: Tensor) -> Tensor:
        return self.net(y**3)


def rk4(func: nn.Module, y: Tensor, t: Tensor) -> Tensor:
    """The solution at all times."""
    found = [y]
    for i in range(len(t) - 1):
        dt = t[i + 1] - t[i]
        k1 = func(t[i], y)
        k2 = func(t[i] + dt / 2, y + dt / 2 * k1)
        k3 = func(t[i] + dt / 2, y + dt / 2 * k2)
        k4 = func(t[i + 1], y + dt * k3)
        y = y + dt / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        found.append(y)
    return torch.stack(found)


@step("models")
def neural_ode() -> Training:
    """A spiral, ten times, Runge-Kutta of order four by hand."""
    func = ODEFunc()
    optimizer = torch.optim.RMSprop(func.parameters(), lr=1e-3)
    t = torch.linspace(0.0, 0.5, 10)

    def train_step(y0: Tensor, target: Tensor) -> float:
        optimizer.zero_grad()
        predicted = rk4(func, y0, t)
        loss = torch.mean(torch.abs(predicted - target))
        loss.backward()
        optimizer.step()
        return loss.item()

    return Training(
        train_step,
        batches(lambda: (torch.randn(16, 2), torch.randn(10, 16, 2))),
        {"func": func, "optimizer": optimizer},
    )


# --- agents -----------------------------------------------------------------------------------


def network(inner: int, outer: int, act: type[nn.Module]) -> nn.Sequential:
    """Two hidden layers of 64."""
    return nn.Sequential(nn.Linear(inner, 64), act(), nn.Linear(64, 64), act(), nn.Linear(64, outer))


class Agent(nn.Module):
    def __init__(self, observed: int, actions: int) -> None:
        super().__init__()
        self.critic, self.actor = network(observed, 1, nn.Tanh), network(observed, actions, nn.Tanh)

    def evaluate(self, obs: Tensor, action: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        probs = torch.distributions.Categorical(logits=self.actor(obs))
        return probs.log_prob(action), probs.entropy(), self.critic(obs).squeeze(-1)


@step("models")
def ppo() -> Training:
    """The clipped objective, four epochs over a batch of 64, with what is logged of it."""
    agent = Agent(8, 4)
    optimizer = torch.optim.Adam(agent.parameters(), lr=2.5e-4, eps=1e-5)
    clip, epochs = 0.2, 4

    def update(obs: Tensor, actions: Tensor, logprobs: Tensor, advantages: Tensor, returns: Tensor) -> dict[str, Any]:
        clipfracs = []
        for _ in range(epochs):
            newlogprob, entropy, value = agent.evaluate(obs, actions)
            logratio = newlogprob - logprobs
            ratio = logratio.exp()
            with torch.no_grad():
                approx_kl = ((ratio - 1) - logratio).mean()
                clipfracs.append(((ratio - 1.0).abs() > clip).float().mean().item())
            normed = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
            pg_loss = torch.max(-normed * ratio, -normed * torch.clamp(ratio, 1 - clip, 1 + clip)).mean()
            v_loss = 0.5 * ((value - returns) ** 2).mean()
            loss = pg_loss - 0.01 * entropy.mean() + 0.5 * v_loss
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
            optimizer.step()
        return {
            "policy": pg_loss.item(),
            "value": v_loss.item(),
            "kl": approx_kl.item(),
            "clipped": sum(clipfracs) / len(clipfracs),
        }

    def draw() -> tuple[Tensor, ...]:
        return (
            torch.randn(64, 8),
            torch.randint(4, (64,)),
            -1.4 + 0.1 * torch.randn(64),
            torch.randn(64),
            torch.randn(64),
        )

    return Training(update, batches(draw), {"agent": agent, "optimizer": optimizer})


class SoftQ(nn.Module):
    def __init__(self, observed: int, actions: int) -> None:
        super().__init__()
        self.net = network(observed + actions, 1, nn.ReLU)

    def forward(self, x: Tensor, a: Tensor) -> Tensor:
        return self.net(torch.cat([x, a], 1))


class Actor(nn.Module):
    """A squashed Gaussian."""

    def __init__(self, observed: int, actions: int) -> None:
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(observed, 64), nn.Linear(64, 64)
        self.fc_mean, self.fc_logstd = nn.Linear(64, actions), nn.Linear(64, actions)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        x = F.relu(self.fc2(F.relu(self.fc1(x))))
        log_std = torch.tanh(self.fc_logstd(x))
        return self.fc_mean(x), -5 + 0.5 * 7 * (log_std + 1)

    def get_action(self, x: Tensor) -> tuple[Tensor, Tensor]:
        mean, log_std = self(x)
        normal = torch.distributions.Normal(mean, log_std.exp())
        x_t = normal.rsample()
        action = torch.tanh(x_t)
        log_prob = normal.log_prob(x_t) - torch.log(1 - action.pow(2) + 1e-6)
        return action, log_prob.sum(1, keepdim=True)


@step("models")
def sac() -> Training:
    """Two critics, an actor, the temperature, and targets that follow slowly: three optimizers, batch 64."""
    observed, actions, gamma, tau = 8, 2, 0.99, 0.005
    actor, qf1, qf2 = Actor(observed, actions), SoftQ(observed, actions), SoftQ(observed, actions)
    qf1_target, qf2_target = copy.deepcopy(qf1), copy.deepcopy(qf2)
    q_optimizer = torch.optim.Adam([*qf1.parameters(), *qf2.parameters()], lr=1e-3)
    actor_optimizer = torch.optim.Adam(actor.parameters(), lr=3e-4)
    log_alpha = torch.zeros(1, requires_grad=True)
    a_optimizer = torch.optim.Adam([log_alpha], lr=1e-3)

    def update(obs: Tensor, taken: Tensor, rewards: Tensor, next_obs: Tensor, dones: Tensor) -> tuple[float, ...]:
        alpha = log_alpha.exp().item()
        with torch.no_grad():
            next_actions, next_log_pi = actor.get_action(next_obs)
            lower = torch.min(qf1_target(next_obs, next_actions), qf2_target(next_obs, next_actions))
            next_q = rewards + (1 - dones) * gamma * (lower - alpha * next_log_pi).view(-1)
        qf1_loss = F.mse_loss(qf1(obs, taken).view(-1), next_q)
        qf2_loss = F.mse_loss(qf2(obs, taken).view(-1), next_q)
        qf_loss = qf1_loss + qf2_loss
        q_optimizer.zero_grad()
        qf_loss.backward()
        q_optimizer.step()

        pi, log_pi = actor.get_action(obs)
        actor_loss = (alpha * log_pi - torch.min(qf1(obs, pi), qf2(obs, pi))).mean()
        actor_optimizer.zero_grad()
        actor_loss.backward()
        actor_optimizer.step()

        with torch.no_grad():
            _, log_pi = actor.get_action(obs)
        alpha_loss = (-log_alpha.exp() * (log_pi - actions)).mean()
        a_optimizer.zero_grad()
        alpha_loss.backward()
        a_optimizer.step()

        for net, target in ((qf1, qf1_target), (qf2, qf2_target)):
            for param, target_param in zip(net.parameters(), target.parameters(), strict=True):
                target_param.data.copy_(tau * param.data + (1 - tau) * target_param.data)
        return qf_loss.item(), actor_loss.item(), alpha_loss.item()

    def draw() -> tuple[Tensor, ...]:
        acted = torch.rand(64, actions) * 2 - 1
        return (
            torch.randn(64, observed),
            acted,
            torch.randn(64),
            torch.randn(64, observed),
            (torch.rand(64) < 0.1).float(),
        )

    state = {
        "nets": [actor, qf1, qf2, qf1_target, qf2_target],
        "log_alpha": log_alpha,
        "optimizers": [q_optimizer, actor_optimizer, a_optimizer],
    }
    return Training(update, batches(draw), state)

"""PPO in one file as CleanRL writes it, with an environment of its own: rollouts on the device, GAE, clipped updates.

By hand for the CPU:
    torch.device("cuda" if torch.cuda.is_available() and args.cuda else "cpu") -> torch.device("cpu")
    print("cuda:", torch.cuda.is_available()) -> print("cuda:", True)
"""

import random
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn as nn
import torch.optim as optim
from torch.distributions.categorical import Categorical


@dataclass
class Args:
    seed: int = 1
    torch_deterministic: bool = True
    cuda: bool = True
    learning_rate: float = 2.5e-3
    num_envs: int = 4
    num_steps: int = 32
    gamma: float = 0.99
    gae_lambda: float = 0.95
    num_minibatches: int = 4
    update_epochs: int = 2
    clip_coef: float = 0.2
    ent_coef: float = 0.01
    vf_coef: float = 0.5
    max_grad_norm: float = 0.5
    num_iterations: int = 4


class Corridor:
    """Walk to the right end; each row is an environment."""

    def __init__(self, n, length=8):
        self.n, self.length = n, length

    def reset(self, seed):
        self.rng = np.random.default_rng(seed)
        self.at = self.rng.integers(0, self.length // 2, self.n)
        self.t = np.zeros(self.n, dtype=int)
        return self._obs()

    def _obs(self):
        return np.stack([self.at / self.length, self.t / 20, np.ones(self.n)], axis=1).astype(np.float32)

    def step(self, action):
        self.at, self.t = np.clip(self.at + 2 * action - 1, 0, self.length), self.t + 1
        reward = (self.at == self.length).astype(np.float32) - 0.01
        done = (self.at == self.length) | (self.t >= 20)
        self.at = np.where(done, self.rng.integers(0, self.length // 2, self.n), self.at)
        self.t = np.where(done, 0, self.t)
        return self._obs(), reward, done


def layer_init(layer, std=np.sqrt(2), bias_const=0.0):
    torch.nn.init.orthogonal_(layer.weight, std)
    torch.nn.init.constant_(layer.bias, bias_const)
    return layer


class Agent(nn.Module):
    def __init__(self):
        super().__init__()
        self.critic = nn.Sequential(layer_init(nn.Linear(3, 32)), nn.Tanh(), layer_init(nn.Linear(32, 1), std=1.0))
        self.actor = nn.Sequential(layer_init(nn.Linear(3, 32)), nn.Tanh(), layer_init(nn.Linear(32, 2), std=0.01))

    def get_value(self, x):
        return self.critic(x)

    def get_action_and_value(self, x, action=None):
        probs = Categorical(logits=self.actor(x))
        if action is None:
            action = probs.sample()
        return action, probs.log_prob(action), probs.entropy(), self.critic(x)


args = Args()
random.seed(args.seed)
np.random.seed(args.seed)
torch.manual_seed(args.seed)
torch.backends.cudnn.deterministic = args.torch_deterministic
device = torch.device("cuda" if torch.cuda.is_available() and args.cuda else "cpu")
print("cuda:", torch.cuda.is_available())
envs = Corridor(args.num_envs)
agent = Agent().to(device)
optimizer = optim.Adam(agent.parameters(), lr=args.learning_rate, eps=1e-5)
obs = torch.zeros((args.num_steps, args.num_envs, 3)).to(device)
actions = torch.zeros((args.num_steps, args.num_envs)).to(device)
logprobs = torch.zeros((args.num_steps, args.num_envs)).to(device)
rewards = torch.zeros((args.num_steps, args.num_envs)).to(device)
dones = torch.zeros((args.num_steps, args.num_envs)).to(device)
values = torch.zeros((args.num_steps, args.num_envs)).to(device)
next_obs = torch.Tensor(envs.reset(seed=args.seed)).to(device)
next_done = torch.zeros(args.num_envs).to(device)
batch_size = args.num_envs * args.num_steps

for iteration in range(1, args.num_iterations + 1):
    optimizer.param_groups[0]["lr"] = (1.0 - (iteration - 1.0) / args.num_iterations) * args.learning_rate
    for step in range(args.num_steps):
        obs[step], dones[step] = next_obs, next_done
        with torch.no_grad():
            action, logprob, _, value = agent.get_action_and_value(next_obs)
            values[step] = value.flatten()
        actions[step], logprobs[step] = action, logprob
        next_obs, reward, next_done = envs.step(action.cpu().numpy())
        rewards[step] = torch.tensor(reward).to(device).view(-1)
        next_obs, next_done = torch.Tensor(next_obs).to(device), torch.Tensor(next_done).to(device)
    with torch.no_grad():
        next_value = agent.get_value(next_obs).reshape(1, -1)
        advantages = torch.zeros_like(rewards).to(device)
        lastgaelam = 0
        for t in reversed(range(args.num_steps)):
            nonterminal = 1.0 - (next_done if t == args.num_steps - 1 else dones[t + 1])
            nextvalues = next_value if t == args.num_steps - 1 else values[t + 1]
            delta = rewards[t] + args.gamma * nextvalues * nonterminal - values[t]
            advantages[t] = lastgaelam = delta + args.gamma * args.gae_lambda * nonterminal * lastgaelam
        returns = advantages + values
    b_obs, b_logprobs, b_actions = obs.reshape(-1, 3), logprobs.reshape(-1), actions.reshape(-1)
    b_advantages, b_returns = advantages.reshape(-1), returns.reshape(-1)
    b_inds = np.arange(batch_size)
    for _ in range(args.update_epochs):
        np.random.shuffle(b_inds)
        for start in range(0, batch_size, batch_size // args.num_minibatches):
            mb = b_inds[start : start + batch_size // args.num_minibatches]
            _, newlogprob, entropy, newvalue = agent.get_action_and_value(b_obs[mb], b_actions.long()[mb])
            ratio = (newlogprob - b_logprobs[mb]).exp()
            adv = (b_advantages[mb] - b_advantages[mb].mean()) / (b_advantages[mb].std() + 1e-8)
            pg_loss = torch.max(-adv * ratio, -adv * torch.clamp(ratio, 1 - args.clip_coef, 1 + args.clip_coef)).mean()
            v_loss = 0.5 * ((newvalue.view(-1) - b_returns[mb]) ** 2).mean()
            loss = pg_loss - args.ent_coef * entropy.mean() + v_loss * args.vf_coef
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(agent.parameters(), args.max_grad_norm)
            optimizer.step()
    y_pred, y_true = values.reshape(-1).cpu().numpy(), b_returns.cpu().numpy()
    explained = 1 - np.var(y_true - y_pred) / np.var(y_true)
    print(
        iteration,
        f"value {v_loss.item():.6f} policy {pg_loss.item():.6f} explained {explained:.4f}",
        rewards.sum().item(),
    )

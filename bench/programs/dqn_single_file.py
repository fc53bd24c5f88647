"""DQN in a single file: an argument table, epsilon that falls, a buffer in NumPy, soft updates of a target."""

import copy
import random
from dataclasses import dataclass

import gymnasium as gym
import numpy as np
import torch
from _common import finish, place, scaled, start
from torch import nn, optim
from torch.nn import functional as F


@dataclass
class Args:
    env_id: str = "CartPole-v1"
    seed: int = 1
    total_timesteps: int = scaled(4000)
    learning_rate: float = 1e-3
    buffer_size: int = 2000
    gamma: float = 0.99
    tau: float = 0.1
    target_frequency: int = 20
    batch_size: int = 32
    learning_starts: int = 100
    train_frequency: int = 2


class QNetwork(nn.Module):
    def __init__(self, env):
        super().__init__()
        self.network = nn.Sequential(
            nn.Linear(env.observation_space.shape[0], 40), nn.ReLU(), nn.Linear(40, 24), nn.ReLU(),
            nn.Linear(24, env.action_space.n),
        )  # fmt: skip

    def forward(self, x):
        return self.network(x)


class Buffer:
    def __init__(self, size, width, seed):
        self.obs, self.next_obs = np.zeros((size, width), np.float32), np.zeros((size, width), np.float32)
        self.actions, self.rewards = np.zeros((size, 1), np.int64), np.zeros(size, np.float32)
        self.dones = np.zeros(size, np.float32)
        self.size, self.at, self.full = size, 0, False
        self.rng = np.random.default_rng(seed)

    def add(self, obs, next_obs, action, reward, done):
        at = self.at
        self.obs[at], self.next_obs[at], self.actions[at], self.rewards[at] = obs, next_obs, action, reward
        self.dones[at] = done
        self.at = (at + 1) % self.size
        self.full = self.full or self.at == 0

    def sample(self, count):
        rows = self.rng.integers(0, self.size if self.full else self.at, count)
        parts = (self.obs, self.next_obs, self.actions, self.rewards, self.dones)
        return [torch.as_tensor(part[rows]) for part in parts]


def linear_schedule(begin, end, duration, t):
    return max((end - begin) / duration * t + begin, end)


if __name__ == "__main__":
    args = Args()
    random.seed(args.seed)
    torch.manual_seed(args.seed)
    env = gym.wrappers.RecordEpisodeStatistics(gym.make(args.env_id))
    q_network = place(QNetwork(env))
    optimizer = optim.Adam(q_network.parameters(), lr=args.learning_rate)
    target_network = copy.deepcopy(q_network)
    buffer = Buffer(args.buffer_size, env.observation_space.shape[0], args.seed)
    env.action_space.seed(args.seed)
    obs, _ = env.reset(seed=args.seed)
    start()
    for step in range(args.total_timesteps):
        epsilon = linear_schedule(1.0, 0.05, 0.4 * args.total_timesteps, step)
        if random.random() < epsilon:
            action = env.action_space.sample()
        else:
            action = int(torch.argmax(q_network(torch.Tensor(obs))).item())
        next_obs, reward, terminated, truncated, info = env.step(action)
        buffer.add(obs, next_obs, action, reward, terminated)
        obs = next_obs
        if terminated or truncated:
            if int(info["episode"]["l"]) > 40:
                print(f"step {step}: return {float(info['episode']['r'])!r}")
            obs, _ = env.reset()
        if step > args.learning_starts and step % args.train_frequency == 0:
            data, next_data, actions, rewards, dones = buffer.sample(args.batch_size)
            with torch.no_grad():
                target_max, _ = target_network(next_data).max(dim=1)
                td_target = rewards + args.gamma * target_max * (1 - dones)
            old_val = q_network(data).gather(1, actions).squeeze()
            loss = F.mse_loss(td_target, old_val)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if step % args.target_frequency == 0:
                for target, param in zip(target_network.parameters(), q_network.parameters(), strict=True):
                    target.data.copy_(args.tau * param.data + (1.0 - args.tau) * target.data)
            if step % 500 == 0:
                print(step, repr(loss.item()), repr(old_val.mean().item()))
    finish(q_network)

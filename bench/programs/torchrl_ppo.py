"""PPO with torchrl: an actor over tensordicts, an environment with transforms, advantages, a clipped loss."""

import torch
from _common import finish, place, scaled, start
from tensordict.nn import TensorDictModule
from torch import nn
from torch.distributions import Categorical
from torchrl.envs import GymEnv, StepCounter, TransformedEnv
from torchrl.modules import ProbabilisticActor, ValueOperator
from torchrl.objectives import ClipPPOLoss
from torchrl.objectives.value import GAE


def build():
    body = nn.Sequential(nn.Linear(4, 24), nn.Tanh(), nn.Linear(24, 2))
    actor = ProbabilisticActor(
        TensorDictModule(body, in_keys=["observation"], out_keys=["logits"]),
        in_keys=["logits"],
        distribution_class=Categorical,
        return_log_prob=True,
    )
    value = nn.Sequential(nn.Linear(4, 24), nn.Tanh(), nn.Linear(24, 1))
    return actor, ValueOperator(value, in_keys=["observation"])


def main():
    torch.manual_seed(50)
    env = TransformedEnv(GymEnv("CartPole-v1", categorical_action_encoding=True), StepCounter(max_steps=60))
    env.set_seed(50)
    actor, value = build()
    place(actor)
    advantage = GAE(gamma=0.99, lmbda=0.95, value_network=value, average_gae=True)
    loss_module = ClipPPOLoss(actor, value, clip_epsilon=0.2, entropy_coeff=0.01)
    optimizer = torch.optim.Adam(loss_module.parameters(), lr=3e-3)
    start()
    for turn in range(scaled(49)):
        with torch.no_grad():
            rollout = env.rollout(60, actor, break_when_any_done=True)
        for _ in range(3):
            advantage(rollout)
            losses = loss_module(rollout)
            loss = losses["loss_objective"] + losses["loss_critic"] + losses["loss_entropy"]
            loss.backward()
            torch.nn.utils.clip_grad_norm_(loss_module.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
        print(turn, rollout.batch_size[0], repr(loss.item()), repr(rollout["next", "reward"].sum().item()))
    finish(loss_module)


if __name__ == "__main__":
    main()

"""DQN of stable-baselines3 on CartPole: a replay buffer, a target network, an evaluation."""

import gymnasium as gym
from _common import place
from _sb3 import learn
from stable_baselines3 import DQN


def main():
    env = gym.make("CartPole-v1")
    options = {"policy_kwargs": {"net_arch": [32, 32]}, "seed": 5, "device": "cpu", "verbose": 0}
    model = DQN(
        "MlpPolicy",
        env,
        learning_rate=1e-3,
        buffer_size=5000,
        learning_starts=200,
        train_freq=2,
        target_update_interval=200,
        exploration_fraction=0.3,
        **options,
    )
    model.policy.q_net = place(model.policy.q_net)
    learn(model, 4500, 3)


if __name__ == "__main__":
    main()

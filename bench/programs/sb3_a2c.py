"""A2C of stable-baselines3 on CartPole with a callback that keeps rewards, and an evaluation."""

import gymnasium as gym
from _common import place
from _sb3 import learn
from stable_baselines3 import A2C


def main():
    env = gym.make("CartPole-v1")
    options = {"policy_kwargs": {"net_arch": [32, 32]}, "seed": 5, "device": "cpu", "verbose": 0}
    model = A2C(
        "MlpPolicy", env, learning_rate=2e-3, n_steps=8, gamma=0.98, ent_coef=0.01, use_rms_prop=False, **options
    )
    model.policy = place(model.policy)
    learn(model, 3500, 2)


if __name__ == "__main__":
    main()

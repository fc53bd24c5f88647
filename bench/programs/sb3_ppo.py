"""PPO of stable-baselines3 on CartPole: rollouts, epochs of clipped updates, an evaluation."""

import gymnasium as gym
from _common import place
from _sb3 import learn
from stable_baselines3 import PPO


def main():
    env = gym.make("CartPole-v1")
    options = {"policy_kwargs": {"net_arch": [32, 32]}, "seed": 5, "device": "cpu", "verbose": 0}
    model = PPO(
        "MlpPolicy",
        env,
        learning_rate=1e-3,
        n_steps=128,
        batch_size=32,
        n_epochs=6,
        gamma=0.98,
        ent_coef=0.01,
        **options,
    )
    model.policy = place(model.policy)
    learn(model, 2500, 2)


if __name__ == "__main__":
    main()

"""DQN of stable-baselines3 on CartPole: a replay buffer, a target network, an evaluation."""

import gymnasium as gym
from _common import finish, place, scaled, start
from stable_baselines3 import DQN
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.evaluation import evaluate_policy


class KeepRewards(BaseCallback):
    def __init__(self):
        super().__init__()
        self.rewards = []

    def _on_step(self):
        for info in self.locals["infos"]:
            if "episode" in info:
                self.rewards.append(float(info["episode"]["r"]))
        return True


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
    kept = KeepRewards()
    start()
    model.learn(total_timesteps=scaled(4500), callback=kept)
    mean, deviation = evaluate_policy(model, model.get_env(), n_eval_episodes=scaled(3), warn=False)
    print(len(kept.rewards), kept.rewards[-10:], repr(float(mean)), repr(float(deviation)))
    finish(model.policy)


if __name__ == "__main__":
    main()

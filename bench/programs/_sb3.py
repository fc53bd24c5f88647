"""What agents of stable-baselines3 share: training with a callback, an evaluation, what is printed of both."""

from _common import finish, scaled, start
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


def learn(model, steps, episodes):
    """So many steps of training, and episodes of evaluation, at scale 1."""
    kept = KeepRewards()
    start()
    model.learn(total_timesteps=scaled(steps), callback=kept)
    mean, deviation = evaluate_policy(model, model.get_env(), n_eval_episodes=scaled(episodes), warn=False)
    print(len(kept.rewards), kept.rewards[-10:], repr(float(mean)), repr(float(deviation)))
    finish(model.policy)

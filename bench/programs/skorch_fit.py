"""A classifier of skorch in a pipeline and a grid search of scikit-learn."""

import numpy as np
import torch
from _common import finish, place, scaled, start
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from skorch import NeuralNetClassifier
from skorch.callbacks import EpochScoring
from torch import nn


class ClassifierModule(nn.Module):
    def __init__(self, num_units=16, dropout=0.1):
        super().__init__()
        self.dense0, self.dense1 = nn.Linear(10, num_units), nn.Linear(num_units, 8)
        self.nonlin, self.dropout = nn.ReLU(), nn.Dropout(dropout)
        self.output = nn.Linear(8, 2)

    def forward(self, X):
        X = self.dropout(self.nonlin(self.dense0(X)))
        X = self.nonlin(self.dense1(X))
        return torch.softmax(self.output(X), dim=-1)


ClassifierModule.forward = place(ClassifierModule.forward)


def main():
    torch.manual_seed(36)
    rng = np.random.default_rng(36)
    X = rng.normal(size=(320, 10)).astype(np.float32)
    y = ((X[:, 0] * X[:, 1] + X[:, 2]) > 0).astype(np.int64)
    scoring = EpochScoring("roc_auc", name="auc", lower_is_better=False)
    net = NeuralNetClassifier(
        ClassifierModule, max_epochs=scaled(26), lr=0.1, batch_size=16, verbose=0, callbacks=[scoring],
        iterator_train__shuffle=True, optimizer__momentum=0.9,
    )  # fmt: skip
    pipe = Pipeline([("scale", StandardScaler()), ("net", net)])
    search = GridSearchCV(pipe, {"net__module__num_units": [8, 24]}, cv=2, scoring="accuracy")
    start()
    search.fit(X, y)
    best = search.best_estimator_.named_steps["net"]
    print(repr(float(search.best_score_)), search.best_params_)
    for row in best.history:
        print(row["epoch"], repr(row["train_loss"]), repr(row["valid_loss"]), repr(float(row["auc"])))
    finish(best.module_)


if __name__ == "__main__":
    main()

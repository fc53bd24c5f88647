"""A notebook as a script: NumPy, folds, a seed for everything, `.cuda()` all over, averaged predictions.

By hand for the CPU:
    DEVICE = "cuda" -> DEVICE = "cpu"
    .cuda() -> .float()
    torch.cuda.manual_seed(seed) -> torch.manual_seed(seed)
    torch.cuda.manual_seed_all(seed) -> torch.manual_seed(seed)
    print(torch.cuda.get_device_name(0), torch.cuda.device_count()) -> print("cpu 1")
    torch.cuda.empty_cache() -> pass
    map_location="cuda:0" -> map_location="cpu"
    torch.autocast("cuda", dtype=torch.bfloat16) -> torch.autocast("cpu", dtype=torch.bfloat16)
    torch.cuda.FloatTensor([0.3, 0.7]) -> torch.FloatTensor([0.3, 0.7])
"""

# %% [markdown] # Setup
import gc
import os
import random

import numpy as np
import torch
import torch.nn as nn

DEVICE = "cuda"
print(torch.cuda.get_device_name(0), torch.cuda.device_count())


def seed_everything(seed=42):
    random.seed(seed)
    os.environ["PYTHONHASHSEED"] = str(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)
    torch.cuda.manual_seed(seed)
    torch.cuda.manual_seed_all(seed)
    torch.backends.cudnn.deterministic = True


seed_everything()

# %% data
X = np.random.randn(120, 6).astype(np.float32)
X[np.random.rand(*X.shape) < 0.05] = np.nan
y = (np.nansum(X[:, :3], axis=1) > 0).astype(np.int64)
X_test = np.random.randn(20, 6).astype(np.float32)
medians = np.nanmedian(X, axis=0)
X = np.where(np.isnan(X), medians, X)
mean, std = X.mean(0), X.std(0)
X, X_test = (X - mean) / std, (X_test - mean) / std


# %% model
class TabModel(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(n, 32), nn.BatchNorm1d(32), nn.PReLU(), nn.Dropout(0.2), nn.Linear(32, 2))

    def forward(self, x):
        return self.net(x)


def train_fn(model, optimizer, scheduler, criterion, X, y):
    model.train()
    losses = []
    order = np.random.permutation(len(X))
    for start in range(0, len(X), 16):
        idx = order[start : start + 16]
        xb, yb = torch.from_numpy(X[idx]).cuda(), torch.tensor(y[idx], device=DEVICE)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            out = model(xb)
        loss = criterion(out.float(), yb)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
        losses.append(loss.item())
    return np.mean(losses)


def infer(model, X):
    model.eval()
    with torch.no_grad():
        return model(torch.as_tensor(X, device=DEVICE)).softmax(1)[:, 1].detach().cpu().numpy()


# %% folds
oof, preds = np.zeros(len(X)), np.zeros(len(X_test))
folds = np.arange(len(X)) % 3
for fold in range(3):
    trn, val = folds != fold, folds == fold
    model = TabModel(X.shape[1]).cuda()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2, weight_decay=1e-5)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=1e-2, epochs=4, steps_per_epoch=5)
    criterion = nn.CrossEntropyLoss(weight=torch.cuda.FloatTensor([0.3, 0.7]))
    best, kept = 1e9, None
    for epoch in range(4):
        loss = train_fn(model, optimizer, scheduler, criterion, X[trn], y[trn])
        oof[val] = infer(model, X[val])
        score = float(((oof[val] > 0.5) != y[val]).mean())
        if score < best:
            best, kept = score, {k: v.clone() for k, v in model.state_dict().items()}
        print(f"fold {fold} epoch {epoch} loss {loss:.6f} error {score:.4f}")
    torch.save(kept, f"fold{fold}.pth")
    model.load_state_dict(torch.load(f"fold{fold}.pth", map_location="cuda:0"))
    preds += infer(model, X_test) / 3
    del model, optimizer
    gc.collect()
    torch.cuda.empty_cache()
print(f"CV {((oof > 0.5) == y).mean():.4f}", preds.round(5).tolist()[:4])

"""A LightningModule and its Trainer: logged metrics, a scheduler, validation, early stopping."""

import logging
import warnings

import lightning as L
import torch
from _common import finish, place, scaled, start
from lightning.pytorch.callbacks import EarlyStopping
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
warnings.filterwarnings("ignore")


class Regressor(L.LightningModule):
    def __init__(self, width, hidden, lr=1e-2):
        super().__init__()
        self.save_hyperparameters()
        self.net = nn.Sequential(nn.Linear(width, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU())
        self.head = nn.Linear(hidden, 1)

    def forward(self, x):
        return self.head(self.net(x)).squeeze(-1)

    def shared_step(self, batch, name):
        x, y = batch
        loss = F.mse_loss(self(x), y)
        self.log(f"{name}_loss", loss, on_step=False, on_epoch=True)
        return loss

    def training_step(self, batch, batch_idx):
        return self.shared_step(batch, "train")

    def validation_step(self, batch, batch_idx):
        self.shared_step(batch, "val")

    def on_validation_epoch_end(self):
        print(self.current_epoch, {name: value.item() for name, value in self.trainer.callback_metrics.items()})

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=self.hparams.lr)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 20)
        return {"optimizer": optimizer, "lr_scheduler": schedule}


def main():
    L.seed_everything(34, verbose=False)
    x = torch.randn(400, 6)
    y = x[:, 0] * x[:, 1] + x[:, 2].abs()
    train = DataLoader(TensorDataset(x[:320], y[:320]), batch_size=16, shuffle=True)
    valid = DataLoader(TensorDataset(x[320:], y[320:]), batch_size=16)
    model = Regressor(6, 24)
    model.net = place(model.net)
    trainer = L.Trainer(
        max_epochs=scaled(56), accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False,
        enable_model_summary=False, gradient_clip_val=1.0, callbacks=[EarlyStopping("val_loss", patience=50)],
    )  # fmt: skip
    start()
    trainer.fit(model, train, valid)
    finish(model)


if __name__ == "__main__":
    main()

"""A LightningModule and a Trainer on two GPUs under DDP, in bfloat16, with a sampler, logging and a checkpoint.

By hand for the CPU:
    accelerator="gpu" -> accelerator="cpu"
    devices=2 -> devices=1
    strategy="ddp" -> strategy="auto"
    sync_batchnorm=True -> sync_batchnorm=False
"""

import logging
import tempfile
import warnings

import lightning as L
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

warnings.filterwarnings("ignore")
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)


class Classifier(L.LightningModule):
    def __init__(self, width=16, lr=1e-2):
        super().__init__()
        self.save_hyperparameters()
        self.net = nn.Sequential(nn.Linear(6, width), nn.BatchNorm1d(width), nn.GELU(), nn.Linear(width, 3))

    def forward(self, x):
        return self.net(x)

    def training_step(self, batch, batch_idx):
        x, y = batch
        noise = torch.zeros_like(x, device=self.device)
        loss = F.cross_entropy(self(x + noise), y)
        self.log("train_loss", loss, sync_dist=True)
        return loss

    def validation_step(self, batch, batch_idx):
        x, y = batch
        self.log("val_acc", (self(x).argmax(-1) == y).float().mean(), sync_dist=True, prog_bar=True)

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=self.hparams.lr)
        return {"optimizer": optimizer, "lr_scheduler": torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 3)}


L.seed_everything(7, workers=True)
x = torch.randn(96, 6)
y = x[:, :3].argmax(1)
train = DataLoader(TensorDataset(x[:64], y[:64]), batch_size=8, shuffle=False, pin_memory=True)
valid = DataLoader(TensorDataset(x[64:], y[64:]), batch_size=8)
with tempfile.TemporaryDirectory() as directory:
    trainer = L.Trainer(
        accelerator="gpu",
        devices=2,
        strategy="ddp",
        sync_batchnorm=True,
        precision="bf16-mixed",
        max_epochs=3,
        default_root_dir=directory,
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        gradient_clip_val=1.0,
        accumulate_grad_batches=2,
        num_sanity_val_steps=0,
    )
    model = Classifier()
    trainer.fit(model, train, valid)
    print({name: round(value.item(), 6) for name, value in trainer.callback_metrics.items()}, trainer.world_size)
    print(trainer.validate(model, valid, verbose=False))
    path = trainer.checkpoint_callback.best_model_path
    again = Classifier.load_from_checkpoint(path, map_location=None)
    print(sum(p.double().abs().sum().item() for p in again.parameters()))

"""A loop as it grows in projects: accumulated gradients, clipped norms, warm-up and decay, checkpoints, a stop."""

import argparse
import logging
import time

import torch
from _common import finish, place, scaled, start
from torch import nn
from torch.optim.lr_scheduler import CosineAnnealingLR, LinearLR, SequentialLR
from torch.utils.data import DataLoader, TensorDataset

logger = logging.getLogger("train")


class AverageMeter:
    def __init__(self):
        self.reset()

    def reset(self):
        self.value = self.sum = self.count = self.avg = 0.0

    def update(self, value, n=1):
        self.value = value
        self.sum += value * n
        self.count += n
        self.avg = self.sum / self.count


def get_parser():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=scaled(28, least=4))
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--accumulate", type=int, default=4)
    parser.add_argument("--max-norm", type=float, default=1.0)
    parser.add_argument("--lr", type=float, default=3e-3)
    return parser


def build(args):
    model = nn.Sequential(
        nn.Conv1d(2, 8, 5, padding=2), nn.GroupNorm(2, 8), nn.SiLU(), nn.Conv1d(8, 8, 3, stride=2), nn.SiLU(),
        nn.AdaptiveAvgPool1d(4), nn.Flatten(), nn.Linear(32, 5),
    )  # fmt: skip
    decayed = [p for p in model.parameters() if p.dim() > 1]
    others = [p for p in model.parameters() if p.dim() <= 1]
    groups = [{"params": decayed, "weight_decay": 0.01}, {"params": others, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=args.lr)
    warmup = LinearLR(optimizer, 0.1, total_iters=10)
    schedule = SequentialLR(optimizer, [warmup, CosineAnnealingLR(optimizer, 15 * args.epochs)], milestones=[10])
    return model, optimizer, schedule


def train_epoch(args, loader, model, criterion, optimizer, schedule, epoch):
    losses, norms, batch_time = AverageMeter(), AverageMeter(), AverageMeter()
    model.train()
    end = time.time()
    optimizer.zero_grad(set_to_none=True)
    for step, (images, target) in enumerate(loader):
        output = model(images)
        loss = criterion(output, target) / args.accumulate
        loss.backward()
        losses.update(loss.item() * args.accumulate, images.size(0))
        if (step + 1) % args.accumulate == 0 or step + 1 == len(loader):
            norm = nn.utils.clip_grad_norm_(model.parameters(), args.max_norm)
            norms.update(norm.item())
            optimizer.step()
            schedule.step()
            optimizer.zero_grad(set_to_none=True)
        batch_time.update(time.time() - end)
        end = time.time()
        if step % 20 == 0:
            logger.info("epoch %d step %d loss %.3f time %.3f", epoch, step, losses.avg, batch_time.avg)
    return losses.avg, norms.avg


def main():
    args = get_parser().parse_args()
    torch.manual_seed(77)
    target = torch.randint(0, 5, (480,))
    t = torch.arange(24) / 4
    signals = torch.stack((torch.sin(t * (1 + target[:, None])), torch.cos(t * target[:, None])), dim=1)
    data = TensorDataset(signals + 0.5 * torch.randn(480, 2, 24), target)
    loader = DataLoader(data, batch_size=args.batch_size, shuffle=True)
    model, optimizer, schedule = build(args)
    model = place(model)
    criterion, best = nn.CrossEntropyLoss(), None
    start()
    for epoch in range(args.epochs):
        loss, norm = train_epoch(args, loader, model, criterion, optimizer, schedule, epoch)
        if best is None or loss < best["loss"]:
            best = {"loss": loss, "state": {k: v.clone() for k, v in model.state_dict().items()}}
        print(epoch, repr(loss), repr(norm), repr(optimizer.param_groups[0]["lr"]))
    finish(model, best["state"])


if __name__ == "__main__":
    main()

"""Training of a classifier as torchvision's reference does it: pinned memory, an average of weights, AMP, resume.

By hand for the CPU:
    backend="nccl" -> backend="gloo"
    args.device = "cuda" -> args.device = "cpu"
    torch.cuda.set_device(args.gpu) -> pass
    torch.cuda.synchronize() -> pass
    torch.cuda.amp.GradScaler() -> torch.amp.GradScaler("cpu")
    torch.cuda.amp.autocast(enabled=True) -> torch.autocast("cpu")
    torch.cuda.max_memory_allocated() -> 0
    device_ids=[args.gpu] -> device_ids=None
    pin_memory=True -> pin_memory=False
    device="cuda" -> device="cpu"
    nn.SyncBatchNorm.convert_sync_batchnorm(model) -> model
"""

import argparse
import os
import tempfile
import warnings

import torch
import torch.distributed as dist
from torch import nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

warnings.filterwarnings("ignore", category=FutureWarning)


class SmoothedValue:
    def __init__(self):
        self.total, self.count = 0.0, 0

    def update(self, value, n=1):
        self.total, self.count = self.total + value * n, self.count + n

    def synchronize_between_processes(self):
        if not (dist.is_available() and dist.is_initialized()):
            return
        t = torch.tensor([self.count, self.total], dtype=torch.float64, device="cuda")
        dist.barrier()
        dist.all_reduce(t)
        self.count, self.total = int(t[0].item()), t[1].item()


def init_distributed_mode(args):
    args.rank, args.world_size = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    args.gpu = int(os.environ.get("LOCAL_RANK", 0))
    args.distributed = "RANK" in os.environ
    args.device = "cuda"
    torch.cuda.set_device(args.gpu)
    if args.distributed:
        dist.init_process_group(backend="nccl", init_method="env://", world_size=args.world_size, rank=args.rank)
        dist.barrier()


def accuracy(output, target, topk=(1,)):
    with torch.inference_mode():
        _, pred = output.topk(max(topk), 1, True, True)
        correct = pred.t().eq(target[None])
        return [correct[:k].flatten().sum(dtype=torch.float32) * (100.0 / target.size(0)) for k in topk]


def train_one_epoch(model, criterion, optimizer, loader, device, epoch, ema, scaler):
    model.train()
    losses, acc = SmoothedValue(), SmoothedValue()
    for i, (image, target) in enumerate(loader):
        image, target = image.to(device, non_blocking=True), target.to(device, non_blocking=True)
        with torch.cuda.amp.autocast(enabled=True):
            output = model(image)
            loss = criterion(output, target)
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        scaler.step(optimizer)
        scaler.update()
        if i % 2 == 0:
            ema.update_parameters(model)
        acc1, acc2 = accuracy(output, target, topk=(1, 2))
        losses.update(loss.item(), image.shape[0])
        acc.update(acc1.item(), image.shape[0])
    torch.cuda.synchronize()
    losses.synchronize_between_processes()
    print(
        f"epoch {epoch} loss {losses.total / losses.count:.6f} acc {acc.total / acc.count:.3f} top2 {acc2.item():.2f}"
    )
    print("max mem", torch.cuda.max_memory_allocated() // 1024)


def evaluate(model, loader, device):
    model.eval()
    correct = SmoothedValue()
    with torch.inference_mode():
        for image, target in loader:
            output = model(image.to(device, non_blocking=True)).cpu()
            correct.update(accuracy(output, target)[0].item(), len(target))
    correct.synchronize_between_processes()
    print(f"test acc {correct.total / correct.count:.3f}")


def main(args):
    init_distributed_mode(args)
    device = torch.device(args.device)
    torch.manual_seed(3)
    torch.backends.cudnn.benchmark = True
    images, labels = torch.randn(48, 3, 8, 8), torch.randint(3, (48,))
    dataset = TensorDataset(images + labels[:, None, None, None], labels)
    sampler = DistributedSampler(dataset) if args.distributed else None
    loader = DataLoader(dataset, batch_size=8, sampler=sampler, shuffle=sampler is None, pin_memory=True)
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Dropout(0.1),
        nn.Linear(8, 3),
    )
    model.to(device)
    if args.distributed:
        model = nn.SyncBatchNorm.convert_sync_batchnorm(model)
    criterion = nn.CrossEntropyLoss(label_smoothing=0.1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4)
    scaler = torch.cuda.amp.GradScaler()
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.5)
    without_ddp = model
    if args.distributed:
        model = nn.parallel.DistributedDataParallel(model, device_ids=[args.gpu])
        without_ddp = model.module
    ema = AveragedModel(without_ddp, device=device, multi_avg_fn=get_ema_multi_avg_fn(0.9))
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "checkpoint.pth")
        for epoch in range(3):
            if args.distributed:
                sampler.set_epoch(epoch)
            train_one_epoch(model, criterion, optimizer, loader, device, epoch, ema, scaler)
            schedule.step()
            evaluate(ema, loader, device)
            torch.save({"model": without_ddp.state_dict(), "scaler": scaler.state_dict(), "epoch": epoch}, path)
            checkpoint = torch.load(path, map_location="cpu", weights_only=True)
            without_ddp.load_state_dict(checkpoint["model"])
    print(sum(p.double().abs().sum().item() for p in without_ddp.parameters()), list(checkpoint["model"])[:2])
    if args.distributed:
        dist.destroy_process_group()


main(argparse.Namespace())

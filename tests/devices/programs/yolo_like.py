"""A detector with an EMA, as trainers of the YOLO family are: device strings, half precision, NMS, weights in a file.

By hand for the CPU:
    select_device("0") -> torch.device("cpu")
    x.cuda().half() -> x.half()
    torch.cuda.amp.GradScaler(enabled=amp) -> torch.amp.GradScaler("cpu", enabled=amp)
    torch.cuda.amp.autocast(amp) -> torch.autocast("cpu", enabled=amp)
    torch.cuda.memory_reserved() / 1e9 if torch.cuda.is_available() else 1 -> 0
    nn.DataParallel(model) -> nn.ModuleDict({"module": model})["module"]
    cuda = device.type != "cpu" -> cuda = False
    torch.cuda.synchronize() -> pass
    map_location=device -> map_location="cpu"
    torch.cuda.empty_cache() -> pass
"""

import io
import math
import os
import warnings
from copy import deepcopy

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

warnings.filterwarnings("ignore", category=FutureWarning)


def select_device(device=""):
    os.environ["CUDA_VISIBLE_DEVICES"] = device
    assert torch.cuda.is_available(), f"Invalid CUDA '--device {device}'"
    for i in range(torch.cuda.device_count()):
        assert torch.cuda.get_device_properties(i).total_memory > 0
    return torch.device("cuda:0")


def autopad(k):
    return k // 2


class Conv(nn.Module):
    def __init__(self, c1, c2, k=1, s=1):
        super().__init__()
        self.conv = nn.Conv2d(c1, c2, k, s, autopad(k), bias=False)
        self.bn, self.act = nn.BatchNorm2d(c2), nn.SiLU()

    def forward(self, x):
        return self.act(self.bn(self.conv(x)))


class Detect(nn.Module):
    def __init__(self, nc, ch):
        super().__init__()
        self.m = nn.ModuleList(nn.Conv2d(c, nc + 5, 1) for c in ch)

    def forward(self, xs):
        return [m(x).permute(0, 2, 3, 1).contiguous() for m, x in zip(self.m, xs)]


class Yolo(nn.Module):
    def __init__(self, nc=2):
        super().__init__()
        self.stem, self.down = Conv(3, 8, 3, 2), Conv(8, 16, 3, 2)
        self.up, self.head = nn.Upsample(scale_factor=2), Detect(nc, (24, 16))

    def forward(self, x):
        a = self.stem(x)
        b = self.down(a)
        return self.head([torch.cat([self.up(b), a], 1), b])


class ModelEMA:
    def __init__(self, model, decay=0.9):
        self.ema, self.updates = deepcopy(model).eval(), 0
        self.decay = lambda x: decay * (1 - math.exp(-x / 5))

    @torch.no_grad()
    def update(self, model):
        self.updates += 1
        d, msd = self.decay(self.updates), model.state_dict()
        for k, v in self.ema.state_dict().items():
            if v.dtype.is_floating_point:
                v *= d
                v += (1 - d) * msd[k].detach()


def box_iou(box, boxes):
    lt, rb = torch.max(box[:2], boxes[:, :2]), torch.min(box[2:], boxes[:, 2:])
    inter = (rb - lt).clamp(min=0).prod(1)
    return inter / ((box[2:] - box[:2]).prod() + (boxes[:, 2:] - boxes[:, :2]).prod(1) - inter + 1e-7)


def non_max_suppression(pred, conf=0.4, iou=0.5):
    kept = []
    pred = pred[pred[:, 4] > conf]
    pred = pred[pred[:, 4].argsort(descending=True)]
    while len(pred):
        kept.append(pred[0])
        pred = pred[1:][box_iou(pred[0, :4], pred[1:, :4]) < iou]
    return torch.stack(kept) if kept else torch.zeros((0, 6), device=pred.device)


device = select_device("0")
cuda = device.type != "cpu"
amp = True
torch.manual_seed(0)
model = Yolo().to(device)
ema = ModelEMA(model)
parallel = nn.DataParallel(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9, nesterov=True)
scaler = torch.cuda.amp.GradScaler(enabled=amp)
loader = DataLoader(
    TensorDataset((torch.rand(24, 3, 16, 16) * 255).byte(), torch.rand(24)), batch_size=6, pin_memory=cuda
)


def loss_of(preds, targets):
    obj = sum(nn.functional.binary_cross_entropy_with_logits(p[..., 4].mean((1, 2)).float(), targets) for p in preds)
    return obj + 0.01 * sum(p[..., :4].float().pow(2).mean() for p in preds)


for epoch in range(3):
    model.train()
    mloss = torch.zeros(1, device=device)
    for i, (imgs, targets) in enumerate(loader):
        imgs = imgs.to(device, non_blocking=True).float() / 255
        with torch.cuda.amp.autocast(amp):
            loss = loss_of(parallel(imgs), targets.to(device))
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm=10.0)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        ema.update(model)
        mloss = (mloss * i + loss.detach()) / (i + 1)
    mem = f"{torch.cuda.memory_reserved() / 1e9 if torch.cuda.is_available() else 1:.3g}G"
    print(epoch, mem, f"{mloss.item():.6f}")

torch.cuda.synchronize()
torch.cuda.empty_cache()
buffer = io.BytesIO()
torch.save({"model": deepcopy(ema.ema).half().state_dict(), "updates": ema.updates}, buffer)
buffer.seek(0)
checkpoint = torch.load(buffer, map_location=device)
model.load_state_dict({k: v.float() for k, v in checkpoint["model"].items()})
model.eval()
x = torch.rand(1, 3, 16, 16)
with torch.no_grad():
    half = x.cuda().half()
    out = torch.cat([p.flatten(1, 2) for p in model(half.float())], 1)[0]
    xy, wh = out[:, :2].sigmoid(), out[:, 2:4].sigmoid()
    boxes = torch.cat([xy - wh / 2, xy + wh / 2, out[:, 4:5].sigmoid(), out[:, 5:].argmax(1, keepdim=True).float()], 1)
    det = non_max_suppression(boxes, conf=0.3)
print(len(det), det[:2].cpu().numpy().round(4).tolist(), checkpoint["updates"])

"""The minimal example of FSDP: spawned processes, a sampler, wrapped layers, sums over all ranks, a checkpoint.

By hand for the CPU:
    os.environ["MASTER_PORT"] = "12355" -> os.environ["MASTER_PORT"] = "0"
    dist.init_process_group("nccl", rank=rank, -> dist.init_process_group("gloo", store=dist.HashStore(), rank=0,
    torch.cuda.set_device(rank) -> pass
    model = FSDP(model -> model = dict(module=model
    model = fully_shard(model) -> model = model["module"]
    model.to(rank) -> model
    .to(rank) -> .cpu()
    device=rank -> device="cpu"
    with FSDP.state_dict_type(model, StateDictType.FULL_STATE_DICT, policy): -> if True:
    model.clip_grad_norm_(1.0) -> nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    mp.spawn(main, args=(world_size,), nprocs=world_size, join=True) -> main(0, 1)
    world_size = torch.cuda.device_count() -> pass
    print(dist.get_backend() -> print("gloo"
    , auto_wrap_policy=wrap, device_id=torch.cuda.current_device()) -> )
    isinstance(model, FSDP) -> True
    nn.SyncBatchNorm.convert_sync_batchnorm(nn.BatchNorm2d(4)) -> nn.BatchNorm2d(4)
"""

import functools
import os

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn.functional as F
from torch import nn
from torch.distributed.fsdp import FullStateDictConfig, StateDictType, fully_shard
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
from torch.distributed.fsdp.wrap import size_based_auto_wrap_policy
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


def setup(rank, world_size):
    os.environ["MASTER_ADDR"] = "localhost"
    os.environ["MASTER_PORT"] = "12355"
    dist.init_process_group("nccl", rank=rank, world_size=world_size)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 4, 3)
        self.norm = nn.SyncBatchNorm.convert_sync_batchnorm(nn.BatchNorm2d(4))
        self.fc1, self.fc2 = nn.Linear(4 * 36, 16), nn.Linear(16, 5)

    def forward(self, x):
        x = F.relu(self.norm(self.conv(x))).flatten(1)
        return F.log_softmax(self.fc2(F.relu(self.fc1(x))), dim=1)


def train(model, loader, optimizer, epoch, rank, sampler):
    model.train()
    total = torch.zeros(2, device=rank)
    sampler.set_epoch(epoch)
    for data, target in loader:
        data, target = data.to(rank), target.to(rank)
        optimizer.zero_grad()
        loss = F.nll_loss(model(data), target, reduction="sum")
        loss.backward()
        model.clip_grad_norm_(1.0)
        optimizer.step()
        total[0] += loss.item()
        total[1] += len(data)
    dist.all_reduce(total, op=dist.ReduceOp.SUM)
    if rank == 0:
        print(f"epoch {epoch} loss {total[0] / total[1]:.6f}")


def main(rank, world_size):
    setup(rank, world_size)
    torch.cuda.set_device(rank)
    torch.manual_seed(1)
    dataset = TensorDataset(torch.randn(64, 1, 8, 8), torch.randint(5, (64,)))
    sampler = DistributedSampler(dataset, rank=rank, num_replicas=world_size, shuffle=True)
    loader = DataLoader(dataset, batch_size=8, sampler=sampler, pin_memory=False)
    wrap = functools.partial(size_based_auto_wrap_policy, min_num_params=100)
    model = Net()
    model.to(rank)
    model = FSDP(model, auto_wrap_policy=wrap, device_id=torch.cuda.current_device())
    print(isinstance(model, FSDP))
    model = fully_shard(model)
    optimizer = torch.optim.Adadelta(model.parameters(), lr=0.5)
    for epoch in range(3):
        train(model, loader, optimizer, epoch, rank, sampler)
    dist.barrier()
    policy = FullStateDictConfig(offload_to_cpu=True, rank0_only=True)
    with FSDP.state_dict_type(model, StateDictType.FULL_STATE_DICT, policy):
        state = model.state_dict()
    print(list(state), sum(v.double().sum().item() for v in state.values()))
    everybody = [torch.zeros(3, device=rank) for _ in range(dist.get_world_size())]
    dist.all_gather(everybody, torch.arange(3.0, device=rank))
    objects = [None] * dist.get_world_size()
    dist.all_gather_object(objects, {"rank": dist.get_rank()})
    print(dist.get_backend(), everybody, objects)
    dist.destroy_process_group()


if __name__ == "__main__":
    world_size = torch.cuda.device_count()
    mp.spawn(main, args=(world_size,), nprocs=world_size, join=True)

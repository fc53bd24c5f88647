"""A loop under Accelerate: prepared objects, gradients that are accumulated, metrics that are gathered, a saved state.

By hand for the CPU:
    Accelerator( -> Accelerator(cpu=True,
    assert torch.cuda.is_available() -> pass
    torch.cuda.max_memory_allocated(accelerator.device) -> 0
"""

import tempfile

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

accelerator = Accelerator(mixed_precision="bf16", gradient_accumulation_steps=2)
set_seed(5)
assert torch.cuda.is_available()
x = torch.randn(64, 8)
data = TensorDataset(x, (x.sum(1, keepdim=True) > 0).float())
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-2)
schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 / (1 + 0.1 * step))
loader, test = DataLoader(data, batch_size=8, shuffle=True), DataLoader(data, batch_size=16)
model, optimizer, loader, test, schedule = accelerator.prepare(model, optimizer, loader, test, schedule)
for epoch in range(3):
    model.train()
    total = 0.0
    for inputs, targets in loader:
        with accelerator.accumulate(model):
            loss = nn.functional.binary_cross_entropy_with_logits(model(inputs), targets)
            accelerator.backward(loss)
            if accelerator.sync_gradients:
                accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
        total += accelerator.gather(loss.detach()).mean().item()
    model.eval()
    correct = 0
    for inputs, targets in test:
        with torch.no_grad():
            output = model(inputs)
        output, targets = accelerator.gather_for_metrics((output, targets))
        correct += ((output > 0) == targets.bool()).sum().item()
    accelerator.print(f"epoch {epoch} loss {total:.6f} correct {correct}")
with tempfile.TemporaryDirectory() as directory:
    accelerator.wait_for_everyone()
    accelerator.save_state(directory)
    accelerator.load_state(directory)
raw = accelerator.unwrap_model(model)
print(accelerator.num_processes, accelerator.is_main_process, torch.cuda.max_memory_allocated(accelerator.device))
print(list(raw.state_dict())[:2], sum(p.double().abs().sum().item() for p in raw.parameters()))
accelerator.end_training()

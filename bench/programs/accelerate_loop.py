"""A Llama of transformers in a loop of one's own with accelerate: prepare, accumulate, clip, gather metrics."""

import torch
from _common import finish, place, scaled, start
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch.utils.data import DataLoader
from transformers import LlamaConfig, LlamaForCausalLM, get_linear_schedule_with_warmup
from transformers.utils import logging

logging.set_verbosity_error()


def get_dataloaders(batch):
    starts = torch.randint(0, 50, (200, 1))
    rows = (starts + torch.arange(20) * torch.randint(1, 4, (200, 1))) % 60 + 3
    return DataLoader(rows[:160], batch_size=batch, shuffle=True), DataLoader(rows[160:], batch_size=batch)


def evaluate(accelerator, model, loader):
    model.eval()
    losses = []
    for ids in loader:
        with torch.no_grad():
            loss = model(input_ids=ids, labels=ids).loss
        losses.append(accelerator.gather_for_metrics(loss.repeat(len(ids))))
    return torch.cat(losses).mean().item()


def training_function(epochs):
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
    set_seed(0)
    config = LlamaConfig(
        vocab_size=64, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=32, bos_token_id=1, eos_token_id=2, pad_token_id=0,
    )  # fmt: skip
    model = place(LlamaForCausalLM(config))
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    train, valid = get_dataloaders(8)
    schedule = get_linear_schedule_with_warmup(optimizer, 10, len(train) * epochs)
    model, optimizer, train, valid, schedule = accelerator.prepare(model, optimizer, train, valid, schedule)
    start()
    for epoch in range(epochs):
        model.train()
        total = 0.0
        for ids in train:
            with accelerator.accumulate(model):
                loss = model(input_ids=ids, labels=ids).loss
                total += loss.detach().float()
                accelerator.backward(loss)
                if accelerator.sync_gradients:
                    accelerator.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                schedule.step()
                optimizer.zero_grad()
        accelerator.print(f"epoch {epoch}: {total.item() / len(train)!r} {evaluate(accelerator, model, valid)!r}")
    finish(model)


if __name__ == "__main__":
    training_function(scaled(20))

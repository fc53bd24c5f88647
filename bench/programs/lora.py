"""LoRA of peft on a GPT-2: adapters are trained, merged, and the merged model is compared."""

import torch
from _common import finish, place, scaled, start
from peft import LoraConfig, TaskType, get_peft_model
from torch.utils.data import DataLoader
from transformers import GPT2Config, GPT2LMHeadModel, set_seed
from transformers.utils import logging

logging.set_verbosity_error()


def main():
    set_seed(6)
    config = GPT2Config(vocab_size=80, n_positions=32, n_embd=32, n_layer=2, n_head=2, bos_token_id=1, eos_token_id=2)
    lora = LoraConfig(
        task_type=TaskType.CAUSAL_LM, r=4, lora_alpha=16, lora_dropout=0.05, target_modules=["c_attn"],
        fan_in_fan_out=True,
    )  # fmt: skip
    model = get_peft_model(GPT2LMHeadModel(config), lora)
    trained, total = model.get_nb_trainable_parameters()
    print(f"{trained} of {total} parameters are trained")
    model = place(model)
    rows = (torch.randint(0, 40, (160, 1)) + 3 * torch.arange(16)) % 70 + 5
    loader = DataLoader(rows, batch_size=8, shuffle=True)
    optimizer = torch.optim.AdamW((p for p in model.parameters() if p.requires_grad), lr=1e-2)
    start()
    for epoch in range(scaled(30)):
        model.train()
        total_loss = 0.0
        for ids in loader:
            outputs = model(input_ids=ids, labels=ids)
            outputs.loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            total_loss += outputs.loss.detach().float()
        print(epoch, repr((total_loss / len(loader)).item()))
    model.eval()
    with torch.no_grad():
        before = model(input_ids=rows[:4]).logits
        merged = model.merge_and_unload()
        print(torch.allclose(before, merged(input_ids=rows[:4]).logits, atol=1e-4))
    finish(merged)


if __name__ == "__main__":
    main()

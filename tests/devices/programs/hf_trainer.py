"""A fine-tuning with transformers' Trainer: mixed precision, evaluation, a checkpoint; then a pipeline on device 0.

By hand for the CPU:
    model.to("cuda") -> model.to("cpu")
    use_cpu=False -> use_cpu=True
    assert torch.cuda.is_available() -> pass
    device=torch.cuda.current_device() -> device="cpu"
"""

import tempfile

import torch
from torch.utils.data import Dataset
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    PrinterCallback,
    Trainer,
    TrainingArguments,
    set_seed,
)

assert torch.cuda.is_available()
set_seed(0)


class Sentences(Dataset):
    def __init__(self, n):
        self.ids = torch.randint(5, 60, (n, 12))
        self.labels = (self.ids.sum(1) % 2).tolist()

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        return {"input_ids": self.ids[i], "attention_mask": torch.ones(12, dtype=torch.long), "labels": self.labels[i]}


config = BertConfig(
    vocab_size=60, hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64, num_labels=2
)
model = BertForSequenceClassification(config)
with tempfile.TemporaryDirectory() as directory:
    args = TrainingArguments(
        output_dir=directory,
        num_train_epochs=2,
        per_device_train_batch_size=8,
        per_device_eval_batch_size=8,
        learning_rate=1e-3,
        warmup_steps=2,
        logging_steps=4,
        eval_strategy="epoch",
        save_strategy="epoch",
        report_to=[],
        bf16=True,
        optim="adamw_torch",
        use_cpu=False,
        disable_tqdm=True,
        seed=1,
        dataloader_pin_memory=True,
        gradient_accumulation_steps=2,
    )
    trainer = Trainer(
        model=model,
        args=args,
        train_dataset=Sentences(48),
        eval_dataset=Sentences(16),
        compute_metrics=lambda p: {"accuracy": float((p.predictions.argmax(-1) == p.label_ids).mean())},
    )
    trainer.remove_callback(PrinterCallback)
    trainer.train()
    kept = ("loss", "grad_norm", "learning_rate", "eval_loss", "eval_accuracy", "epoch")
    for line in trainer.state.log_history:
        print({name: line[name] for name in kept if name in line})
    restored = BertForSequenceClassification.from_pretrained(f"{directory}/checkpoint-{trainer.state.global_step}")
model = restored
model.to("cuda")
model.eval()
with torch.inference_mode():
    batch = Sentences(4).ids.to(model.device)
    print(model(batch, attention_mask=torch.ones_like(batch, device=torch.cuda.current_device())).logits.tolist())

"""A small BERT is fine-tuned with the Trainer of transformers, with evaluation and metrics after each epoch."""

import tempfile

import numpy as np
import torch
from _common import finish, place, scaled, start
from torch.utils.data import Dataset
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments, set_seed
from transformers.utils import logging

logging.set_verbosity_error()


class Reviews(Dataset):
    def __init__(self, count):
        self.ids = torch.randint(5, 100, (count, 16))
        self.labels = (self.ids[:, 0] % 2).long()
        self.ids[:, 3] = torch.where(self.labels == 1, 7, 9)

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, at):
        return {
            "input_ids": self.ids[at],
            "attention_mask": torch.ones(16, dtype=torch.long),
            "labels": self.labels[at],
        }


def compute_metrics(predicted):
    logits, labels = predicted
    return {"accuracy": float((np.argmax(logits, axis=-1) == labels).mean())}


def main():
    set_seed(42)
    config = BertConfig(
        vocab_size=100, hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64, num_labels=2
    )
    model = place(BertForSequenceClassification(config))
    with tempfile.TemporaryDirectory() as folder:
        args = TrainingArguments(
            output_dir=folder, num_train_epochs=scaled(6), per_device_train_batch_size=8, per_device_eval_batch_size=16,
            learning_rate=1e-3, warmup_steps=10, weight_decay=0.01, eval_strategy="epoch", save_strategy="no",
            logging_steps=10, report_to=[], disable_tqdm=True, use_cpu=True, seed=42, dataloader_pin_memory=False,
        )  # fmt: skip
        trainer = Trainer(
            model=model,
            args=args,
            train_dataset=Reviews(320),
            eval_dataset=Reviews(96),
            compute_metrics=compute_metrics,
        )
        trainer.remove_callback(type(trainer.callback_handler.callbacks[-1]))  # the printer, which tells times
        start()
        trainer.train()
    for log in trainer.state.log_history:
        print({name: value for name, value in log.items() if not name.endswith(("runtime", "second"))})
    finish(model)


if __name__ == "__main__":
    main()

"""GPT-2 of transformers answers requests that ask for different numbers of tokens, greedily or by sampling."""

import random

import torch
from _common import finish, place, scaled, start
from transformers import GPT2Config, GPT2LMHeadModel, set_seed
from transformers.utils import logging

logging.set_verbosity_error()


def build():
    config = GPT2Config(
        vocab_size=200, n_positions=96, n_embd=48, n_layer=3, n_head=3, bos_token_id=1, eos_token_id=2, pad_token_id=0
    )
    return GPT2LMHeadModel(config).eval()


def answer(model, prompt, count, sample):
    return model.generate(
        prompt,
        attention_mask=torch.ones_like(prompt),
        max_new_tokens=count,
        do_sample=sample,
        top_k=20 if sample else None,
        temperature=0.9 if sample else None,
    )


def main():
    set_seed(3)
    random.seed(3)
    model = place(build())
    requests = [(random.randint(3, 12), random.randint(5, 40), i % 3 == 2) for i in range(scaled(45))]
    start()
    for number, (length, count, sample) in enumerate(requests):
        prompt = torch.randint(3, 200, (1, length))
        ids = answer(model, prompt, count, sample)
        if number % 5 == 0:
            print(number, ids.shape[1], ids[0, length:].tolist())
    finish(model)


if __name__ == "__main__":
    main()

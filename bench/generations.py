"""A program that generates with a tiny language model: `python generations.py CALLS [differ]` prints the seconds that
its calls took. With `differ` lengths of prompts and of what is generated differ from call to call.
"""

import sys
import time

import torch
from transformers import GPT2Config, GPT2LMHeadModel
from transformers.utils import logging

logging.set_verbosity_error()
torch.set_num_threads(1)
torch.manual_seed(0)
calls, differ = int(sys.argv[1]), len(sys.argv) > 2
config = GPT2Config(n_layer=3, n_embd=64, n_head=2, vocab_size=128, n_positions=64, bos_token_id=1, eos_token_id=2)
model = GPT2LMHeadModel(config).eval()
start = time.thread_time()
for i in range(calls):
    ids = torch.randint(3, 128, (1, 4 + i % 13 if differ else 8))
    length = 5 + i * 7 % 11 if differ else 24
    model.generate(
        ids,
        attention_mask=torch.ones_like(ids),
        min_new_tokens=length,
        max_new_tokens=length,
        pad_token_id=0,
        do_sample=False,
    )
print(time.thread_time() - start)

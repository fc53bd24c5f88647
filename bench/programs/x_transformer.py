"""An autoregressive decoder of x-transformers copies sequences, with rotary embeddings, and is asked to generate."""

import torch
from _common import finish, place, scaled, start
from x_transformers import AutoregressiveWrapper, Decoder, TransformerWrapper


def cycle(batch, length):
    while True:
        prefix = torch.ones((batch, 1)).long()
        source = torch.randint(2, 20, (batch, length)).long()
        yield torch.cat((prefix, source, prefix, source), dim=1)


def main():
    torch.manual_seed(44)
    layers = Decoder(dim=32, depth=2, heads=2, attn_dim_head=16, rotary_pos_emb=True, ff_glu=True)
    model = place(AutoregressiveWrapper(TransformerWrapper(num_tokens=20, max_seq_len=32, attn_layers=layers)))
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    data = cycle(8, 6)
    start()
    for i in range(scaled(410)):
        model.train()
        loss = model(next(data))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if i % 50 == 0:
            model.eval()
            rows = next(data)[:1]
            sample = model.generate(rows[:, :8], 6, cache_kv=True, temperature=0.0)
            print(i, repr(loss.item()), sample.tolist(), int((sample != rows[:, 8:]).sum()))
    finish(model)


if __name__ == "__main__":
    main()

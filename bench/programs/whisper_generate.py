"""A tiny Whisper of transformers transcribes clips of noise: an encoder, and a decoder with a cache."""

import torch
from _common import finish, place, scaled, start
from transformers import WhisperConfig, WhisperForConditionalGeneration
from transformers.utils import logging

logging.set_verbosity_error()


def build():
    config = WhisperConfig(
        vocab_size=120, num_mel_bins=16, d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=2,
        decoder_attention_heads=2, encoder_ffn_dim=64, decoder_ffn_dim=64, max_source_positions=50,
        max_target_positions=60, decoder_start_token_id=3, bos_token_id=1, eos_token_id=2, pad_token_id=0,
        suppress_tokens=None, begin_suppress_tokens=None,
    )  # fmt: skip
    model = WhisperForConditionalGeneration(config).eval()
    model.generation_config.update(suppress_tokens=None, begin_suppress_tokens=None)
    return model


def mel(seconds):
    t = torch.linspace(0, seconds, 100)
    bands = torch.sin(t[None, :] * torch.arange(1, 17)[:, None])
    return (bands + 0.1 * torch.randn(16, 100)).unsqueeze(0)


@torch.inference_mode()
def transcribe(model, features, count):
    return model.generate(features, max_new_tokens=count, num_beams=1, do_sample=False)


def main():
    torch.manual_seed(4)
    model = place(build())
    start()
    for clip in range(scaled(75)):
        ids = transcribe(model, mel(1 + clip % 4), 12 + 5 * (clip % 5))
        if clip % 5 == 0:
            print(clip, ids[0].tolist())
    finish(model)


if __name__ == "__main__":
    main()

"""A small UNet of diffusers learns to remove noise, and pictures are drawn by a DDPM and a DDIM scheduler."""

import torch
from _common import finish, place, scaled, start
from diffusers import DDIMScheduler, DDPMScheduler, UNet2DModel
from torch.nn import functional as F


def build():
    return UNet2DModel(
        sample_size=8, in_channels=1, out_channels=1, layers_per_block=1, block_out_channels=(8, 16), norm_num_groups=4,
        down_block_types=("DownBlock2D", "AttnDownBlock2D"), up_block_types=("AttnUpBlock2D", "UpBlock2D"),
        attention_head_dim=4,
    )  # fmt: skip


def train(model, scheduler, images, turns):
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for turn in range(turns):
        clean = images[torch.randint(0, len(images), (4,))]
        noise = torch.randn_like(clean)
        timesteps = torch.randint(0, scheduler.config.num_train_timesteps, (4,))
        predicted = model(scheduler.add_noise(clean, noise, timesteps), timesteps).sample
        loss = F.mse_loss(predicted, noise)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        if turn % 20 == 0:
            print(turn, repr(loss.item()))


@torch.no_grad()
def draw(model, scheduler, steps, generator):
    scheduler.set_timesteps(steps)
    image = torch.randn((2, 1, 8, 8), generator=generator)
    for t in scheduler.timesteps:
        residual = model(image, t).sample
        image = scheduler.step(residual, t, image, generator=generator).prev_sample
    return image.clamp(-1, 1)


def main():
    torch.manual_seed(33)
    model = place(build())
    ddpm, ddim = DDPMScheduler(num_train_timesteps=50), DDIMScheduler(num_train_timesteps=50)
    axis = torch.linspace(-1, 1, 8)
    images = torch.stack([torch.sin(k * axis)[:, None] * torch.cos(k * axis) for k in range(1, 33)])[:, None]
    generator = torch.Generator().manual_seed(1)
    start()
    train(model, ddpm, images, scaled(70))
    model.eval()
    for _ in range(scaled(3)):
        print(repr(draw(model, ddpm, 50, generator).sum().item()), repr(draw(model, ddim, 10, generator).sum().item()))
    finish(model)


if __name__ == "__main__":
    main()

"""A pipeline of diffusers, with a generator on the device.

By hand for the CPU:
    .to("cuda") -> .to("cpu")
    torch.Generator("cuda") -> torch.Generator("cpu")
    torch.Generator(device="cuda") -> torch.Generator(device="cpu")
    torch.autocast("cuda", -> torch.autocast("cpu",
    torch.cuda.empty_cache() -> pass
"""

import tempfile

import torch
from diffusers import DDIMPipeline, DDIMScheduler, UNet2DModel

torch.manual_seed(0)
unet = UNet2DModel(
    sample_size=8,
    in_channels=3,
    out_channels=3,
    layers_per_block=1,
    block_out_channels=(8, 16),
    norm_num_groups=4,
    down_block_types=("DownBlock2D", "AttnDownBlock2D"),
    up_block_types=("AttnUpBlock2D", "UpBlock2D"),
)
pipe = DDIMPipeline(unet=unet, scheduler=DDIMScheduler(num_train_timesteps=20))
with tempfile.TemporaryDirectory() as directory:
    pipe.save_pretrained(directory)
    pipe = DDIMPipeline.from_pretrained(directory, torch_dtype=torch.float32)
pipe = pipe.to("cuda")
pipe.set_progress_bar_config(disable=True)
for seed in range(3):
    generator = torch.Generator(device="cuda").manual_seed(seed)
    images = pipe(batch_size=2, generator=generator, num_inference_steps=5, output_type="np").images
    print(seed, images.shape, images.mean(axis=(1, 2, 3)).round(6).tolist())
with torch.autocast("cuda", dtype=torch.bfloat16):
    generator = torch.Generator("cuda").manual_seed(9)
    images = pipe(generator=generator, num_inference_steps=3, eta=0.5, output_type="np").images
torch.cuda.empty_cache()
print(images.mean().round(5), pipe.device.type != "meta")

"""python in_lightning.py: a module of Lightning, on two ranks that it starts itself."""
import tempfile

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

try:
    import lightning
except ImportError:
    import pytorch_lightning as lightning


class Module(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 1))

    def training_step(self, batch, _):
        x, y = batch
        loss = nn.functional.mse_loss(self.net(x), y)
        self.log("loss", loss, prog_bar=True)
        return loss

    def validation_step(self, batch, _):
        x, y = batch
        self.log("val", nn.functional.mse_loss(self.net(x), y), sync_dist=True)

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters())


if __name__ == "__main__":
    x = torch.randn(2048, 32)
    data = TensorDataset(x, x.sum(1, keepdim=True))
    trainer = lightning.Trainer(
        max_epochs=100_000,
        accelerator="gpu" if torch.cuda.device_count() > 1 else "cpu",
        devices=2,
        strategy="ddp",
        default_root_dir=tempfile.mkdtemp(),
        enable_progress_bar=False,
    )
    trainer.fit(Module(), DataLoader(data, 16, shuffle=True), DataLoader(data, 64))

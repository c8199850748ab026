"""torchrun --nproc-per-node 2 in_transformers.py: the Trainer of transformers, with accumulation."""

import tempfile

import torch
from torch.utils.data import Dataset
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments


class Words(Dataset):
    def __len__(self):
        return 2048

    def __getitem__(self, i):
        return {"input_ids": (torch.arange(16) * (i + 1)) % 100, "labels": i % 2}


if __name__ == "__main__":
    config = BertConfig(
        vocab_size=100, hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64
    )
    arguments = TrainingArguments(
        tempfile.mkdtemp(),
        num_train_epochs=10_000,
        per_device_train_batch_size=8,
        gradient_accumulation_steps=2,
        use_cpu=not torch.cuda.is_available(),
        logging_steps=50,
        save_strategy="no",
        report_to=[],
        disable_tqdm=True,
    )
    Trainer(BertForSequenceClassification(config), arguments, train_dataset=Words()).train()

"""Trains a ResNet-18 on scikit-learn's handwritten digits: `python examples/train_digits.py`.

Takes 1797 real images of 8x8 pixels; gives a checkpoint, a learning curve (PNG) and the accuracy on
images that training never saw.  Keeps true: Ctrl-C loses at most the epoch that is running, and the
next run goes on from the last checkpoint; the accuracy printed at the end is that of the reloaded
file.
"""

import argparse
import copy
import time
from pathlib import Path
from typing import Any

import matplotlib
import numpy
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from tqdm import tqdm

import facula
from facula import nn
from facula.nn import functional as F
from facula.utils.data import DataLoader, TensorDataset

matplotlib.use("Agg")
from matplotlib import pyplot  # noqa: E402  (after the choice of a backend without a window)


class BasicBlock(nn.Module):
    """Two 3x3 convolutions around a shortcut. [He et al. 2015]"""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride=stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.shortcut = nn.Sequential()
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride=stride, bias=False), nn.BatchNorm2d(outputs)
            )

    def forward(self, x: facula.Tensor) -> facula.Tensor:
        y = F.relu(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        return F.relu(y + self.shortcut(x))


class ResNet18(nn.Module):
    """The variant for small images: a 3x3 stem with stride 1 and no pooling before the blocks."""

    def __init__(self, classes: int = 10, channels: int = 1) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(channels, 64, 3, padding=1, bias=False), nn.BatchNorm2d(64), nn.ReLU()
        )
        widths, blocks, inputs = (64, 128, 256, 512), [], 64
        for stage, width in enumerate(widths):
            for index in range(2):
                blocks.append(BasicBlock(inputs, width, 2 if stage and index == 0 else 1))
                inputs = width
        self.blocks = nn.Sequential(*blocks)
        self.head = nn.Linear(inputs, classes)

    def forward(self, x: facula.Tensor) -> facula.Tensor:
        return self.head(self.blocks(self.stem(x)).mean((2, 3)))


def load_data(seed: int) -> tuple[TensorDataset, TensorDataset]:
    """Training and test images `[1, 8, 8]`, about zero mean and unit variance, with labels."""
    images, labels = load_digits(return_X_y=True)
    images = ((images.reshape(-1, 1, 8, 8) - 4.9) / 6.0).astype(numpy.float32)
    parts = train_test_split(
        images, labels.astype(numpy.int64), test_size=0.2, stratify=labels, random_state=seed
    )
    train_images, test_images, train_labels, test_labels = map(facula.from_numpy, parts)
    train = TensorDataset(train_images, train_labels)
    return train, TensorDataset(test_images, test_labels)


def augment(images: facula.Tensor) -> facula.Tensor:
    """Each image moved by up to a pixel and scaled in contrast by up to a fifth."""
    count, size = images.shape[0], images.shape[-1]
    padded = F.pad(images, (1, 1, 1, 1), value=float(images.min()))
    rows = facula.randint(0, 3, (count, 1)) + facula.arange(size)
    columns = facula.randint(0, 3, (count, 1)) + facula.arange(size)
    which = facula.arange(count)[:, None, None]
    moved = padded[which, 0, rows[:, :, None], columns[:, None, :]].unsqueeze(1)
    return moved * (0.8 + 0.4 * facula.rand(count, 1, 1, 1))


def accuracy(model: nn.Module, data: TensorDataset) -> float:
    """The share of images whose digit the model names."""
    model.eval()
    right = 0
    with facula.no_grad():
        for images, labels in DataLoader(data, batch_size=256):
            right += int((model(images).argmax(1) == labels).sum())
    return right / len(data)


class Trainer:
    """A model in training, with everything that a checkpoint needs to go on."""

    def __init__(self, settings: argparse.Namespace) -> None:
        facula.manual_seed(settings.seed)
        self.settings = settings
        self.train_data, self.test_data = load_data(settings.seed)
        self.model = ResNet18()
        self.optimizer = facula.optim.AdamW(
            self.model.parameters(), lr=settings.rate, weight_decay=0.05
        )
        batches = len(self.train_data) // settings.batch
        self.schedule = facula.optim.lr_scheduler.OneCycleLR(
            self.optimizer, max_lr=settings.rate, total_steps=settings.epochs * batches
        )
        self.history: list[dict[str, float]] = []
        self.path = settings.output / "checkpoint.pt"

    def state(self) -> dict[str, Any]:
        return {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "schedule": self.schedule.state_dict(),
            "history": self.history,
            "random": facula.get_rng_state(),
        }

    def resume(self) -> None:
        """Goes on from the last checkpoint, if there is one."""
        if not self.path.exists():
            return
        state = facula.load(self.path)
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.schedule.load_state_dict(state["schedule"])
        self.history = state["history"]
        facula.set_rng_state(state["random"])
        print(f"going on after epoch {len(self.history)} of {self.path}")

    def run_epoch(self, number: int) -> None:
        """One pass over the training images, then the accuracy on the others."""
        self.model.train()
        loader = DataLoader(
            self.train_data, batch_size=self.settings.batch, shuffle=True, drop_last=True
        )
        total, right, seen, begin = 0.0, 0, 0, time.perf_counter()
        with tqdm(loader, desc=f"epoch {number:2d}", unit="batch", leave=True) as progress:
            for images, labels in progress:
                self.optimizer.zero_grad()
                scores = self.model(augment(images))
                loss = F.cross_entropy(scores, labels, label_smoothing=0.05)
                loss.backward()
                self.optimizer.step()
                self.schedule.step()
                seen += len(labels)
                total += loss.item() * len(labels)
                right += int((scores.argmax(1) == labels).sum())
                rate = seen / (time.perf_counter() - begin)
                progress.set_postfix_str(
                    f"loss {total / seen:.4f}, accuracy {right / seen:.2%}, {rate:.0f} images/s"
                )
        record = {"loss": total / seen, "train": right / seen, "images_per_second": rate}
        self.history.append({**record, "test": accuracy(self.model, self.test_data)})

    def train(self) -> None:
        """Trains to the last epoch; each epoch ends with a checkpoint."""
        for number in range(len(self.history) + 1, self.settings.epochs + 1):
            self.run_epoch(number)
            facula.save(self.state(), self.path)
            print(f"          test accuracy {self.history[-1]['test']:.2%}")


def step_time(model: nn.Module, images: facula.Tensor, labels: facula.Tensor) -> float:
    """Seconds that one forward and backward pass takes."""
    begin = time.perf_counter()
    F.cross_entropy(model(images), labels).backward()
    return time.perf_counter() - begin


def compare(data: TensorDataset, batch: int, rounds: int = 6) -> None:
    """Prints how fast training is as written and compiled, measured in turn on copies."""
    images, labels = next(iter(DataLoader(data, batch_size=batch)))
    eager = ResNet18()
    compiled = facula.compile(copy.deepcopy(eager))
    first = step_time(compiled, images, labels)
    step_time(eager, images, labels)
    pairs = [
        (step_time(eager, images, labels), step_time(compiled, images, labels))
        for _ in range(rounds)
    ]
    slow, fast = (batch / numpy.median(times) for times in zip(*pairs, strict=True))
    print(f"eager {slow:.0f} images/s, compiled {fast:.0f} images/s (first step {first:.1f} s)")


def draw(history: list[dict[str, float]], path: Path) -> None:
    """The learning curve: loss on the left, accuracies on the right."""
    epochs = range(1, len(history) + 1)
    figure, (left, right) = pyplot.subplots(1, 2, figsize=(9, 3.5))
    left.plot(epochs, [row["loss"] for row in history])
    left.set(xlabel="epoch", ylabel="training loss")
    for name in ("train", "test"):
        right.plot(epochs, [row[name] for row in history], label=name)
    right.set(xlabel="epoch", ylabel="accuracy")
    right.legend()
    figure.tight_layout()
    figure.savefig(path, dpi=120)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--batch", type=int, default=64, help="images per step")
    parser.add_argument("--rate", type=float, default=2e-3, help="highest learning rate")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path, default=Path("runs/digits"))
    parser.add_argument("--restart", action="store_true", help="forget the last checkpoint")
    return parser.parse_args()


def main() -> None:
    settings = parse()
    settings.output.mkdir(parents=True, exist_ok=True)
    trainer = Trainer(settings)
    if settings.restart:
        trainer.path.unlink(missing_ok=True)
    trainer.resume()
    compare(trainer.train_data, settings.batch)
    try:
        trainer.train()
    except KeyboardInterrupt:
        print(f"\nstopped; {trainer.path} holds epoch {len(trainer.history)}: run again to go on")
        return
    curve = settings.output / "learning_curve.png"
    draw(trainer.history, curve)
    restored = ResNet18()
    restored.load_state_dict(facula.load(trainer.path)["model"])
    print(f"test accuracy {accuracy(trainer.model, trainer.test_data):.2%}")
    print(f"test accuracy {accuracy(restored, trainer.test_data):.2%} after loading {trainer.path}")
    print(f"learning curve in {curve}")


if __name__ == "__main__":
    main()

"""Communication time inferred by subtraction (E1): everything that is not perfectly divided compute. Seconds."""

from dpscale.analyse.scaling import Number


def compute_s(baseline_s: Number, gpus: int) -> Number:
    """T(1,b) / N."""
    return baseline_s / gpus


def communication_s(baseline_s: Number, epoch_s: Number, gpus: int) -> Number:
    """T(N,b) - T(1,b)/N, per epoch."""
    return epoch_s - baseline_s / gpus


def communication_step_s(baseline_step_s: Number, step_s: Number) -> Number:
    """t(N,b) - t(1,b), per full step."""
    return step_s - baseline_step_s

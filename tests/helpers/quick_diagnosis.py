"""The worker of a diagnosis whose blocks are short: what is injected is far larger than what it has to be told from."""

from dpscale.measure.worker import communication, diagnosis
from dpscale.measure.worker.diagnosis import DiagnosisWorker

BLOCK_S = 0.015
LARGE_STEP_S = 0.05


class QuickDiagnosis(DiagnosisWorker):
    def measure(self) -> None:
        communication.BLOCK_S = BLOCK_S
        diagnosis.LARGE_STEP_S = LARGE_STEP_S
        super().measure()


WORKER = QuickDiagnosis

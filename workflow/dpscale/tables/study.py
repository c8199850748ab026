"""What was measured, where, and what is missing."""

from dpscale.tables.column import PERCENT, PLAIN, SECONDS, UTC, column
from dpscale.tables.quantities import (
    ARM,
    BATCH,
    COMMIT,
    DATASET_SHA256,
    DATASET_SOURCE,
    DIRTY,
    ENVIRONMENT,
    GPU_SECONDS,
    GPUS,
    HOST,
    REASON,
    RECORD_KIND,
    RECORDS,
    RUN,
    SEED,
    STATUS,
    STRATEGY,
    VARIANT,
)
from dpscale.tables.row import Row


class EnvironmentsRow(Row):
    """Every combination of hardware, software and images that was measured. Records of different environments are
    never pooled.
    """

    environment: str = ENVIRONMENT.on("environments")
    device_model: str = column("Device", PLAIN, "Model of the devices.").on("environments")
    cpu_model: str = column("CPU", PLAIN, "Model of the CPU.").on("environments")
    driver: str = column("Driver", PLAIN, "Version of the GPU's driver.").on("environments")
    cuda: str = column("CUDA", PLAIN, "Version of CUDA that torch was built with.").on("environments")
    cudnn: str = column("cuDNN", PLAIN, "Version of cuDNN.").on("environments")
    nccl: str = column("NCCL", PLAIN, "Version of NCCL.").on("environments")
    torch: str = column("torch", PLAIN, "Version of torch.").on("environments")
    torchvision: str = column("torchvision", PLAIN, "Version of torchvision.").on("environments")
    python: str = column("Python", PLAIN, "Version of Python.").on("environments")
    dataset_sha256: str = DATASET_SHA256.on("environments")
    links: str = column("Links", PLAIN, "What connects the devices.").on("environments")
    variables: str = column("Variables", PLAIN, "NCCL's variables and NVIDIA_TF32_OVERRIDE, where they are set.").on(
        "environments"
    )
    hosts: str = column("Hosts", PLAIN, "Names of the hosts.").on("environments")
    records: int | None = RECORDS.on("environments")
    cpu_cores: str = column("Cores", PLAIN, "Cores that a job may use.")
    measurement_versions: str = column("Versions", PLAIN, "Versions of the clocked code, by kind of record.")
    older_measurements: str = column("Older versions", PLAIN, "Those of them that are measured no more.")


class RecordsRow(Row):
    """Every record that was used: when, where and by which commit it was measured, on which GPUs, and what disturbed
    it.
    """

    path: str = column("File", PLAIN, "The record.")
    kind: str = RECORD_KIND
    strategy: str = STRATEGY
    gpus: int | None = GPUS
    batch_per_gpu: int | None = BATCH
    run: int | None = RUN
    arm: str = ARM
    seed: int | None = SEED
    status: str = STATUS
    environment: str = ENVIRONMENT
    started_at: str = column("Started", UTC, "When the cell started.")
    finished_at: str = column("Finished", UTC, "When the cell finished.")
    gpu_s: float = GPU_SECONDS
    host: str = HOST
    git_commit: str = COMMIT
    git_dirty: bool | None = DIRTY
    job_id: str = column("Job", PLAIN, "The scheduler's number of the job.")
    gpu_uuids: str = column("Devices by UUID", PLAIN, "The devices themselves.")
    throttle_reasons: str = column(
        "Throttled", PLAIN, "Why clocks were held down: in timed epochs; of other records before and after."
    )
    slowed_s: float = column(
        "Kept down",
        SECONDS,
        "For how long a device's clocks were kept down in timed epochs, by the policy that did so longest.",
        "Time",
    )
    slowed_by: str = column("Kept down by", PLAIN, "The policies that kept clocks down in timed epochs.", "Time")
    stolen_share: float = column(
        "Cores stolen", PERCENT, "The most that a hypervisor took away in a timed epoch, over the cores given.", "Time"
    )
    other_processes: int | None = column(
        "Other processes", PLAIN, "Most processes of others that were seen on the devices."
    )
    dataset_source: str = DATASET_SOURCE
    synthetic: bool | None = column("Synthetic", PLAIN, "Whether the images are noise.")
    dataset_sha256: str = DATASET_SHA256


class OriginsRow(Row):
    """How many records there are of each kind, by the host, the code and the images that measured them."""

    kind: str = RECORD_KIND.on("records")
    environment: str = ENVIRONMENT
    host: str = HOST.on("records")
    git_commit: str = COMMIT.on("records")
    git_dirty: bool | None = DIRTY
    dataset_source: str = DATASET_SOURCE.on("records")
    records: int | None = RECORDS.on("records")
    first: str = column("First started", UTC, "When the first cell started.").on("records")
    last: str = column("Last finished", UTC, "When the last cell finished.").on("records")
    jobs: str = column("Jobs", PLAIN, "The scheduler's numbers.").on("records")
    throttled: int | None = column("Throttled", PLAIN, "Records whose clocks were held down.").on("records")
    disturbed: int | None = column(
        "With other processes", PLAIN, "Records with processes of others on the devices."
    ).on("records")


class CostsRow(Row):
    """What measuring cost, by kind of record."""

    measured: str = column("Measured", PLAIN, "Timing, communication (collectives too) or training.", "Time")
    records: int | None = RECORDS
    gpu_s: float = GPU_SECONDS


class RejectedRow(Row):
    """Records that were found and not used, and why."""

    path: str = column("File", PLAIN, "The record.").on("rejected")
    reason: str = REASON.but(definition="Why it is not used.").on("rejected")


class MissingRow(Row):
    """Planned cells without a record: their state, the reason, and the end of their logs, without user names and
    secrets.
    """

    path: str = column("File", PLAIN, "The record that is missing.")
    kind: str = RECORD_KIND
    variant: str = VARIANT
    strategy: str = STRATEGY
    gpus: int | None = GPUS
    batch_per_gpu: int | None = BATCH
    run: int | None = RUN
    arm: str = ARM
    seed: int | None = SEED
    status: str = STATUS
    reason: str = REASON
    log: str = column("Log", PLAIN, "Its last lines.")


class AbsencesRow(Row):
    """Why configurations have no number, and for how many of them each reason holds."""

    status: str = STATUS
    reason: str = REASON
    configurations: int | None = column("Configurations", PLAIN, "That have no number for this reason.")

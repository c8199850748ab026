# One job a cell. Its settings are its parameters: a cell is measured again when one of them changes, or when the
# version of the clocked code is raised; never because a file was touched (its only input is ancient).


def timing_settings(wildcards):
    return STUDY.settings.options()


rule time:
    input:
        lambda wildcards: ancient(of_this_study(DATASET / MANIFEST)),
    output:
        RESULTS / "cells/{strategy}/gpus-{gpus}/batch-{batch}/run-{run}.json",
    params:
        settings=timing_settings,
        folder=DATASET,
        measurement_version=MEASUREMENT_VERSION,
    log:
        RESULTS / "logs/cells/{strategy}/gpus-{gpus}/batch-{batch}/run-{run}.log",
    # Run 1 of every cell before run 2 of any: drift then shows as spread, not as a difference between cells.
    priority: lambda wildcards: STUDY["runs"] - int(wildcards.run)
    resources:
        measuring=1,
        gpu=lambda wildcards: int(wildcards.gpus) if STUDY["device"] == "cuda" else 0,
        mem_mb=lambda wildcards: 4000 + 4000 * int(wildcards.gpus),
        runtime=lambda wildcards: int(STUDY["cell_timeout_s"] // 60 + 5),
        timeout_s=int(STUDY["cell_timeout_s"]),
    shell:
        "dpscale time --strategy {wildcards.strategy} --gpus {wildcards.gpus} --batch-per-gpu {wildcards.batch}"
        " --run {wildcards.run} --dataset {params.folder:q} {params.settings} --timeout-s {resources.timeout_s}"
        " --out {output:q} > {log} 2>&1"

# One job a cell. It is measured again when its record is missing, when a setting in the record differs from the
# study's, or when the version of the clocked code was raised (see common.smk), and for no other reason.


rule time:
    input:
        dataset_for_cells(),
    output:
        RECORD,
    log:
        f"{RESULTS}/logs/{CELL_PATH}.log",
    # Run 1 of every cell before run 2 of any: drift then shows as spread, not as a difference between cells.
    priority: lambda wildcards: STUDY["runs"] - int(wildcards.run)
    resources:
        measuring=1,
        gpu=lambda wildcards: int(wildcards.gpus) if STUDY["device"] == "cuda" else 0,
        mem_mb=lambda wildcards: 4000 + 4000 * int(wildcards.gpus),
        runtime=lambda wildcards: int(STUDY["cell_timeout_s"] // 60 + 5),
        timeout_s=str(STUDY["cell_timeout_s"]),
    params:
        settings=STUDY.settings.options(),
        folder=DATASET,
        measurement_version=MEASUREMENT_VERSION,
    shell:
        "exec dpscale time --end-with-parent --strategy {wildcards.strategy} --gpus {wildcards.gpus} --batch-per-gpu {wildcards.batch}"
        " --run {wildcards.run} --dataset {params.folder:q} {params.settings} --timeout-s {resources.timeout_s}"
        " --out {output:q} > {log} 2>&1"

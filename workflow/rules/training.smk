# Training with large batches: one job per arm and seed. Records follow the same rules as those of timing cells (see
# timing.smk), each under its own arm's settings.


rule train:
    input:
        only_with_images(TRAINING_RECORD),
    output:
        TRAINING_RECORD,
    log:
        f"{RESULTS}/logs/{cells.TrainingCell.path_pattern}.log",
    # Seed 1 of all arms before seed 2 of any: an early page then has all arms.
    priority: lambda wildcards: STUDY["training"]["seeds"] - int(wildcards.seed)
    resources:
        **CELL_JOB,
        cpus_per_task=gpus_per_node_of,
        mem_mb=lambda wildcards, attempt: cluster.processes_mb(gpus_per_node_of(wildcards), attempt),
    params:
        **CELL_PARAMS,
        settings=lambda wildcards: STUDY.arms[wildcards.arm].options(),
        images=IMAGES,
    shell:
        "exec {params.launcher}{params.prefix}dpscale train{params.nodes} --end-with-parent --arm {wildcards.arm} --seed {wildcards.seed}"
        " {params.images} {params.settings} --timeout-s {resources.timeout_s} --out {output:q} > {log} 2>&1"

# The largest batch per GPU that fits, of every strategy and number of GPUs of a study with `max` in batch_per_gpu. The
# cells at it wait for this record, and read their batch in it: all jobs are known before anything is measured.


rule fit:
    output:
        FIT_RECORD,
    log:
        f"{RESULTS}/logs/{cells.FIT_PATH}.log",
    # Before the cells that need it.
    priority: STUDY["runs"]
    resources:
        **CELL_JOB,
        cpus_per_task=lambda wildcards: gpus_per_node_of(wildcards),
        mem_mb=lambda wildcards, attempt: cluster.collectives_memory_mb(gpus_per_node_of(wildcards), attempt),
    params:
        **CELL_PARAMS,
        settings=FitSettings.of(STUDY.values).options(),
        measurement_version=VERSIONS["fit"].current,
    shell:
        "exec {params.launcher}{params.prefix}dpscale fit --end-with-parent --strategy {wildcards.strategy} --gpus {wildcards.gpus}"
        " {params.settings} --timeout-s {resources.timeout_s} --json {output:q} > {log} 2>&1"

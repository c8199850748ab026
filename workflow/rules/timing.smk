# One job per cell. It is measured again when its record is missing, when a setting in the record differs from the
# study's, or when the version of the clocked code was raised (dpscale/records/collect.py), and for no other reason.


rule time:
    input:
        only_with_images(TIMING_RECORD),
    output:
        TIMING_RECORD,
    log:
        f"{RESULTS}/logs/{cells.TimingCell.path_pattern}.log",
    # Run 1 of all cells before run 2 of any: drift then appears as spread, not as a difference between cells.
    priority: lambda wildcards: STUDY["runs"] - int(wildcards.run)
    resources:
        **CELL_JOB,
        cpus_per_task=lambda wildcards: cluster.cpus(STUDY.settings, configuration(wildcards)),
        mem_mb=lambda wildcards, attempt: cluster.memory_mb(STUDY.settings, configuration(wildcards), attempt),
    params:
        **CELL_PARAMS,
        settings=STUDY.settings.options(),
        strong=lambda wildcards: "--baseline-at-global-batch" if is_in_strong_series(wildcards) else "",
        images=IMAGES,
    shell:
        "exec {params.launcher}{params.prefix}dpscale time{params.nodes} --end-with-parent --strategy {wildcards.strategy} --gpus {wildcards.gpus}"
        " --batch-per-gpu {wildcards.batch_per_gpu} --run {wildcards.run} {params.images} {params.strong} {params.settings} --timeout-s {resources.timeout_s}"
        " --out {output:q} > {log} 2>&1"


# The same, under the settings of a variant.
rule time_variant:
    input:
        only_with_images(VARIANT_RECORD),
    output:
        VARIANT_RECORD,
    log:
        f"{RESULTS}/logs/{cells.VariantCell.path_pattern}.log",
    priority: lambda wildcards: STUDY["runs"] - int(wildcards.run)
    resources:
        **CELL_JOB,
        cpus_per_task=lambda wildcards: cluster.cpus(settings_of(wildcards), configuration(wildcards)),
        mem_mb=lambda wildcards, attempt: cluster.memory_mb(settings_of(wildcards), configuration(wildcards), attempt),
    params:
        **CELL_PARAMS,
        settings=lambda wildcards: settings_of(wildcards).options(),
        images=IMAGES,
    shell:
        "exec {params.launcher}{params.prefix}dpscale time{params.nodes} --end-with-parent --variant {wildcards.variant} --strategy {wildcards.strategy}"
        " --gpus {wildcards.gpus} --batch-per-gpu {wildcards.batch_per_gpu} --run {wildcards.run}"
        " {params.images} {params.settings} --timeout-s {resources.timeout_s}"
        " --out {output:q} > {log} 2>&1"

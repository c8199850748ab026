# Communication, measured apart from the timing cells: collectives with nothing else running, and the parts of training
# steps. Records follow the same rules as those of timing cells (see timing.smk).


rule collectives:
    input:
        only_to_measure(NETWORK, COLLECTIVES_RECORD),
    output:
        COLLECTIVES_RECORD,
    log:
        f"{RESULTS}/logs/{cells.CollectivesCell.path_pattern}.log",
    resources:
        **CELL_JOB,
        cpus_per_task=gpus_per_node_of,
        mem_mb=lambda wildcards, attempt: cluster.processes_mb(gpus_per_node_of(wildcards), attempt),
    params:
        **CELL_PARAMS,
        settings=CollectivesSettings.of(STUDY.values).options(),
        network=NETWORK,
        strategies=" ".join(f"--strategies {name}" for name in STUDY["strategies"]),
    shell:
        "exec {params.launcher}{params.prefix}dpscale collectives{params.nodes} --end-with-parent --gpus {wildcards.gpus} --run {wildcards.run}"
        " --network-facts {params.network:q} {params.strategies} {params.settings} --timeout-s {resources.timeout_s} --out {output:q} > {log} 2>&1"


rule communication:
    input:
        only_with_images(COMMUNICATION_RECORD),
    output:
        COMMUNICATION_RECORD,
    log:
        f"{RESULTS}/logs/{cells.CommunicationCell.path_pattern}.log",
    resources:
        **CELL_JOB,
        cpus_per_task=gpus_per_node_of,
        mem_mb=lambda wildcards, attempt: cluster.memory_mb(STUDY.settings, configuration(wildcards), attempt),
    params:
        **CELL_PARAMS,
        settings=StepSettings.of(STUDY.values).options(),
        images=IMAGES,
    shell:
        "exec {params.launcher}{params.prefix}dpscale communication{params.nodes} --end-with-parent --strategy {wildcards.strategy} --gpus {wildcards.gpus}"
        " --batch-per-gpu {wildcards.batch_per_gpu} --run {wildcards.run} {params.images} {params.settings}"
        " --timeout-s {resources.timeout_s} --out {output:q} > {log} 2>&1"

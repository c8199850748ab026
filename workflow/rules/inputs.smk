# What cells and tables need before they begin: the complete study, the images, and the facts of the network.

from dpscale.measure.workload.dataset import ARRAYS


# The complete study with every default, for the commands that need it.
rule study:
    output:
        STUDY_JSON,
    log:
        RESULTS / "logs/study.log",
    params:
        study=STUDY.to_json(),
    shell:
        "printf '%s\\n' {params.study:q} > {output} 2> {log}"


# The images, decoded once on the CPU, so that no GPU waits for that.
rule dataset:
    output:
        MANIFEST,
        expand(DATASET / "{array}", array=ARRAYS),
    log:
        RESULTS / "logs/dataset.log",
    resources:
        **CLUSTER.cpu_options(),
        mem_mb=lambda wildcards, attempt: 4000 * attempt,
        runtime=30,
    params:
        prefix=CLUSTER.prefix,
        source=STUDY["dataset"]["source"],
        root=STUDY["dataset"]["root"],
        images=STUDY["dataset"]["images"],
        download="--download" if STUDY["dataset"]["download"] else "--no-download",
        folder=DATASET,
    shell:
        "exec {params.prefix}dpscale dataset --source {params.source} --root {params.root:q} {params.download}"
        " --images {params.images} --out {params.folder:q} > {log} 2>&1"


# Facts of the network that need no measurement: its size, its FLOPs and its messages. On the CPU.
rule network:
    output:
        NETWORK,
    log:
        RESULTS / "logs/network.log",
    resources:
        **CLUSTER.cpu_options(),
        mem_mb=lambda wildcards, attempt: 4000 * attempt,
        runtime=15,
    params:
        prefix=CLUSTER.prefix,
        settings=NetworkSettings.of(STUDY.values).options(),
    shell:
        "exec {params.prefix}dpscale network {params.settings} --out {output:q} > {log} 2>&1"

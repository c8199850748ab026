# The images, decoded once on the CPU, so that no GPU waits for that.

from dpscale.measure.workload.arrays import ARRAYS


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
        prefix=CLUSTER.command_prefix,
        source=STUDY["dataset"]["source"],
        root=STUDY["dataset"]["root"],
        images=STUDY["dataset"]["images"],
        download="--download" if STUDY["dataset"]["download"] else "--no-download",
        folder=DATASET,
    shell:
        "exec {params.prefix}dpscale dataset --source {params.source} --root {params.root:q} {params.download}"
        " --images {params.images} --out {params.folder:q} > {log} 2>&1"

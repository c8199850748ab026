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
        prefix=CLUSTER.command_prefix,
        settings=NetworkSettings.of(STUDY.values).options(),
    shell:
        "exec {params.prefix}dpscale network {params.settings} --out {output:q} > {log} 2>&1"

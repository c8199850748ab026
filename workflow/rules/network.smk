# What is known of the network without measuring: its size, its work and its messages. On the CPU.


rule network:
    output:
        NETWORK,
    log:
        RESULTS / "logs/network.log",
    resources:
        **CLUSTER.cpu_options(),
        mem_mb=4000,
        runtime=15,
    params:
        prefix=CLUSTER.command_prefix,
        settings=NetworkSettings.of(STUDY.values).options(),
    shell:
        "exec {params.prefix}dpscale network {params.settings} --out {output:q} > {log} 2>&1"

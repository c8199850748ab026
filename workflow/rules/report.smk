# The page, from the tables alone.


rule report:
    input:
        study=lambda wildcards: of_this_study(STUDY_FILE),
        tables=expand(RESULTS / "tables/{name}.csv", name=TABLES),
        code=sources("present"),
    output:
        PAGE,
    params:
        tables=RESULTS / "tables",
    log:
        RESULTS / "logs/report.log",
    resources:
        mem_mb=2000,
        runtime=10,
    shell:
        "dpscale report --study {input.study:q} --tables {params.tables:q} --out {output:q} > {log} 2>&1"

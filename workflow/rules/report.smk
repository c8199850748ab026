# The page, from the tables alone.


rule report:
    input:
        study=STUDY_FILE,
        tables=TABLE_FILES,
        code=sources("present/*.py", "present/template/*"),
    output:
        PAGE,
    log:
        RESULTS / "logs/report.log",
    resources:
        **PAGE_JOB,
    params:
        tables=RESULTS / "tables",
    shell:
        "dpscale report --study {input.study:q} --tables {params.tables:q} --out {output:q} > {log} 2>&1"

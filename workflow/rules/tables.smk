# The numbers. Pure and quick: made again whenever a record, the study or their code changes.

from dpscale.analyse.names import TABLES


rule tables:
    input:
        study=lambda wildcards: of_this_study(STUDY_FILE),
        records=lambda wildcards: of_this_study(*(RESULTS / cell.path for cell in PLAN.cells)),
        code=sources("analyse"),
    output:
        expand(RESULTS / "tables/{name}.csv", name=TABLES),
    params:
        results=RESULTS,
        folder=RESULTS / "tables",
    log:
        RESULTS / "logs/tables.log",
    resources:
        mem_mb=2000,
        runtime=10,
    shell:
        "dpscale tables --study {input.study:q} --results {params.results:q} --out {params.folder:q} > {log} 2>&1"

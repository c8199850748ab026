# The tables. Pure and quick: made again whenever a record, the study or their code changes.


rule tables:
    input:
        study=STUDY_JSON,
        network=NETWORK,
        records=lambda wildcards: of_this_study(*RECORDS),
        audits=AUDITS,
        # Not `schemas`: a setting that is new and has its default changes no table.
        code=code_of(
            "vocabulary",
            "formulas",
            "strategies",
            "tables",
            "plan",
            "records",
            "analyse",
            "audit",
            "present/findings",
            "present/text",
        ),
    output:
        [
            report(file, caption=f"../report/tables/{file.stem}.rst", category="Tables", labels={"Table": file.stem})
            for file in TABLE_FILES
        ],
        answer=RESULTS / "tables/answer.json",
    log:
        RESULTS / "logs/tables.log",
    resources:
        **PAGE_JOB,
    params:
        results=RESULTS,
        folder=RESULTS / "tables",
        source=STUDY_SOURCES[0],
    shell:
        "dpscale tables --study {input.study:q} --results {params.results:q} --out {params.folder:q}"
        " --source {params.source:q} > {log} 2>&1"

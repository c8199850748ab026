# Tables and page, from the records alone.


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
        "dpscale tables {input.study:q} --results {params.results:q} --out {params.folder:q}"
        " --source {params.source:q} > {log} 2>&1"


# The page, from the tables alone, and its charts as files of their own.
rule report:
    input:
        study=STUDY_JSON,
        tables=TABLE_FILES,
        code=code_of("vocabulary", "present", "audit"),
    output:
        page=report(PAGE, caption="../report/page.rst", category="Page", labels={"Page": STUDY.name}),
        audit=report(
            AUDIT_PAGE,
            caption="../report/audit.rst",
            category="Page",
            labels={"Page": f"{STUDY.name}: other people's figures"},
        ),
        charts=report(
            directory(CHARTS),
            patterns=["{chart}.svg"],
            caption="../report/chart.rst",
            category="Charts",
            labels=chart_labels,
        ),
    log:
        RESULTS / "logs/report.log",
    resources:
        **PAGE_JOB,
    params:
        tables=RESULTS / "tables",
    shell:
        "dpscale report {input.study:q} --tables {params.tables:q} --out {output.page:q}"
        " --charts {output.charts:q} > {log} 2>&1"


# Tables and page from the records that exist, for when some cells failed. The rule has no output that Snakemake would
# compare: it runs whenever it is asked for. The complete page replaces this one when the missing cells are measured.
rule partial:
    input:
        study=lambda wildcards: of_this_study(STUDY_JSON),
        audits=AUDITS,
    log:
        RESULTS / "logs/partial.log",
    resources:
        **PAGE_JOB,
    params:
        results=RESULTS,
        tables=RESULTS / "tables",
        page=PAGE,
        charts=CHARTS,
        source=STUDY_SOURCES[0],
    # Without Snakemake's own time stamp in it, the charts' folder is as new as the page.
    shell:
        "{{ dpscale tables {input.study:q} --results {params.results:q} --out {params.tables:q}"
        " --source {params.source:q};"
        " dpscale report {input.study:q} --tables {params.tables:q} --out {params.page:q} --charts {params.charts:q};"
        " rm -f {params.charts:q}/.snakemake_timestamp; }} > {log} 2>&1"

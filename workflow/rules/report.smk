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
        "dpscale report --study {input.study:q} --tables {params.tables:q} --out {output.page:q}"
        " --charts {output.charts:q} > {log} 2>&1"

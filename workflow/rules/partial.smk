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
        "{{ dpscale tables --study {input.study:q} --results {params.results:q} --out {params.tables:q}"
        " --source {params.source:q};"
        " dpscale report --study {input.study:q} --tables {params.tables:q} --out {params.page:q} --charts {params.charts:q};"
        " rm -f {params.charts:q}/.snakemake_timestamp; }} > {log} 2>&1"

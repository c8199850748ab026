# Tables and page from what there is, for when some cells failed. It has no output that Snakemake would compare: it is
# made anew whenever it is asked for, and the complete page replaces it as soon as the missing cells are measured.


rule partial:
    input:
        study=lambda wildcards: of_this_study(STUDY_FILE),
        audits=AUDITS,
    log:
        RESULTS / "logs/partial.log",
    resources:
        **PAGE_JOB,
    params:
        results=RESULTS,
        tables=RESULTS / "tables",
        page=PAGE,
    shell:
        "{{ dpscale tables --study {input.study:q} --results {params.results:q} --out {params.tables:q};"
        " dpscale report --study {input.study:q} --tables {params.tables:q} --out {params.page:q}; }} > {log} 2>&1"

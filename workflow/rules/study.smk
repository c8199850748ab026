# The whole study with every default, for the commands that need all of it.


rule study:
    output:
        STUDY_JSON,
    log:
        RESULTS / "logs/study.log",
    params:
        study=STUDY.to_json(),
    shell:
        "printf '%s\\n' {params.study:q} > {output} 2> {log}"

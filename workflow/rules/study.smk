# The complete study with every default, for the commands that need it.


rule study:
    output:
        STUDY_JSON,
    log:
        RESULTS / "logs/study.log",
    params:
        study=STUDY.to_json(),
    shell:
        "printf '%s\\n' {params.study:q} > {output} 2> {log}"

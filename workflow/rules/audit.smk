# Other people's published figures: what they rest on, and what they should be. Nothing is measured for it.


rule audit:
    input:
        published=STUDY["published"],
        code=sources(
            "analyse/published/*.py",
            *[f"analyse/{name}.py" for name in ("bandwidth", "communication", "interval", "scaling")],
            *[f"{name}.py" for name in ("published", "schema")],
            *[f"../schemas/{name}.schema.yaml" for name in ("published", "audit")],
        ),
    output:
        AUDITS,
    log:
        RESULTS / "logs/audit.log",
    resources:
        **PAGE_JOB,
    params:
        folder=RESULTS / "audit",
    shell:
        "dpscale audit {input.published:q} --out {params.folder:q} > {log} 2>&1"

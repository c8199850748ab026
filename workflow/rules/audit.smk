# Figures that others published: how they were computed, and what they should be. This measures nothing.
# They wait for no cell: tables of what is measured so far need them too. So the study's own one-GPU times are not
# compared with theirs here; those of recorded studies are, from a table of the package.


rule audit:
    input:
        published=STUDY["published"],
        code=code_of("audit", "formulas", "vocabulary"),
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

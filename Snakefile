# What more GPUs really buy in data-parallel training: from one study file to timed cells, tables and a page.
# Stages are in workflow/rules, one file each; everything they run is a command of the package workflow/dpscale.

from snakemake.utils import min_version

min_version("9.27")


# A study file stands alone: with --configfile the default study is not mixed into it.
if not workflow.config_settings.configfiles:

    configfile: "config/config.yaml"


report: "workflow/report/workflow.rst"


include: "workflow/rules/common.smk"
include: "workflow/rules/inputs.smk"
include: "workflow/rules/timing.smk"
include: "workflow/rules/communication.smk"
include: "workflow/rules/training.smk"
include: "workflow/rules/audit.smk"
include: "workflow/rules/page.smk"


rule all:
    default_target: True
    input:
        PAGE,
        AUDIT_PAGE,
        CHARTS,
        TABLE_FILES,

"""Django's admin: every model can be looked at; what happens to jobs and workers happens through commands."""

from django.contrib import admin

from jobs.admin import executions, jobs, records, tokens, workers

__all__ = ["executions", "jobs", "records", "tokens", "workers"]

admin.site.site_header = "Rerail administration"
admin.site.site_title = "Rerail"
admin.site.index_title = "What is stored"

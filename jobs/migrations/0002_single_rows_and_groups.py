"""The rows of which there is one, the three groups, and room for HOT updates on rows that change often."""

from typing import Any

from django.db import migrations


def create(apps: Any, schema_editor: Any) -> None:
    apps.get_model("jobs", "Installation").objects.get_or_create(id=1)
    apps.get_model("jobs", "ReaperLease").objects.get_or_create(id=1)
    for name in ("viewer", "member", "operator"):
        apps.get_model("auth", "Group").objects.get_or_create(name=name)


class Migration(migrations.Migration):
    dependencies = [("jobs", "0001_initial"), ("auth", "0012_alter_user_first_name_max_length")]

    operations = [
        migrations.RunSQL("ALTER TABLE jobs_heartbeat SET (fillfactor = 50)", migrations.RunSQL.noop),
        migrations.RunSQL("ALTER TABLE jobs_worker SET (fillfactor = 50)", migrations.RunSQL.noop),
        migrations.RunPython(create, migrations.RunPython.noop),
    ]

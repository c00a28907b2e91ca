from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("jobs", "0004_queue_timeouts"),
    ]

    operations = [
        migrations.AddField(
            model_name="checkpoint",
            name="expired_at",
            field=models.DateTimeField(blank=True, help_text="When retention let its content go.", null=True),
        ),
        migrations.AddField(
            model_name="job",
            name="swept_at",
            field=models.DateTimeField(
                blank=True, help_text="When its storage was tidied after its end.", null=True
            ),
        ),
        migrations.AddIndex(
            model_name="checkpoint",
            index=models.Index(
                condition=models.Q(("expired_at__isnull", True)), fields=["job", "n"], name="checkpoint_kept"
            ),
        ),
        migrations.AddIndex(
            model_name="job",
            index=models.Index(
                condition=models.Q(("finished_at__isnull", False), ("swept_at__isnull", True)),
                fields=["finished_at"],
                name="job_unswept",
            ),
        ),
    ]

"""What the console commands share: their errors, the follower of timelines, and how it is shown."""

"""A script that was run as it is: its times by probe, and causes that its processes saw."""

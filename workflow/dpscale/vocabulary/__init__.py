"""Words that mean one thing in the whole project, as two tables of plain data: strategies and quantities."""

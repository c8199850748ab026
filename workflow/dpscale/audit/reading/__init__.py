"""What others wrote, and how it is read: published studies, tables of their authors."""

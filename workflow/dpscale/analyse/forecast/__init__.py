"""The forecast of ddp's step on more GPUs than were measured, and the test that it has to pass first."""

"""What models say of more GPUs: laws of scaling, models of allreduce, and forecasts of the step."""

"""Why a step is not faster: causes from times by probe, of a script or of a study's tables."""

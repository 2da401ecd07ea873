"""Forward and reverse prediction: regressors through a transfer, and classes or targets found along with the inputs."""

"""What the integration tests run on: a Docker engine, base images, hosts over SSH, bare systems."""

"""The shipped smoke tests, for testinfra and pytest. They present what the probe finds on each host, and look at the host itself.

    pytest --pyargs envkit.verify.smoke --hosts=ssh://me@lab1,docker://trainer,local:// --envkit-scheme=linux-cuda

The probe runs once a host. Every check is a test of its own, and a host on which nothing was computed has failed.
"""

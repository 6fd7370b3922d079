"""Settings that must be made before NumPy is imported."""

import os

# The matrices of these tests are small: threads of the linear algebra library only wait for each other, most of all when the suite itself
# runs in several processes (measured: 4 s alone, 70 s beside two others).
for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

"""Problems to prices: solvers, the oracle that reads rows, and the certificate."""

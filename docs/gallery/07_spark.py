"""
Spark
=====

A table lives on a cluster and stays there. Spark counts; what comes to the driver is one row per
combination of label and group. What leaves is a Spark frame again, with the fair labels in a new
column.
"""

import matplotlib.pyplot as plt
from pyspark.sql import SparkSession

import r2b

settings = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false"}
spark = SparkSession.builder.master("local[2]").config(map=settings).getOrCreate()
people = spark.range(3_000).selectExpr(
    "id",
    "if(id % 3 = 0, 'f', 'm') AS sex",
    "CASE WHEN (id * 37) % 100 < if(id % 3 = 0, 60, 30) THEN 'clerk' "
    "WHEN (id * 37) % 100 < 80 THEN 'engineer' ELSE 'manager' END AS job",
)

# %%
# ``scan`` opens the frame and reads nothing yet. Columns are asked for by name.

fair = r2b.scan(people).debias("job", sensitive_features="sex", epsilon=0.01)
print(fair)

# %% Rows of Spark have no order, so a key says which row is which: the same key gets the same
# label, however the table is cut into partitions.

rounded = fair.frame("round", key="id", random_state=0)
print(rounded.columns)
people_of = {row["sex"]: row["count"] for row in people.groupBy("sex").count().collect()}
for row in sorted(rounded.groupBy("job_fair", "sex").count().collect()):
    print(f"{row['job_fair']:<9} {row['sex']}  {row['count'] / people_of[row['sex']]:.3f}")

# %%
# The picture is the same as for rows in memory, from the same certificate.

fair.plot()
plt.show()

# message length in packets of 1,460 B, cumulative fraction of flows; workload datamining
1 0
1 0.5
2 0.6
3 0.7
7 0.8
267 0.9
2107 0.95
66667 0.99
666667 1
